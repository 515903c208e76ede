"""What a run is to measure, and how."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from backends.bench.arms import Arm
from backends.bench.messages import Job
from backends.bench.results import Case


@dataclass(frozen=True)
class Task:
    """A problem, and all its arms, those of a sweep included."""

    case: Case
    arms: tuple[Arm, ...]


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

    def job(
        self,
        task: Task,
        arms: tuple[Arm, ...],
        rounds: int,
        kernels: Mapping[str, bytes] | None = None,
    ) -> Job:
        """For some arms of a task, with no limit to the time of the rounds."""
        return Job(
            task.case.problem,
            arms,
            rounds,
            pack=self.pack,
            seed=self.seed,
            hang_seconds=self.hang_seconds,
            kernels=kernels or {},
        )
