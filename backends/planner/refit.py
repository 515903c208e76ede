"""Constants of a device fitted to times that `loopir-triton bench` measured.

    python -m backends.planner.refit sweep.csv ... -o device.json
    python -m backends.planner.refit sweep.csv ... --check

Each constant in turn is moved up and down while that brings the predictions nearer to the times;
near the fastest configuration of a problem a miss counts most. Each has its bounds, and a price for
its distance from where it started, a kernel's slowness too: what no sample shows stays as it was.
Told at the end, by set: how near the chosen configuration is to the fastest measured one, with the
old constants and the new ones, and with constants that were fitted without the problem at hand.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

from backends.planner.choose import default_device
from backends.planner.config import Kind
from backends.planner.device import Device, read_device
from backends.planner.model import predict
from backends.planner.samples import (
    Sample,
    by_problem,
    choice_ratios,
    geometric_mean,
    read_samples,
)
from backends.planner.tile_cost import tiling
from backends.planner.work import Work, work_of

FITTED = (
    "dram_tbps",
    "l2_tbps",
    "skewed_l2_tbps",
    "sm_kb_per_us",
    "pointer_kb_per_us",
    "outside_tbps",
    "next_launch_us",
    "overlapped_launch_us",
    "start_us",
    "latency_us",
    "l2_latency_us",
    "crossing",
    "panel_cycles",
    "epilogue_us",
    "store_kb_per_us",
    "slot_kb_per_us",
    "fragment_kb_per_us",
    "arrive_us",
    "part_us",
)
_STEPS = (0.2, 0.12, 0.08, 0.05, 0.03, 0.02)  # of a constant, by round
_TURNS = 4  # steps in a row that one constant may make
_NEAR = 3.0  # how fast a sample loses weight with its distance from the fastest
_LEAST_WEIGHT = 0.02
_OUTLIER = 0.15  # of a logarithm, from which on a miss counts linearly
_PRICE = 4e-4  # of the square of the logarithm of what a constant or a slowness was moved by
_MOST_MOVED = 1.5  # factor between a constant and where it started
_SLOWNESS = (0.7, 2.0)  # of any kernel
_FOLDS = 3  # parts of the problems, each predicted by the others


@dataclass(frozen=True)
class _Weighed:
    """A sample, how much it counts, what it asks of the device, and which slowness it has."""

    sample: Sample
    weight: float
    work: Work | None
    name: str

    def miss(self, device: Device) -> float:
        """Of predicted from measured time."""
        s = self.sample
        off = abs(log(predict(s.config, s.problem, device, self.work).time / s.us))
        return self.weight * (off * off if off < _OUTLIER else _OUTLIER * (2 * off - _OUTLIER))


class _Fit:
    """A device on its way; `misses` of its samples are kept, so that a kernel's slowness costs only
    its own."""

    def __init__(self, device: Device, samples: Sequence[Sample]):
        self.base, self.device = device, device
        self.samples = list(_weighed(samples, device))
        self.total_weight = sum(s.weight for s in self.samples)
        self.by_name: dict[str, list[int]] = defaultdict(list)
        for i, s in enumerate(self.samples):
            if s.name:
                self.by_name[s.name].append(i)
        self.misses = [s.miss(device) for s in self.samples]

    @property
    def names(self) -> tuple[str, ...]:
        """What can move."""
        return (*FITTED, *sorted(self.by_name))

    def cost(self, device: Device, misses: Sequence[float]) -> float:
        return sum(misses) / self.total_weight + _PRICE * _moves(self.base, device)

    def settle(self, name: str, step: float) -> None:
        """Move one constant while that helps."""
        least = self.cost(self.device, self.misses)
        for _ in range(_TURNS):
            tried = [self._tried(name, factor) for factor in (1 + step, 1 / (1 + step))]
            found, device, misses = min(tried, key=lambda t: t[0])
            if found >= least:
                return
            least, self.device, self.misses = found, device, misses

    def _tried(self, name: str, factor: float) -> tuple[float, Device, list[float]]:
        device = _moved(self.device, self.base, name, factor)
        misses = list(self.misses)
        touched = range(len(misses)) if name in FITTED else self.by_name[name]
        for i in touched:
            misses[i] = self.samples[i].miss(device)
        return self.cost(device, misses), device, misses


def refit(
    device: Device, samples: Sequence[Sample], say: Callable[[str], None] = lambda text: None
) -> Device:
    """`device` with the constants that predict `samples` best. `say`: told of each round."""
    fit = _Fit(device, samples)
    for step in _STEPS:
        for name in fit.names:
            fit.settle(name, step)
        say(f"step {step}: misfit {(sum(fit.misses) / fit.total_weight) ** 0.5:.4f}")
    return fit.device


def misfit(device: Device, samples: Sequence[Sample]) -> float:
    """The weighed mean of squared logarithms of predicted over measured time."""
    known = list(_weighed(samples, device))
    return sum(s.miss(device) for s in known) / sum(s.weight for s in known)


def _weighed(samples: Iterable[Sample], device: Device) -> Iterable[_Weighed]:
    for of_problem in by_problem(samples).values():
        fastest = min(s.us for s in of_problem)
        for s in of_problem:
            weight = exp(-_NEAR * (s.us / fastest - 1)) + _LEAST_WEIGHT
            is_gemm = s.config.kind is Kind.GEMM
            work = work_of(s.config, s.problem, device) if is_gemm else None
            yield _Weighed(s, weight, work, tiling(s.config).name if is_gemm else "")


# --- moves


def _moved(device: Device, base: Device, name: str, factor: float) -> Device:
    if name in FITTED:
        start = getattr(base, name)
        value = _bounded(getattr(device, name) * factor, start / _MOST_MOVED, start * _MOST_MOVED)
        return replace(device, **{name: value})
    value = _bounded(device.slowness.get(name, 1.0) * factor, *_SLOWNESS)
    return replace(device, slowness={**device.slowness, name: value})


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _moves(base: Device, device: Device) -> float:
    """The squared logarithms of what was moved."""
    constants = (getattr(device, name) / getattr(base, name) for name in FITTED)
    slow = (v / base.slowness.get(name, 1.0) for name, v in device.slowness.items())
    return sum(log(factor) ** 2 for factor in (*constants, *slow))


def rounded(device: Device) -> Device:
    """To three digits, without slownesses that say nothing."""
    constants = {name: float(f"{getattr(device, name):.3g}") for name in FITTED}
    slowness = {k: round(v, 2) for k, v in sorted(device.slowness.items())}
    return replace(
        device, **constants, slowness={k: v for k, v in slowness.items() if abs(v - 1) > 0.015}
    )


# --- what it is worth


def unseen_ratios(device: Device, samples: Sequence[Sample]) -> dict[str, list[float]]:
    """`choice_ratios` of each problem with constants that were fitted to other problems."""
    problems = list(by_problem(samples))
    found: dict[str, list[float]] = defaultdict(list)
    for fold in range(_FOLDS):
        left_out = set(problems[fold::_FOLDS])
        held = [s for s in samples if s.problem in left_out]
        known = [s for s in samples if s.problem not in left_out]
        if held and known:
            for of, ratios in choice_ratios(held, refit(device, known)).items():
                found[of] += ratios
    return found


def table(columns: dict[str, dict[str, list[float]]]) -> str:
    """A line a set: geometric mean and least of the ratios of each column."""
    sets = sorted({of for ratios in columns.values() for of in ratios})
    lines = [f"{'set':14}" + "".join(f"{name:>20}" for name in columns)]
    for of in sets:
        cells = (f"{_cell(ratios.get(of, [])):>20}" for ratios in columns.values())
        lines.append(f"{of or '-':14}" + "".join(cells))
    return "\n".join(lines)


def _cell(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.3f} (>= {min(ratios):.2f})" if ratios else "-"


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    base = read_device(args.device.read_text()) if args.device else default_device()
    samples = [s for path in args.csv for s in read_samples(path.read_text())]
    columns = {"as it is": choice_ratios(samples, base)}
    if not args.check:
        found = rounded(refit(base, samples, lambda text: print(text, file=sys.stderr)))
        args.output.write_text(found.text())
        columns["refitted"] = choice_ratios(samples, found)
        columns["unseen"] = unseen_ratios(base, samples)
    print(table(columns))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m backends.planner.refit", description=__doc__)
    parser.add_argument("csv", nargs="+", type=Path, help="of `loopir-triton bench`")
    parser.add_argument("--device", type=Path, help="constants to start from (the shipped H200's)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-o", "--output", type=Path, help="where to write them")
    what.add_argument("--check", action="store_true", help="only say how good the choices are")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
