"""A run: compile all arms of a few shapes at once, then time them shape by shape, and tell what is
known after each."""

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from backends.bench.arms import Arm, Group
from backends.bench.crew import Crew, Worker
from backends.bench.messages import Failed, Job
from backends.bench.outcome import Outcome
from backends.bench.progress import Progress
from backends.bench.results import Case, Result, results

_KERNELS_A_WORKER = 4  # compiled between two times of timing
_CROWDS = (Group.SWEEP, Group.DATA_PARALLEL)


@dataclass(frozen=True)
class Method:
    """How to measure. `top`: how many arms of a sweep, and of the data-parallel ones, are timed
    afresh with `rounds`, after all were timed with `sweep_rounds`; `seconds`: of the whole run."""

    rounds: int = 60
    sweep_rounds: int = 12
    top: int = 3
    pack: int = 1
    seed: int = 0
    seconds: float = math.inf
    hang_seconds: float = 8.0


@dataclass(frozen=True)
class Task:
    """A problem, and all its arms, those of a sweep included."""

    case: Case
    arms: tuple[Arm, ...]


class Session:
    """`timer`: the worker that times; `crew`: those that compile."""

    def __init__(
        self,
        method: Method,
        timer: Worker,
        crew: Crew,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._method, self._timer, self._crew = method, timer, crew
        self._progress, self._clock = progress, clock
        self._end = clock() + method.seconds

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Result, ...]]:
        """The results of each task as it ends; fewer than there are tasks where time is up."""
        done = 0
        for group in _groups(tasks, self._crew.size * _KERNELS_A_WORKER):
            if self._is_late():
                return
            failures = self._compile(group, done)
            for task, failed in zip(group, failures, strict=True):
                if self._is_late():
                    return
                seconds = max(0.0, self._end - self._clock()) / (len(tasks) - done)
                yield self._timed(task, failed, seconds, done)
                done += 1

    def _is_late(self) -> bool:
        return self._clock() >= self._end

    def _compile(self, tasks: Sequence[Task], done: int) -> list[dict[str, Failed]]:
        """Run every generated arm once, many at a time; the failures by arm of each task."""
        failures: list[dict[str, Failed]] = [{} for _ in tasks]
        jobs = {
            (i, arm.name): self._job(task, (arm,), rounds=0)
            for i, task in enumerate(tasks)
            for arm in task.arms
            if arm.config is not None
        }
        for count, ((i, _), outcome) in enumerate(self._crew.do_all(jobs), 1):
            failures[i] |= outcome.failures
            self._progress.show(done, f"compiled {count} of {len(jobs)} kernels")
            if self._is_late():
                break
        return failures

    def _timed(
        self, task: Task, failed: dict[str, Failed], seconds: float, done: int
    ) -> tuple[Result, ...]:
        """Of all arms; those that were timed afresh with the later times, and before the rest."""
        method, arms = self._method, _without(task.arms, failed)
        crowds = _crowds(arms, method.top)
        if not crowds:
            outcome = self._measured(task, arms, method.rounds, seconds, done)
            return _told(task, task.arms, outcome, failed)
        first = self._measured(task, arms, method.sweep_rounds, seconds / 2, done)
        slow = {name for crowd in crowds for name in _slow(crowd, first, method.top)}
        again = _without(arms, slow | first.failures.keys())
        second = self._measured(task, again, method.rounds, seconds / 2, done)
        rest = _without(task.arms, {arm.name for arm in again})
        return (*_told(task, again, second, {}), *_told(task, rest, first, failed))

    def _measured(
        self, task: Task, arms: tuple[Arm, ...], rounds: int, seconds: float, done: int
    ) -> Outcome:
        def on_round(count: int) -> None:
            self._progress.show(done + count / rounds, f"{task.case.problem} round {count}")

        self._progress.show(done, f"{task.case.problem} checks")
        return self._timer.do(self._job(task, arms, rounds, seconds), on_round)

    def _job(
        self, task: Task, arms: tuple[Arm, ...], rounds: int, seconds: float = math.inf
    ) -> Job:
        m = self._method
        return Job(task.case.problem, arms, rounds, m.pack, m.seed, seconds, m.hang_seconds)


def _groups(tasks: Sequence[Task], least: int) -> Iterator[list[Task]]:
    """Runs of tasks with about `least` generated kernels each, so that every process has work and
    the first times do not wait for the last kernel."""
    group, count = [], 0
    for task in tasks:
        group.append(task)
        count += sum(arm.config is not None for arm in task.arms)
        if count >= least:
            yield group
            group, count = [], 0
    if group:
        yield group


def _without(arms: Sequence[Arm], names: Collection[str]) -> tuple[Arm, ...]:
    return tuple(arm for arm in arms if arm.name not in names)


def _crowds(arms: Sequence[Arm], most: int) -> list[list[str]]:
    """The names of the arms of each group that is cut to its fastest few."""
    groups = ([arm.name for arm in arms if arm.group is group] for group in _CROWDS)
    return [names for names in groups if len(names) > most]


def _slow(names: Sequence[str], outcome: Outcome, kept: int) -> list[str]:
    """Those behind the fastest few that have times."""
    timed = [name for name in names if name not in outcome.failures]
    return sorted(timed, key=lambda name: statistics.median(outcome.times(name)))[kept:]


def _told(
    task: Task, arms: Sequence[Arm], outcome: Outcome, failed: dict[str, Failed]
) -> tuple[Result, ...]:
    """Of `arms`, compared with all that the outcome has."""
    known = replace(outcome, failures={**failed, **outcome.failures})
    return tuple(r for r in results(task.case, task.arms, known) if r.arm in arms)
