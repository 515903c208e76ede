"""Runs what a loader launches: the source in the bundle, interpreted, on the very bytes that the
driver was given."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from backends.triton_codegen.bundle.loading.arrays import TORCH_NAMES, Array
from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.interpret import interpreting
from backends.triton_codegen.load import load
from tests.support.fake_cuda import FakeCuda, Launch, described

_NAMES = {getattr(torch, theirs): ours for ours, theirs in TORCH_NAMES.items()}


def array(tensor: torch.Tensor, device: int = 0) -> Array:
    """A tensor of the host as one of a device, which the fake driver has in the host's memory."""
    dtype = _NAMES[tensor.dtype]
    return Array(tensor.data_ptr(), dtype, tuple(tensor.shape), tuple(tensor.stride()), device)


def interpreting_cuda(folder: Path, **how: Any) -> FakeCuda:
    """A fake driver whose launches do what the kernels of the bundle do."""
    fake = FakeCuda(folder, **how)
    manifest = Folder(folder).manifest
    fake.run = lambda launch: _run(folder, manifest, fake, launch)
    return fake


def _run(folder: Path, manifest: Any, fake: FakeCuda, launch: Launch) -> None:
    program, variant = _found(folder, manifest, launch)
    namespace = load((folder / program.source).read_text())
    dtypes = {b.name: b.dtype for b in (*program.parameters, *program.workspace.parts)}
    arguments = {c.name: c.value for c in variant.constants}
    passed = iter(zip(variant.arguments, launch.parameters, launch.numbers(), strict=True))
    for argument, raw, number in passed:
        if argument.type == "tensor_map":
            arguments[argument.name] = _descriptor(described(raw, fake.maps), passed, dtypes, fake)
        elif argument.kind in ("parameter", "workspace"):
            arguments[argument.name] = _at(number, dtypes[argument.expression.tree[1]])
        elif not argument.kind.endswith("_scratch"):
            arguments[argument.name] = number
    with interpreting(vars(namespace)):
        getattr(namespace, launch.symbol)[(launch.blocks,)](**arguments)


def _found(folder: Path, manifest: Any, launch: Launch) -> tuple[Any, Any]:
    path = Path(launch.binary).relative_to(folder).as_posix()
    each = ((p, k) for p in manifest.programs for k in p.kernels)
    found = ((p, v) for p, k in each for b in k.builds for v in b.variants)
    return next((p, v) for p, v in found if v.binary == path)


def _descriptor(about: dict[str, Any], passed: Any, dtypes: Any, fake: FakeCuda) -> Any:
    """The descriptor that the next arguments say the shape and strides of; the map agrees."""
    rank = len(about["extents"])
    rest = [next(passed) for _ in range(2 * rank)]
    shape, strides = ([number for _, _, number in rest[i : i + rank]] for i in (0, rank))
    name = rest[0][0].expression.tree[1]
    base = _at(about["start"], dtypes[name])
    assert about["extents"] == shape[::-1]
    assert about["strides"] == [s * base.element_size() for s in strides[:-1]][::-1]
    return TensorDescriptor(base, shape, strides, about["box"][::-1])


def _at(address: int, dtype: str) -> torch.Tensor:
    """An element of a buffer, whose address is all that the interpreter asks for."""
    theirs = getattr(torch, TORCH_NAMES[dtype])
    if not address:  # an empty tensor, which nobody reads
        return torch.empty(1, dtype=theirs)
    memory = (ctypes.c_ubyte * theirs.itemsize).from_address(address)
    return torch.frombuffer(memory, dtype=theirs)
