"""Kernels that are compiled before anything is timed: each once, whichever arms run it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from backends.bench.arms import Arm, Library
from backends.bench.messages import Job
from backends.bench.outcome import Outcome
from backends.bench.task import Method, Task
from backends.planner.config import Config
from backends.planner.problem import Problem

Kernel: TypeAlias = tuple[Problem, Config | Library]


def kernel_jobs(tasks: Sequence[Task], method: Method) -> dict[Kernel, Job]:
    """One job a kernel: it is compiled and run once."""
    return {
        kernel: method.job(task, (arm,), rounds=0)
        for task in tasks
        for arm, kernel in _kernels(task)
    }


def by_arm(task: Task, outcomes: Mapping[Kernel, Outcome]) -> Outcome:
    """The kernels and failures of a task's arms; nothing of those that no job was done for."""
    found = Outcome()
    for arm, kernel in _kernels(task):
        outcome = outcomes.get(kernel, Outcome())
        for made in outcome.kernels.values():
            found.kernels[arm.name] = made
        for failed in outcome.failures.values():
            found.failures[arm.name] = replace(failed, arm=arm.name)
    return found


def groups(tasks: Sequence[Task], least: int) -> Iterator[list[Task]]:
    """Runs of tasks with about `least` kernels each, so that every process has work and the first
    times of a large sweep do not wait for its last kernel."""
    group, count = [], 0
    for task in tasks:
        group.append(task)
        count += len(list(_kernels(task)))
        if count >= least:
            yield group
            group, count = [], 0
    if group:
        yield group


def _kernels(task: Task) -> Iterator[tuple[Arm, Kernel]]:
    """Of the arms for which something is compiled that lasts longer than the process."""
    for arm in task.arms:
        if arm.config is not None:
            yield arm, (task.case.problem, arm.config)
        elif arm.library is Library.MATMUL:
            yield arm, (task.case.problem, Library.MATMUL)
