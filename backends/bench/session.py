"""A run: compile all kernels at once, then time the arms shape by shape, and tell what is known
after each."""

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from backends.bench.arms import Arm, Group
from backends.bench.crew import Crew, Worker
from backends.bench.kernels import Kernel, by_arm, groups, kernel_jobs
from backends.bench.messages import Failed, Job
from backends.bench.outcome import Outcome
from backends.bench.progress import Progress
from backends.bench.results import Result, results
from backends.bench.stopwatch import Part, Stopwatch
from backends.bench.task import Method, Task

_KERNELS_A_WORKER = 64  # compiled at once; more than most runs have
_CROWDS = (Group.SWEEP, Group.DATA_PARALLEL)


class Session:
    """`timer`: the worker that times; `crew`: those that compile; `watch`: told what time goes
    into."""

    def __init__(
        self,
        method: Method,
        timer: Worker,
        crew: Crew,
        progress: Progress,
        watch: Stopwatch,
    ):
        self._method, self._timer, self._crew = method, timer, crew
        self._progress, self._watch = progress, watch
        self._end = watch.now() + method.seconds

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Result, ...]]:
        """The results of each task as it ends; fewer than there are tasks where time is up."""
        done = 0
        for group in groups(tasks, self._crew.size * _KERNELS_A_WORKER):
            compiled = self._compile(group, done)
            for task in group:
                if self._is_late():
                    return
                seconds = max(0.0, self._end - self._watch.now()) / (len(tasks) - done)
                yield self._timed(task, by_arm(task, compiled), seconds, done)
                done += 1

    def _is_late(self) -> bool:
        return self._watch.now() >= self._end

    def _compile(self, tasks: Sequence[Task], done: int) -> dict[Kernel, Outcome]:
        """What became of every kernel; of some, where time is up."""
        jobs, outcomes = kernel_jobs(tasks, self._method), {}
        if self._is_late():
            return outcomes
        self._watch.begin(Part.COMPILE)
        for kernel, outcome in self._crew.do_all(jobs):
            outcomes[kernel] = outcome
            self._progress.show(done, f"compiled {len(outcomes)} of {len(jobs)} kernels")
            if self._is_late():
                break
        self._watch.begin(Part.REST)
        return outcomes

    def _timed(
        self, task: Task, compiled: Outcome, seconds: float, done: int
    ) -> tuple[Result, ...]:
        """Of all arms; those that were timed afresh with the later times, and before the rest."""
        method, failed = self._method, compiled.failures
        job = method.job(task, _without(task.arms, failed), method.rounds, compiled.kernels)
        crowds = _crowds(job.arms, method.top)
        if not crowds:
            outcome = self._measured(replace(job, seconds=seconds), done)
            return _told(task, task.arms, outcome, failed)
        job = replace(job, seconds=seconds / 2)
        first = self._measured(replace(job, rounds=method.sweep_rounds), done)
        slow = {name for crowd in crowds for name in _slow(crowd, first, method.top)}
        again = _without(job.arms, slow | first.failures.keys())
        second = self._measured(replace(job, arms=again), done)
        rest = _without(task.arms, {arm.name for arm in again})
        return (*_told(task, again, second, {}), *_told(task, rest, first, failed))

    def _measured(self, job: Job, done: int) -> Outcome:
        def on_round(count: int) -> None:
            self._progress.show(done + count / job.rounds, f"{job.problem} round {count}")

        self._progress.show(done, f"{job.problem} checks")
        outcome = self._timer.do(job, on_round)
        self._watch.move(outcome.seconds)
        return outcome


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
