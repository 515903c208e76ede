"""Constants of a device fitted to times that `loopir-triton bench` measured.

    python -m backends.planner.refit sweep.csv ... -o device.json

Each constant in turn is moved up and down while that brings the predictions nearer to the times;
near the fastest configuration of a problem a miss counts most. A kernel's slowness moves too, at a
price, so that the constants explain what they can.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from typing import Any

from backends.planner.choose import default_device
from backends.planner.config import Config, Kind
from backends.planner.device import Device, read_device
from backends.planner.model import predict
from backends.planner.problem import Problem
from backends.planner.tile_cost import tiling
from backends.planner.work import Work, work_of

FITTED = (
    "dram_tbps",
    "l2_tbps",
    "skewed_l2_tbps",
    "sm_kb_per_us",
    "next_launch_us",
    "overlapped_launch_us",
    "start_us",
    "latency_us",
    "crossing",
    "panel_cycles",
    "epilogue_us",
    "store_kb_per_us",
    "slot_kb_per_us",
    "fragment_kb_per_us",
    "arrive_us",
)
_STEPS = (0.2, 0.12, 0.08, 0.05, 0.03, 0.02)  # of a constant, by round
_TURNS = 4  # steps in a row that one constant may make
_NEAR = 3.0  # how fast a sample loses weight with its distance from the fastest
_LEAST_WEIGHT = 0.02
_OUTLIER = 0.15  # of a logarithm, from which on a miss counts linearly
_PRICE = 4e-4  # of the square of the logarithm of a slowness
_COLUMNS = ("m", "n", "k", "batch", "dtype", "out_dtype", "a_layout", "b_layout")
_COUNTS = 4  # the first columns are numbers


@dataclass(frozen=True)
class Sample:
    """A measured time; `weight` says how much it counts."""

    problem: Problem
    config: Config
    us: float
    weight: float = 1.0
    work: Work | None = None


def read_samples(text: str) -> list[Sample]:
    """The rows of a bench's CSV that timed a configuration. ValueError: it is no such CSV."""
    rows = list(csv.DictReader(text.splitlines()))
    wanted = {*_COLUMNS, "config", "status", "us"}
    if not rows or not wanted <= set(rows[0]):
        raise ValueError(f"no CSV of a bench: columns {', '.join(sorted(wanted))}")
    return [_sample(row) for row in rows if row["status"] == "ok" and row["config"]]


def _sample(row: dict[str, str]) -> Sample:
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS}
    values |= {name: int(row[name]) for name in _COLUMNS[:_COUNTS]}
    return Sample(Problem(**values), Config.parse(row["config"]), float(row["us"]))


def refit(
    device: Device, samples: Sequence[Sample], say: Callable[[str], None] = lambda text: None
) -> Device:
    """`device` with the constants that predict `samples` best. `say`: told of each round."""
    known = list(_weighed(samples, device))
    names = sorted({tiling(s.config).name for s in known if s.config.kind is Kind.GEMM})
    least = misfit(device, known)
    for step in _STEPS:
        for name in (*FITTED, *names):
            device, least = _settled(device, known, name, step, least)
        say(f"step {step}: misfit {least**0.5:.4f}")
    return device


def misfit(device: Device, samples: Sequence[Sample]) -> float:
    """The weighed mean of squared logarithms of predicted over measured time, and the price of
    slownesses."""
    total = sum(s.weight * _miss(s, device) for s in samples)
    price = _PRICE * sum(log(v) ** 2 for v in device.slowness.values())
    return total / sum(s.weight for s in samples) + price


def _miss(s: Sample, device: Device) -> float:
    off = abs(log(predict(s.config, s.problem, device, s.work).time / s.us))
    return off * off if off < _OUTLIER else _OUTLIER * (2 * off - _OUTLIER)


def _weighed(samples: Sequence[Sample], device: Device) -> Iterator[Sample]:
    fastest: dict[Problem, float] = {}
    for s in samples:
        fastest[s.problem] = min(s.us, fastest.get(s.problem, s.us))
    for s in samples:
        weight = exp(-_NEAR * (s.us / fastest[s.problem] - 1)) + _LEAST_WEIGHT
        work = work_of(s.config, s.problem, device) if s.config.kind is Kind.GEMM else None
        yield replace(s, weight=weight, work=work)


def _settled(
    device: Device, samples: Sequence[Sample], name: str, step: float, least: float
) -> tuple[Device, float]:
    """One constant moved while that helps."""
    for _ in range(_TURNS):
        moved = [_moved(device, name, factor) for factor in (1 + step, 1 / (1 + step))]
        found, best = min(((misfit(d, samples), d) for d in moved), key=lambda pair: pair[0])
        if found >= least:
            break
        device, least = best, found
    return device, least


def _moved(device: Device, name: str, factor: float) -> Device:
    if name in FITTED:
        return replace(device, **{name: getattr(device, name) * factor})
    slowness = {**device.slowness, name: device.slowness.get(name, 1.0) * factor}
    return replace(device, slowness=slowness)


def rounded(device: Device) -> Device:
    """To three digits, without slownesses that say nothing."""
    constants = {name: float(f"{getattr(device, name):.3g}") for name in FITTED}
    slowness = {k: round(v, 2) for k, v in sorted(device.slowness.items())}
    return replace(
        device, **constants, slowness={k: v for k, v in slowness.items() if abs(v - 1) > 0.015}
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m backends.planner.refit", description=__doc__)
    parser.add_argument("csv", nargs="+", type=Path, help="of `loopir-triton bench`")
    parser.add_argument("--device", type=Path, help="constants to start from (the shipped H200's)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where to write them")
    args = parser.parse_args(argv)
    base = read_device(args.device.read_text()) if args.device else default_device()
    samples = [s for path in args.csv for s in read_samples(path.read_text())]
    found = rounded(refit(base, samples, lambda text: print(text, file=sys.stderr)))
    args.output.write_text(found.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
