"""What a worker measures with on a GPU: tensors, compiled kernels, events."""

import platform
import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import torch
import triton

from backends.bench.arms import Arm, Group
from backends.bench.messages import Built, Facts, Sample
from backends.bench.operands import Operands
from backends.bench.runners import Runner, runner
from backends.bench.worker import Refused
from backends.planner.problem import Problem
from backends.triton_codegen.ops.devices import device_of

_T = TypeVar("_T")
_FLUSH_BYTES = 256 << 20  # more than L2 holds; a fill takes about 60 us on an H200
_FILLS = 2  # a product of a sample


class GpuLab:
    """`torch` and `triton` on the current GPU. Refused: there is none."""

    def __init__(self):
        if not torch.cuda.is_available():
            raise Refused("there is no GPU that torch can use")

    def facts(self) -> Facts:
        versions = {
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": str(torch.version.cuda),
            "python": platform.python_version(),
        }
        return Facts(device_of(torch.cuda.current_device()), versions)

    def open(self, problem: Problem, seed: int) -> "GpuBench":
        return GpuBench(Operands(problem, seed, "cuda"))


class GpuBench:
    """One problem's arms. On the CPU, where kernels are interpreted, all but `sample` works too."""

    def __init__(self, operands: Operands):
        self._operands = operands
        self._runners: dict[str, Runner] = {}

    @cached_property
    def _flush(self) -> torch.Tensor:
        return torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def build(self, arm: Arm, kernel: bytes = b"") -> Built:
        made = self._runners.get(arm.name)
        if made is None:
            made = self._tried(lambda: runner(arm, self._operands, kernel))
            self._runners[arm.name] = made
        return Built(arm.name, made.workspace_bytes, made.kernel)

    def launch(self, arm: Arm) -> None:
        made = self._runners[arm.name]
        made.prepare()
        self._tried(made.run)

    def wait(self) -> None:
        if self._operands.device != "cpu":
            torch.cuda.synchronize()

    def poison(self, arm: Arm) -> None:
        self._runners[arm.name].poison()

    def error(self, arm: Arm) -> float:
        out = self._runners[arm.name].out
        assert out is not None, "it was launched"
        is_ours = arm.group not in (Group.BLAS, Group.INDUCTOR)
        return self._operands.error(out, is_ours)

    def sample(self, arm: Arm, pack: int) -> Sample:
        made, (start, end) = self._runners[arm.name], self._events
        made.prepare()
        for i in range(_FILLS * pack):  # the host is ahead of the GPU, and L2 is cold
            self._flush.fill_(i % 2)
        start.record()
        before = time.perf_counter()
        for _ in range(pack):
            made.run()
        host_seconds = time.perf_counter() - before
        end.record()
        end.synchronize()
        us = start.elapsed_time(end) * 1e3
        return Sample(us / pack, host_seconds * 1e6 / pack)

    def close(self) -> None:
        for made in self._runners.values():
            made.release()
        self._runners.clear()

    def _tried(self, action: Callable[[], _T]) -> _T:
        """Its result. Refused: it raised, and the device still works."""
        try:
            return action()
        except Exception as error:
            self.wait()  # raises where the device is lost
            raise Refused(f"{type(error).__name__}: {error}") from error
