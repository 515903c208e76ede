"""What became of the arms of a shape: times, and the ratios to every group of arms."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backends.bench.arms import PLANNER, Arm, Group
from backends.bench.outcome import Outcome
from backends.bench.stats import Ratio, paired_ratio
from backends.planner.problem import Problem

OK, NOT_RUN = "ok", "not run"
#: groups that every arm is compared with
PEERS = (Group.BLAS, Group.INDUCTOR, Group.DATA_PARALLEL, Group.SWEEP)
#: of which group the arm is that stands for a shape: of the first one that has times
_SHOWN = (Group.OURS, Group.SWEEP, Group.DATA_PARALLEL, Group.BLAS, Group.INDUCTOR)


@dataclass(frozen=True)
class Case:
    """A problem, and the set of shapes that it is of."""

    set: str
    problem: Problem

    @property
    def sizes_text(self) -> str:
        """`MxNxK`, with the batch before them if there is one."""
        p = self.problem
        return "x".join(map(str, (*([p.batch] if p.batch != 1 else []), p.m, p.n, p.k)))


@dataclass(frozen=True)
class Result:
    """One arm on one problem. `us`: the median of `times`, with their quartiles; None where there
    are none, as `status` and `reason` say. `error`: over the allowed one. `ratios`: by group,
    against the fastest arm of the group in each round."""

    case: Case
    arm: Arm
    status: str
    reason: str = ""
    us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    host_us: float | None = None
    workspace_bytes: int | None = None
    error: float | None = None
    rounds: int = 0
    ratios: Mapping[Group, Ratio] = field(default_factory=dict)
    times: tuple[float, ...] = ()

    @property
    def tflops(self) -> float | None:
        return self.us and self.case.problem.flops / self.us * 1e-6

    @property
    def gbs(self) -> float | None:
        """GB/s of the bytes that any way must move."""
        return self.us and self.case.problem.least_bytes / self.us * 1e-3


def results(case: Case, arms: Sequence[Arm], outcome: Outcome) -> tuple[Result, ...]:
    """Of every arm, with its ratio to each group that has an arm with times, its own apart."""
    timed = outcome.rounds[0] if outcome.rounds else {}
    alive = [a for a in arms if a.name in timed and a.name not in outcome.failures]
    return tuple(_result(case, arm, alive, outcome) for arm in arms)


def with_times(found: Sequence[Result]) -> list[Result]:
    """Those that have times, the fastest first."""
    return sorted((r for r in found if r.status == OK), key=lambda r: r.us or 0.0)


def chosen(found: Sequence[Result]) -> Result | None:
    """The result that stands for a shape: the planner's, or the fastest of ours, of a sweep, of
    data-parallel kernels, of libraries; None where no arm has times."""
    timed = with_times(found)
    for group in _SHOWN:
        of_group = [r for r in timed if r.arm.group is group]
        if of_group:
            return next((r for r in of_group if r.arm.name == PLANNER), of_group[0])
    return None


def one_line(text: str, most: int) -> str:
    """A text without line breaks, and without what goes beyond `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _result(case: Case, arm: Arm, alive: list[Arm], outcome: Outcome) -> Result:
    size, error = outcome.workspace_bytes.get(arm.name), outcome.errors.get(arm.name)
    if arm not in alive:
        status, reason = _why(arm, outcome)
        return Result(case, arm, status, reason, workspace_bytes=size, error=error)
    times = outcome.times(arm.name)
    low, high = _quartiles(times)
    return Result(
        case,
        arm,
        OK,
        us=statistics.median(times),
        low_us=low,
        high_us=high,
        host_us=statistics.median(outcome.host_times(arm.name)),
        workspace_bytes=size,
        error=error,
        rounds=len(times),
        ratios=dict(_ratios(arm, alive, outcome)),
        times=tuple(times),
    )


def _why(arm: Arm, outcome: Outcome) -> tuple[str, str]:
    """Status and reason of an arm without times."""
    failed = outcome.failures.get(arm.name)
    return (failed.ending.value, failed.text) if failed else (NOT_RUN, "no time was left")


def _quartiles(times: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return low, high


def _ratios(arm: Arm, alive: list[Arm], outcome: Outcome) -> Iterator[tuple[Group, Ratio]]:
    for group in PEERS:
        peers = [outcome.times(a.name) for a in alive if a.group is group]
        if peers and arm.group is not group:
            yield group, paired_ratio(peers, outcome.times(arm.name))
