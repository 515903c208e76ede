"""Constants of a device out of kernels of which one part takes the time.

A probe is a configuration on two problems of which the larger has more panels (or tiles): what both
have falls out of the difference. Its constant is moved until the model predicts the difference that
was measured; a constant that the difference does not answer to, or that would leave its bounds, is
not found and stays as it was. A kernel's slowness is that of a block which is alone on its SM.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.model import predict
from backends.planner.problem import Problem
from backends.planner.tile_cost import tiling
from backends.planner.tiles import LARGE, SMALL, Shape

_ANSWERS = 0.4  # per cent of the difference by a per cent of the constant, at least
_MOST_MOVED = 2.5  # factor between a constant and where it started
_SLOWNESS = (0.7, 2.0)
_HALVINGS = 30
_SWEEPS = 2  # over all probes: each uses what the others found
_PLAIN = "tile-order{group=8},descriptors"
_ONCE = "evict-first,descriptors"
MOST_OFF = 0.10  # of the predictions of its own probes, in the mean, for a device to be believed


@dataclass(frozen=True)
class Probe:
    """`name`: a field of a device, or a kernel's in `slowness`."""

    name: str
    config: Config
    fewer: Problem
    more: Problem

    def difference(self, device: Device) -> float:
        """Predicted, in us."""
        fewer, more = (predict(self.config, p, device).time for p in (self.fewer, self.more))
        return more - fewer


def probes(sms: int) -> tuple[Probe, ...]:
    """Of each constant that a product shows, those first that others need."""
    rows, columns = grid(sms)
    chain = f"gemm 64x64x64 w4 s2: {_PLAIN}"  # one load behind the other
    return (
        _deeper("latency_us", chain, (64, 64), (64, 256)),
        _deeper("loaded_latency_us", chain, (64, 64 * sms), (32, 96)),
        _deeper("once_latency_us", f"gemm 64x64x64 w4 s2: {_ONCE}", (64, 64 * sms), (32, 96)),
        _deeper("l2_latency_us", chain, (64 * rows, 64 * columns), (32, 96)),
        _deeper("pointer_kb_per_us", "gemm 16x32x128 w4 s8", (16 * 8, 32 * (sms // 4)), (32, 96)),
        _deeper("outside_tbps", f"gemm 64x32x128 w4 s5: {_PLAIN}", (1, 32 * sms), (16, 48)),
        _deeper("once_dram_tbps", "gemv 1x4x2048 w4 s1: evict-first", (1, 64 * sms), (2, 8)),
        *map(_slowness(rows, columns), (*LARGE, *SMALL)),
        _skewed("skewed_l2_tbps", sms),
        _tiles("refill_us", sms),
    )


def _deeper(name: str, text: str, sides: tuple[int, int], panels: tuple[int, int]) -> Probe:
    config = Config.parse(text)
    fewer, more = (Problem(*sides, count * config.bk) for count in panels)
    return Probe(name, config, fewer, more)


def _skewed(name: str, sms: int) -> Probe:
    """Ranges across the borders of tiles: each SM is at a k of its own."""
    walk = f"stream-k{{merge=fixup decomposition=stream-k units={sms} slot-layout=auto}}"
    rows, columns = grid(sms)
    sides = 128 * (rows + 1), 128 * columns
    return _deeper(
        name, f"gemm 64x128x128 w4 s4: tile-order{{group=8}},{walk},descriptors", sides, (32, 96)
    )


def _tiles(name: str, sms: int) -> Probe:
    """More tiles a block, of two panels each."""
    walk = f"tile-order{{group=8}},stream-k{{decomposition=data-parallel units={sms}}},descriptors"
    fewer, more = (Problem(64 * sms, 64 * tiles, 128) for tiles in (2, 10))
    return Probe(name, Config.parse(f"gemm 64x64x64 w4 s5: {walk}"), fewer, more)


def _slowness(rows: int, columns: int) -> Callable[[Shape], Probe]:
    """A tile an SM."""

    def probe(shape: Shape) -> Probe:
        config = replace(shape.config(Problem(1, 1, 1)), pipeline=_PLAIN)
        sides = rows * config.bm, columns * config.bn
        fewer, more = (Problem(*sides, count * config.bk) for count in (16, 64))
        return Probe(tiling(config).name, config, fewer, more)

    return probe


def grid(sms: int) -> tuple[int, int]:
    """Rows and columns of one block an SM, as square as can be."""
    columns = max(c for c in range(1, sms + 1) if sms % c == 0 and c * c <= sms)
    return sms // columns, columns


# --- solving


@dataclass(frozen=True)
class Found:
    """A device, and which constants its probes did not show, each with why."""

    device: Device
    unseen: dict[str, str]


def solved(base: Device, measured: Sequence[tuple[Probe, float]]) -> Found:
    """`base` with the constants that predict the measured differences (us)."""
    device, unseen = base, {}
    for _ in range(_SWEEPS):
        for probe, difference in measured:
            found = _solved(device, base, probe, difference)
            if isinstance(found, str):
                unseen[probe.name] = found
            else:
                device = found
                unseen.pop(probe.name, None)
    return Found(device, unseen)


def _solved(device: Device, base: Device, probe: Probe, difference: float) -> Device | str:
    """The device, or why there is none."""
    if difference <= 0:
        return "the larger probe takes no longer"
    if abs(_answer(device, probe)) < _ANSWERS:
        return "other parts take the probe's time"
    low, high = _bounds(base, probe.name)
    off = [log(probe.difference(_with(device, probe.name, v)) / difference) for v in (low, high)]
    if off[0] * off[1] > 0:
        return f"it would leave {low:.3g} to {high:.3g}"
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        now = log(probe.difference(_with(device, probe.name, middle)) / difference)
        low, high = (middle, high) if now * off[0] > 0 else (low, middle)
    return _with(device, probe.name, low)


def _answer(device: Device, probe: Probe) -> float:
    """Per cent of the difference by a per cent of the constant."""
    value, step = _value(device, probe.name), 0.05
    up, down = (_with(device, probe.name, value * exp(s)) for s in (step, -step))
    return log(probe.difference(up) / probe.difference(down)) / (2 * step)


def _value(device: Device, name: str) -> float:
    return getattr(device, name) if hasattr(device, name) else device.slowness.get(name, 1.0)


def _with(device: Device, name: str, value: float) -> Device:
    if hasattr(device, name):
        return replace(device, **{name: value})
    return replace(device, slowness={**device.slowness, name: value})


def _bounds(base: Device, name: str) -> tuple[float, float]:
    if not hasattr(base, name):
        return _SLOWNESS
    value = _value(base, name)
    return value / _MOST_MOVED, value * _MOST_MOVED


# --- whether to believe it


def misses(
    device: Device, timed: Sequence[tuple[Probe, tuple[float, float]]]
) -> list[tuple[float, Config, Problem]]:
    """How far off the predictions of the probes' own times (us) are, the worst first: 0.1 is ten
    per cent."""
    found = [
        (abs(log(predict(probe.config, problem, device).time / us)), probe.config, problem)
        for probe, times in timed
        for problem, us in zip((probe.fewer, probe.more), times, strict=True)
    ]
    return sorted(found, key=lambda miss: -miss[0])
