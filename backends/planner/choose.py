"""The choice: candidates by predicted time, and why the first one is."""

from dataclasses import dataclass
from functools import lru_cache

from backends.planner.config import Config
from backends.planner.device import Device, shipped
from backends.planner.family import family
from backends.planner.model import Prediction, predict
from backends.planner.passes_of import shares_tiles
from backends.planner.problem import Problem

DEFAULT_DEVICE = "NVIDIA H200"
_SHOWN = 4
_MOST = 60  # candidates of a problem
_DOUBT = 1.02  # predicted time that a shared tile must gain: what it costs is the less certain
_DOUBT_US = 0.4  # the same, at least
_HOPELESS = 2.0  # predicted time over the best one, from which on a configuration is no candidate


@dataclass(frozen=True)
class Ranked:
    """A candidate and its prediction."""

    config: Config
    prediction: Prediction


@dataclass(frozen=True)
class Plan:
    """All candidates of a problem, the fastest by prediction first; one that shares tiles out
    stands behind those of whole tiles that it gains less than 2 % or 0.4 us on."""

    problem: Problem
    device: Device
    ranked: tuple[Ranked, ...]

    @property
    def chosen(self) -> Ranked:
        return self.ranked[0]

    def text(self, shown: int = _SHOWN) -> str:
        """The prediction of the choice by its parts, and the runners-up."""
        chosen = self.chosen
        parts = chosen.prediction.parts.items()
        return "\n".join(
            (
                f"{self.problem} on {self.device.name}: {chosen.prediction.time:.1f} us predicted, "
                f"bound by {chosen.prediction.binds.value}",
                f"  {chosen.config}",
                "  its parts, which overlap, so that they do not add up:",
                *(f"    {term.value:24} {us:9.2f} us" for term, us in parts if us >= 0.005),
                f"  runners-up of {len(self.ranked)} candidates:",
                *(_line(r, chosen) for r in self.ranked[1:shown]),
            )
        )


def _line(ranked: Ranked, chosen: Ranked) -> str:
    ratio = ranked.prediction.time / chosen.prediction.time
    binds = ranked.prediction.binds.value
    return f"    {ranked.prediction.time:9.1f} us  x{ratio:.2f}  {ranked.config}  ({binds})"


def default_device() -> Device:
    return shipped()[DEFAULT_DEVICE]


def plan(problem: Problem | str, device: Device | None = None) -> Plan:
    """The candidates of `problem`, or of its text, in the order of `Plan`; ties in their own
    order. ValueError: C has no element, no tile has room on the device, or the text is no
    problem."""
    return _plan(_read(problem), device or default_device())


def _is_empty(problem: Problem) -> bool:
    return 0 in (problem.m, problem.n, problem.batch)


def _read(problem: Problem | str) -> Problem:
    if isinstance(problem, str):
        return Problem.parse(problem)
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: expected a Problem or its text, got {type(problem).__name__}")
    return problem


@lru_cache(maxsize=1024)
def _plan(problem: Problem, device: Device) -> Plan:
    found = [Ranked(c, predict(c, problem, device)) for c in family(problem, device)]
    if not found:
        why = "C has no element" if _is_empty(problem) else f"no tile has room on {device.name}"
        raise ValueError(f"{problem}: {why}")
    ranked = sorted(found, key=_expected_us)[:_MOST]
    limit = _HOPELESS * ranked[0].prediction.time
    return Plan(problem, device, tuple(r for r in ranked if r.prediction.time <= limit))


def _expected_us(ranked: Ranked) -> float:
    time = ranked.prediction.time
    return max(time * _DOUBT, time + _DOUBT_US) if shares_tiles(ranked.config) else time


def candidates(problem: Problem | str, device: Device | None = None) -> list[Config]:
    """The configurations worth timing, in the order of `Plan`; none for a problem whose C
    has no element."""
    problem = _read(problem)
    if _is_empty(problem):
        return []
    return [r.config for r in plan(problem, device).ranked]


def choose(problem: Problem | str, device: Device | None = None) -> Config:
    """The first candidate of `plan`."""
    return plan(problem, device).chosen.config


def explain(problem: Problem | str, device: Device | None = None) -> str:
    """Why: predicted time, the part that binds, the runners-up."""
    return plan(problem, device).text()
