"""The constants of the cost model, measured on the current GPU, in about a minute.

Every number is a difference between two sizes of one kernel, all timed in one contest of
interleaved rounds. The rates of memory come from kernels that do nothing else (`probes`); the
others from products of which one part takes the time (`backends.planner.isolate`). What no kernel
shows by itself keeps the value of the device that it started from: the clock, flops_per_cycle,
panel_cycles, store_kb_per_us, sm_kb_per_us, crossing, and what a fold costs; `refit` moves those.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from backends.planner import Config, Device, Problem
from backends.planner.isolate import MOST_OFF, Probe, grid, misses, solved
from backends.planner.isolate import probes as product_probes
from backends.triton_codegen.ops import probes
from backends.triton_codegen.ops.bound import first_call
from backends.triton_codegen.ops.contest import medians_us
from backends.triton_codegen.ops.operands import Arguments
from loopir.errors import CodegenError, LoopIRError
from loopir.types import DType

Arm = Callable[[], object]
_ROUNDS = 24
_SUSTAINED_S = 0.5
_BUSY = Problem(8192, 8192, 8192)
_BUSY_CONFIG = Config((128, 256, 64), "tile-order{group=8},descriptors", 8, 3)


@dataclass(frozen=True)
class Timed:
    """A probe and its two kernels."""

    probe: Probe
    arms: tuple[Arm, Arm]


def calibrate(base: Device, say: Callable[[str], None] = lambda text: None) -> Device:
    """`base` with what the current GPU measures. `say`: told of each step, and of each constant
    that no probe showed. CodegenError: the constants do not predict their own probes."""
    say("compiling")
    timed = [t for t in map(_timed, product_probes(base.sms)) if t is not None]
    arms = _memory_arms(base)
    each = [*arms.values(), *(arm for t in timed for arm in t.arms)]
    say(f"timing {len(each)} kernels, {_ROUNDS} rounds")
    times = medians_us(each, _ROUNDS)
    measured = replace(base, **_memory(dict(zip(arms, times, strict=False)), base))
    rest = times[len(arms) :]
    pairs = zip(rest[::2], rest[1::2], strict=True)
    seen = [(t.probe, us) for t, us in zip(timed, pairs, strict=True)]
    say("sustained rate")
    found = solved(_sustained(measured), [(probe, us[1] - us[0]) for probe, us in seen])
    for name, why in found.unseen.items():
        say(f"{name}: as it was, {why}")
    _check(found.device, seen, say)
    return found.device


def _check(
    device: Device, seen: list[tuple[Probe, tuple[float, float]]], say: Callable[[str], None]
) -> None:
    off = misses(device, seen)
    mean = sum(miss for miss, _, _ in off) / len(off)
    worst = [f"{100 * miss:.0f} % {config} on {p}" for miss, config, p in off if miss > MOST_OFF]
    for line in worst:
        say(f"off by {line}")
    if mean > MOST_OFF:
        raise CodegenError(
            f"calibrate: the constants predict their own probes {100 * mean:.0f} % wrong in the "
            f"mean, where {100 * MOST_OFF:.0f} % is the most; worst: {worst[0]}"
        )


# --- memory


def _memory_arms(device: Device) -> dict[str, Arm]:
    rows, columns = grid(device.sms)
    blocks = 4 * device.sms
    return {
        "nothing": probes.nothing(),
        "read32": probes.read(32, blocks),
        "read160": probes.read(160, blocks),
        "skewed48": probes.panels(48, rows, columns, 11),
        "skewed144": probes.panels(144, rows, columns, 11),
    }


def _memory(us: dict[str, float], base: Device) -> dict[str, float]:
    """Rates, and what comes before the first byte."""
    rows, columns = grid(base.sms)
    panel_mb = 4e-6 * rows * columns * (probes.PANEL_A + probes.PANEL_B)
    dram = (160 - 32) * 1.048576 / (us["read160"] - us["read32"])
    found = {
        "launch_us": us["nothing"],
        "dram_tbps": dram,
        "start_us": us["read32"] - us["nothing"] - 32 * 1.048576 / dram,
        "skewed_l2_tbps": panel_mb * 96 / (us["skewed144"] - us["skewed48"]),
    }
    return {name: round(max(value, 0.05), 3) for name, value in found.items()}


# --- products


def _timed(probe: Probe) -> Timed | None:
    """None: the compiler refuses it."""
    try:
        arms = _product(probe.fewer, probe.config), _product(probe.more, probe.config)
    except LoopIRError:
        return None
    return Timed(probe, arms)


def _product(problem: Problem, config: Config) -> Arm:
    shapes = (problem.m, problem.k), (problem.n, problem.k), (problem.m, problem.n)
    a, b, out = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in shapes)
    bound, _ = first_call(Arguments(a, b.t(), out), config)
    return lambda: bound(a, b.t(), out)


def _sustained(device: Device) -> Device:
    """With the rate of a long series of products; other types in proportion."""
    scale = _sustained_tflops() / device.sustained_tflops[DType.BF16.value]
    rates = {name: round(rate * scale, 1) for name, rate in device.sustained_tflops.items()}
    return replace(device, sustained_tflops=rates)


def _sustained_tflops() -> float:
    run = _product(_BUSY, _BUSY_CONFIG)
    torch.cuda.synchronize()
    start, launches = time.perf_counter(), 0
    while time.perf_counter() - start < _SUSTAINED_S:
        for _ in range(20):
            run()
        launches += 20
        torch.cuda.synchronize()
    return 1e-12 * launches * _BUSY.flops / (time.perf_counter() - start)
