"""The work of a worker process, shape after shape: arms are built, checked, timed in turns, checked
again.

It says what it does before it does it, so that whoever listens knows what it hangs in.
"""

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

from backends.bench.arms import Arm
from backends.bench.messages import (
    At,
    Built,
    Checked,
    Died,
    Done,
    Ending,
    Facts,
    Failed,
    Job,
    Message,
    Round,
    Sample,
)
from backends.bench.rounds import fitting, turns
from backends.bench.stopwatch import Part, Stopwatch
from backends.planner.problem import Problem

SETUP_SECONDS, COMPILE_SECONDS = 120.0, 180.0


class Refused(Exception):
    """An arm cannot compute this problem on this device, or there is none; the text says why."""


class Bench(Protocol):
    """A problem's operands on a device, and the arms that were built for it."""

    def build(self, arm: Arm, kernel: bytes) -> Built:
        """Compile, from the `kernel` of an earlier Built unless it is empty; once. Refused."""
        ...

    def launch(self, arm: Arm) -> None:
        """Enqueue one product. Refused, where the device says so at the first launch."""
        ...

    def wait(self) -> None:
        """Until all that was enqueued has run."""
        ...

    def poison(self, arm: Arm) -> None:
        """Fill the arm's output with what no product is."""
        ...

    def error(self, arm: Arm) -> float:
        """Of the arm's output: the largest error over the allowed one, inf where one is NaN."""
        ...

    def sample(self, arm: Arm, pack: int) -> Sample:
        """The time of a product, as the mean of `pack` launches behind other GPU work."""
        ...

    def close(self) -> None:
        """Let go of the memory."""
        ...


class Lab(Protocol):
    """What a worker measures with."""

    def facts(self) -> Facts: ...

    def open(self, problem: Problem, seed: int) -> Bench: ...


def serve(connection: Connection, open_lab: Callable[[], Lab]) -> None:
    """Do the jobs that come, until the connection closes or a job leaves the device unusable."""
    try:
        lab = open_lab()
        connection.send(lab.facts())
        desk = _Desk(lab)
        while isinstance(job := connection.recv(), Job):
            _Work(job, desk, connection.send).run()
    except EOFError:
        return
    except Refused as refusal:
        connection.send(Died(str(refusal)))
    except Exception as error:  # of the device, which may be left in any state
        connection.send(Died(f"{type(error).__name__}: {error}"))


class _Desk:
    """What a lab opens; it stays for the next job on the same problem: operands, the reference and
    the arms that were built are made once."""

    def __init__(self, lab: Lab):
        self._lab = lab
        self._of: tuple[Problem, int] | None = None
        self._bench: Bench | None = None

    def bench(self, problem: Problem, seed: int) -> Bench:
        if self._bench is None or self._of != (problem, seed):
            self._clear()
            self._bench, self._of = self._lab.open(problem, seed), (problem, seed)
        return self._bench

    def _clear(self) -> None:
        """Before there is another: there may be no room for both."""
        bench, self._bench = self._bench, None
        if bench is not None:
            bench.close()


class _Work:
    def __init__(self, job: Job, desk: _Desk, tell: Callable[[Message], None]):
        self.job, self.tell = job, tell
        self.watch = Stopwatch()
        self.watch.begin(Part.LOAD)
        tell(At(None, "make operands", SETUP_SECONDS))
        self.bench = desk.bench(job.problem, job.seed)

    def run(self) -> None:
        arms = [arm for arm in self.job.arms if self._starts(arm)]
        if self.job.rounds:
            self._measure(arms)
        self.watch.begin(Part.REST)
        self.tell(Done(self.watch.seconds))

    def _measure(self, arms: list[Arm]) -> None:
        self.watch.begin(Part.CHECK)
        right = [arm for arm in arms if self._is_right(arm)]
        self.watch.begin(Part.TIME)
        if right:
            self._time(right)
            self.watch.begin(Part.CHECK)
            self._check_timed(right)

    def _starts(self, arm: Arm) -> bool:
        """Whether it compiles and runs."""
        try:
            self.tell(At(arm.name, "compile", COMPILE_SECONDS))
            self.tell(self.bench.build(arm, self.job.kernels.get(arm.name, b"")))
            self.bench.launch(arm)
        except Refused as refusal:
            self.tell(Failed(arm.name, Ending.REFUSED, str(refusal)))
            return False
        self.tell(At(arm.name, "run", self.job.hang_seconds))
        self.bench.wait()
        return True

    def _is_right(self, arm: Arm) -> bool:
        """Whether one launch writes the product, into an output that does not hold it yet."""
        self.tell(At(arm.name, "check", self.job.hang_seconds))
        self.bench.poison(arm)
        self.bench.launch(arm)
        return self._written(arm)

    def _written(self, arm: Arm) -> bool:
        self.bench.wait()
        error = self.bench.error(arm)
        self.tell(Checked(arm.name, error))
        if error <= 1:
            return True
        text = f"the result is off by {error:.3g} times the allowed error"
        self.tell(Failed(arm.name, Ending.WRONG, text))
        return False

    def _time(self, arms: list[Arm]) -> None:
        self._round(arms)
        start = time.monotonic()
        self._round(arms)
        round_seconds = time.monotonic() - start
        for turn in turns(arms, fitting(self.job.rounds, self.job.seconds, round_seconds)):
            self.tell(Round(self._round(turn)))

    def _round(self, turn: tuple[Arm, ...] | list[Arm]) -> dict[str, Sample]:
        return {arm.name: self._sample(arm) for arm in turn}

    def _sample(self, arm: Arm) -> Sample:
        self.tell(At(arm.name, "run", self.job.hang_seconds))
        return self.bench.sample(arm, self.job.pack)

    def _check_timed(self, arms: list[Arm]) -> None:
        """What a launch as the timed ones were writes, once more."""
        for arm in arms:
            self.bench.poison(arm)
        self._round(arms)
        for arm in arms:
            self.tell(At(arm.name, "check", self.job.hang_seconds))
            self._written(arm)
