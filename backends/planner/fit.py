"""Constants of a device that predict measured times best.

Each constant in turn is moved up and down while that helps. What counts of a problem: how far
predictions are from times, after what all of them have in common, which no choice depends on, and
a little of that too; near the fastest configuration most. And what a choice by the predictions
would lose. Each constant has its bounds, and a price for its distance from where it started, a
kernel's slowness too: what no sample shows stays as it was. Sets of few problems count for more
than their number.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from backends.planner.config import Kind
from backends.planner.device import Device
from backends.planner.model import predict
from backends.planner.samples import Sample, by_problem
from backends.planner.tile_cost import tiling
from backends.planner.work import Work, work_of

#: but `slot_kb_per_us`: what the family keeps row by row is too little to tell
FITTED = (
    "busy_loss",
    "dram_tbps",
    "once_dram_tbps",
    "row_loss",
    "l2_tbps",
    "skewed_l2_tbps",
    "sm_kb_per_us",
    "pointer_kb_per_us",
    "line_crossing",
    "sector_crossing",
    "outside_tbps",
    "l2_latency_us",
    "latency_us",
    "loaded_latency_us",
    "once_latency_us",
    "panel_cycles",
    "issue_cycles",
    "pair_issue_cycles",
    "piece_cycles",
    "rows_cycles",
    "fused_cycles",
    "start_us",
    "next_launch_us",
    "overlapped_launch_us",
    "epilogue_us",
    "store_kb_per_us",
    "last_store_kb_per_us",
    "refill_us",
    "fragment_kb_per_us",
    "arrive_us",
    "part_us",
)
_STEPS = (0.2, 0.12, 0.08, 0.05, 0.03, 0.02)  # of a constant, by round
_TURNS = 4  # steps in a row that one constant may make
_NEAR = 5.0  # how fast a sample loses weight with its distance from the fastest
_LEAST_WEIGHT = 0.01
_OUTLIER = 0.1  # of a logarithm, from which on a miss counts linearly
_COMMON = 0.2  # what the misses of a problem count for, that all its configurations share
_CHOICE = 0.5  # what a choice's loss counts for
_SURE = 0.03  # of a logarithm, by which predictions differ that a choice tells apart
_CROWD = 0.6  # power of a set's size, by which each of its problems counts less
_PRICE = 1e-4  # of the square of the logarithm of what a constant or a slowness was moved by
_MOST_MOVED = 1.5  # factor between a constant and where it started
_SLOWNESS = (0.7, 2.0)  # of any kernel


@dataclass(frozen=True)
class _Known:
    """A sample with what no device changes: what it asks of one, and which slowness it has."""

    sample: Sample
    work: Work | None
    name: str

    def time(self, device: Device) -> float:
        """The logarithm of the predicted one."""
        return log(predict(self.sample.config, self.sample.problem, device, self.work).time)


class _Case:
    """The samples of one problem, and how much they count."""

    def __init__(self, samples: Sequence[Sample], weight: float):
        least = min(s.us for s in samples)
        weights = [exp(-_NEAR * (s.us / least - 1)) + _LEAST_WEIGHT for s in samples]
        self.weight = weight
        self.weights = [w / sum(weights) for w in weights]
        self.times = [log(s.us) for s in samples]
        self.losses = [log(s.us / least) for s in samples]
        self.least_loss = self._loss(self.times)

    def misfit(self, predicted: Sequence[float]) -> float:
        off = [p - t for p, t in zip(predicted, self.times, strict=True)]
        common = sum(w * o for w, o in zip(self.weights, off, strict=True))
        missed = sum(
            w * (_miss(o - common) + _COMMON * _miss(o))
            for w, o in zip(self.weights, off, strict=True)
        )
        lost = max(0.0, self._loss(predicted) - self.least_loss)
        return self.weight * (missed + _CHOICE * lost)

    def _loss(self, predicted: Sequence[float]) -> float:
        """Of a choice that takes each configuration the more often the faster it seems."""
        least = min(predicted)
        odds = [exp((least - p) / _SURE) for p in predicted]
        return sum(o * loss for o, loss in zip(odds, self.losses, strict=True)) / sum(odds)


def _miss(off: float) -> float:
    off = abs(off)
    return off * off if off < _OUTLIER else _OUTLIER * (2 * off - _OUTLIER)


class _Fit:
    """A device on its way; the times of its samples are kept, so that a kernel's slowness costs
    only its own."""

    def __init__(self, device: Device, samples: Sequence[Sample]):
        self.base, self.device = device, device
        groups = list(by_problem(samples).values())
        sizes = Counter(group[0].of for group in groups)
        self.cases = [_Case(group, sizes[group[0].of] ** -_CROWD) for group in groups]
        self.total_weight = sum(case.weight for case in self.cases)
        self.known = [_known(s, device) for group in groups for s in group]
        self.by_name: dict[str, list[int]] = defaultdict(list)
        for i, known in enumerate(self.known):
            if known.name:
                self.by_name[known.name].append(i)
        self.times = [known.time(device) for known in self.known]

    @property
    def names(self) -> tuple[str, ...]:
        """What can move."""
        return (*FITTED, *sorted(self.by_name))

    def misfit(self, times: Sequence[float]) -> float:
        """The weighed mean of the problems'."""
        first, total = 0, 0.0
        for case in self.cases:
            after = first + len(case.times)
            total += case.misfit(times[first:after])
            first = after
        return total / self.total_weight

    def cost(self, device: Device, times: Sequence[float]) -> float:
        return self.misfit(times) + _PRICE * _moves(self.base, device)

    def settle(self, name: str, step: float) -> None:
        """Move one constant while that helps."""
        least = self.cost(self.device, self.times)
        for _ in range(_TURNS):
            tried = [self._tried(name, factor) for factor in (1 + step, 1 / (1 + step))]
            found, device, times = min(tried, key=lambda t: t[0])
            if found >= least:
                return
            least, self.device, self.times = found, device, times

    def _tried(self, name: str, factor: float) -> tuple[float, Device, list[float]]:
        device = _moved(self.device, self.base, name, factor)
        times = list(self.times)
        touched = range(len(times)) if name in FITTED else self.by_name[name]
        for i in touched:
            times[i] = self.known[i].time(device)
        return self.cost(device, times), device, times


def refit(
    device: Device, samples: Sequence[Sample], say: Callable[[str], None] = lambda text: None
) -> Device:
    """`device` with the constants that predict `samples` best. `say`: told of each round."""
    fit = _Fit(device, samples)
    for step in _STEPS:
        for name in fit.names:
            fit.settle(name, step)
        say(f"step {step}: misfit {fit.misfit(fit.times) ** 0.5:.4f}")
    return fit.device


def misfit(device: Device, samples: Sequence[Sample]) -> float:
    """The weighed mean of squared logarithms of predicted over measured time, and of what choices
    lose."""
    fit = _Fit(device, samples)
    return fit.misfit(fit.times)


def _known(sample: Sample, device: Device) -> _Known:
    is_gemm = sample.config.kind is Kind.GEMM
    work = work_of(sample.config, sample.problem, device) if is_gemm else None
    return _Known(sample, work, tiling(sample.config).name if is_gemm else "")


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
