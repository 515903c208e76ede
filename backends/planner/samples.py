"""Measured times of configurations, out of the CSV that `loopir-triton bench` writes."""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.model import predict
from backends.planner.problem import Problem

_COLUMNS = ("m", "n", "k", "batch", "dtype", "out_dtype", "a_layout", "b_layout")
_COUNTS = 4  # the first columns are numbers


@dataclass(frozen=True)
class Sample:
    """A measured time; `of`: the set of shapes that the problem is from."""

    problem: Problem
    config: Config
    us: float
    of: str = ""


def read_samples(text: str) -> list[Sample]:
    """The rows of a bench's CSV that timed a configuration. ValueError: it is no such CSV."""
    rows = list(csv.DictReader(text.splitlines(), restval=""))
    wanted = (*_COLUMNS, "config", "status", "us")
    missing = [name for name in wanted if name not in (rows[0] if rows else ())]
    if missing:
        raise ValueError(
            f"no CSV of a bench, or one that an older script wrote: no {', '.join(missing)}"
        )
    return [_sample(row) for row in rows if row["status"] == "ok" and row["config"]]


def _sample(row: dict[str, str]) -> Sample:
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS}
    values |= {name: int(row[name]) for name in _COLUMNS[:_COUNTS]}
    config, us = Config.parse(row["config"]), float(row["us"])
    return Sample(Problem(**values), config, us, row.get("set") or "")


def by_problem(samples: Iterable[Sample]) -> dict[Problem, list[Sample]]:
    found: dict[Problem, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.problem].append(sample)
    return found


def choice_ratios(samples: Sequence[Sample], device: Device) -> dict[str, list[float]]:
    """Of each problem, by its set: the least measured time over that of the configuration which
    the model takes for the fastest of those measured; 1 is a choice that none beats."""
    found: dict[str, list[float]] = defaultdict(list)
    for problem, of_problem in by_problem(samples).items():
        times: dict[Config, float] = {}
        for s in of_problem:
            times[s.config] = min(s.us, times.get(s.config, s.us))
        chosen = min(times, key=_predicted(problem, device))
        found[of_problem[0].of].append(min(times.values()) / times[chosen])
    return found


def _predicted(problem: Problem, device: Device) -> Callable[[Config], float]:
    return lambda config: predict(config, problem, device).time


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))
