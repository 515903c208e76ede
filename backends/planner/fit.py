"""Constants of a device that predict measured times best.

Each constant in turn is moved up and down while that brings the predictions nearer to the times;
near the fastest configuration of a problem a miss counts most. Each has its bounds, and a price for
its distance from where it started, a kernel's slowness too: what no sample shows stays as it was.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from backends.planner.config import Kind
from backends.planner.device import Device
from backends.planner.model import predict
from backends.planner.samples import Sample, by_problem
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
