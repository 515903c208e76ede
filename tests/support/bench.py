"""What a bench's worker measures with where there is no GPU: labs for whole runs, found by their
name in a process of their own."""

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from backends.bench.arms import Arm
from backends.bench.channel import Channel, Lost
from backends.bench.messages import At, Built, Died, Ending, Facts, Job, Message, Sample
from backends.bench.worker import Lab, Refused, serve
from backends.planner.choose import default_device
from backends.planner.problem import Problem

FAST, SLOW, TILE = "gemm 64x64x32 w4 s2", "gemm 64x64x64 w4 s2", "gemm 32x32x32 w4 s2"
REFUSED, WRONG, STALE = "gemm 16x16x16 w1 s1", "gemm 16x16x32 w1 s1", "gemm 16x16x64 w1 s1"
HUNG, CRASHED, LATE = "gemm 32x16x16 w1 s1", "gemm 32x16x32 w1 s1", "gemm 32x16x64 w1 s1"
BROKEN, WRONG_LATER = "gemm 64x16x16 w1 s1", "gemm 64x16x32 w1 s1"

KERNEL = b"what a kernel is made from"

#: us of a product; of all others 10
US = {"cublas": 20.0, "cublaslt": 25.0, FAST: 16.0, SLOW: 40.0}
DEVICE = replace(default_device(), name="a pretence")


class FakeLab:
    """Arms do what the text of their configuration stands for above."""

    def facts(self) -> Facts:
        return Facts(DEVICE, {"torch": "2", "triton": "3", "cuda": "", "python": "3"})

    def open(self, problem: Problem, seed: int) -> "FakeBench":
        if problem.m == 13:
            raise RuntimeError("no room for the operands")
        return FakeBench()


@dataclass
class FakeBench:
    samples: int = 0
    launched: list[str] = field(default_factory=list)
    written: dict[str, bool] = field(default_factory=dict)

    def build(self, arm: Arm, kernel: bytes) -> Built:
        if arm.name == REFUSED:
            raise Refused("CodegenError: too much shared memory")
        return Built(arm.name, 4096 if arm.name == SLOW else 0, b"" if kernel else KERNEL)

    def launch(self, arm: Arm) -> None:
        self.launched.append(arm.name)
        self.written[arm.name] = arm.name != STALE

    def wait(self) -> None:
        if self.launched and self.launched[-1] == HUNG:
            time.sleep(600)
        if self.launched and self.launched[-1] == CRASHED:
            os._exit(11)

    def poison(self, arm: Arm) -> None:
        self.written[arm.name] = False

    def error(self, arm: Arm) -> float:
        if not self.written[arm.name]:
            return float("inf")
        return 1.5 if arm.name == WRONG or (arm.name == WRONG_LATER and self.samples) else 0.25

    def sample(self, arm: Arm, pack: int) -> Sample:
        self.launch(arm)
        self.samples += 1
        if arm.name == LATE and self.samples > 20:
            time.sleep(600)
        if arm.name == BROKEN:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return Sample(US.get(arm.name, 10.0), 5.0 / pack)

    def close(self) -> None:
        self.launched.clear()


def broken_lab() -> FakeLab:
    raise RuntimeError("no CUDA-capable device is detected")


# --- where the labs are


def process() -> Channel:
    """A worker process, as on a GPU."""
    return Channel(FakeLab)


class Inline(Channel):
    """A worker in this process, for arms that neither hang nor end it."""

    def __init__(self, open_lab: Callable[[], Lab] = FakeLab):
        self._open_lab = open_lab
        self._heard: deque[Message] = deque()
        self._at = At(None, "start", 1.0)
        self._serve([])

    def send(self, job: Job) -> None:
        self._serve([job])
        self._heard.popleft()  # the facts, once more

    def next(self) -> Message:
        while isinstance(message := self._heard.popleft(), At):
            self._at = message
        if isinstance(message, Died):
            raise Lost(self._at.arm, Ending.CRASHED, f"{self._at.doing}: {message.text}")
        return message

    def kill(self) -> None:
        self._heard.clear()

    def _serve(self, jobs: list[Job]) -> None:
        serve(Jobs(jobs, self._heard.append), self._open_lab)


@dataclass
class Jobs:
    """The worker's end of a connection that closes behind the last job."""

    jobs: list[Job]
    send: Callable[[Message], None]

    def recv(self) -> Job:
        if not self.jobs:
            raise EOFError
        return self.jobs.pop(0)
