"""What Triton's own launcher passes to the driver for launches of emitted files, as a program: its
input is JSON of programs and tensors, its output where the tensors lie and what is zeroed.

It runs in a process of its own, whose libcuda.so.1 is the mock; tensors are on the CPU, since the
mock looks at no memory. Triton builds its launcher with gcc and the headers of Python.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from backends.triton_codegen import Settings, emit
from backends.triton_codegen.aot import (
    AotKernel,
    _signature,
    aligned_arguments,
    compile_function,
)
from backends.triton_codegen.load import load
from backends.triton_codegen.module import KernelArg, KernelInfo
from backends.triton_codegen.targets import parse_target
from loopir.nodes import Kernel
from loopir.parser import parse

STREAM = 4242


def triton_launches(driver: Path, requests: Sequence[Mapping[str, Any]], **mock: Any) -> list:
    """An output for each request (see `_record`), whose `log` gets the calls of the driver."""
    settings = {f"MOCK_{name}": str(value) for name, value in mock.items()}
    places = {"LD_LIBRARY_PATH": str(driver), "TRITON_LIBCUDA_PATH": str(driver)}
    settings["TRITON_DISABLE_LINE_INFO"] = "1"  # as in a bundle: the binaries are the same
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.triton_launches"],
        input=json.dumps(requests),
        env={**os.environ, **places, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def tensor_of(torch: Any, given: Mapping[str, Any]) -> Any:
    """Of sizes and strides, `offset` bytes behind a multiple of 256."""
    dtype = getattr(torch, given["dtype"])
    sizes, strides = given["sizes"], given["strides"]
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n) + 1
    memory = torch.empty(reach * dtype.itemsize + 512, dtype=torch.uint8)
    start = -memory.data_ptr() % 256 + given["offset"]
    return memory[start : start + reach * dtype.itemsize].view(dtype).as_strided(sizes, strides)


class _Recorder:
    """Passes the calls of an emitted file on to Triton's launcher, which calls the mock."""

    def __init__(self, kernels: Mapping[str, AotKernel], driver: Any):
        self.kernels, self.driver = kernels, driver
        self.events: list[Any] = []

    def zero(self, tensor: Any) -> None:
        place = tensor.data_ptr(), list(tensor.shape), list(tensor.stride())
        self.events.append(("zero", *place, tensor.element_size()))

    def launch(self, call: Any, *buffers: Any) -> None:
        if call.blocks <= 0:
            return
        name = call.function.__name__
        self.events.append(("launch", name))
        kernel, utils = self.kernels[name], self.driver.utils
        metadata = SimpleNamespace(**kernel.metadata)
        metadata.launch_pdl = call.options.get("launch_pdl", False)
        signature = {a.name: _signature(a) for a in kernel.info.args}
        source = SimpleNamespace(constants={}, signature=signature)
        _, function, *_ = utils.load_binary(name, kernel.binary, metadata.shared, 0)
        packed = metadata.num_warps, metadata.num_ctas, metadata.shared
        launcher, grid = self.driver.launcher_cls(source, metadata), (call.blocks, 1, 1)
        hooks = packed, None, None, None
        launcher(*grid, STREAM, function, *hooks, *call.arguments(buffers))


@cache
def _compiled(program: str, pipeline: str, settings: str, target: str, is_aligned: bool) -> Any:
    """The module, and its kernels by name; not `is_aligned`: for tensors of any alignment."""
    module = emit(parse(program), Settings(**json.loads(settings)), pipeline)

    def hinted(info: KernelInfo, kernel: Kernel) -> tuple[KernelArg, ...]:
        names = () if is_aligned else {p.name for p in kernel.params}
        return tuple(a for a in aligned_arguments(info, kernel) if a.symbol not in names)

    each = zip(module.kernels, module.program.kernels, strict=True)
    functions = [(v, k) for info, k in each for v in (info, info.described) if v]
    goal = parse_target(target)
    found = {v.name: compile_function(module, v, hinted(v, k), goal) for v, k in functions}
    return module, found


def _record(request: Mapping[str, Any], driver: Any) -> dict[str, Any]:
    """One launch of `program` with `tensors` (see `tensor_of`), its options and workspace."""
    import torch
    from triton import knobs

    os.environ["MOCK_LOG"] = request["log"]
    settings = json.dumps(request["settings"])
    program = request["program"], request["pipeline"], settings
    module, kernels = _compiled(*program, request["target"], request["is_aligned"])
    namespace, recorder = load(module.source), _Recorder(kernels, driver)
    vars(namespace).update(_interpreter="mended", _SMS={-1: request["sms"]}, _zero=recorder.zero)
    namespace._Call.__call__ = lambda call, *buffers: recorder.launch(call, *buffers)
    tensors = [tensor_of(torch, t) for t in request["tensors"]]
    size = request["workspace_bytes"]
    memory = torch.zeros(size + 256, dtype=torch.uint8)
    room = memory[-memory.data_ptr() % 256 :][:size]
    with knobs.runtime.scope():
        knobs.runtime.interpret = True  # the file then takes tensors of the CPU
        namespace.launch(*tensors, **({"workspace": room} if size else {}))
    places = [t.data_ptr() for t in tensors]
    return {"tensors": places, "workspace": room.data_ptr(), "events": recorder.events}


def main() -> None:
    from triton.backends.nvidia.driver import CudaDriver
    from triton.runtime import driver

    driver.set_active(CudaDriver())
    print(json.dumps([_record(r, driver.active) for r in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
