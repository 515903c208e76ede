"""The constants of the cost model, measured on the current GPU, in about a minute.

Every number is a difference between two sizes of one kernel, all timed in one contest of
interleaved rounds: an empty kernel, reads of memory (`probes`), and products of which one part
takes the time (`backends.planner.isolate`). What no kernel shows by itself keeps the value of the
device that it started from: the clock, flops_per_cycle, what L2 gives to many at a time, what an SM
receives, cycles between panels, how tiles are stored, and what a fold costs; `refit` moves those.
"""

import csv
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from backends.planner import Config, Device, Problem, predict
from backends.planner.isolate import MOST_OFF, Found, Probe, misses, solved
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


@dataclass(frozen=True)
class Calibrated:
    """A device, and how it was found: each probe's times (us), measured and as the device predicts
    them, as CSV."""

    device: Device
    probes_csv: str
    mean_off: float
    worst: str

    def check(self) -> None:
        """CodegenError: the constants do not predict their own probes."""
        if self.mean_off > MOST_OFF:
            raise CodegenError(
                f"calibrate: the constants predict their own probes {100 * self.mean_off:.0f} % "
                f"wrong in the mean, where {100 * MOST_OFF:.0f} % is the most; worst: {self.worst}"
            )


def calibrate(base: Device, say: Callable[[str], None] = lambda text: None) -> Calibrated:
    """`base` with what the current GPU measures; `check` says whether to believe it. `say`: told of
    each step, and of each constant that no probe showed."""
    say("compiling")
    timed = [t for t in map(_timed, product_probes(base.sms)) if t is not None]
    arms = _memory_arms(base)
    each = [*arms.values(), *(arm for t in timed for arm in t.arms)]
    say(f"timing {len(each)} kernels, {_ROUNDS} rounds")
    times = medians_us(each, _ROUNDS)
    memory = dict(zip(arms, times, strict=False))
    rest = times[len(arms) :]
    pairs = zip(rest[::2], rest[1::2], strict=True)
    seen = [(t.probe, us) for t, us in zip(timed, pairs, strict=True)]
    say("sustained rate")
    measured = _sustained(replace(base, **_memory(memory)))
    found = solved(measured, [(probe, us[1] - us[0]) for probe, us in seen])
    for name, why in found.unseen.items():
        say(f"{name}: as it was, {why}")
    return calibrated(found, memory, seen, say)


def calibrated(
    found: Found,
    memory: dict[str, float],
    seen: list[tuple[Probe, tuple[float, float]]],
    say: Callable[[str], None],
) -> Calibrated:
    """What was found, with how far its predictions of `seen`, probes and their us, are off."""
    off = misses(found.device, seen)
    lines = [f"{100 * miss:.0f} % {config} on {p}" for miss, config, p in off]
    for line in lines[: sum(miss > MOST_OFF for miss, _, _ in off)]:
        say(f"off by {line}")
    mean = sum(miss for miss, _, _ in off) / len(off)
    return Calibrated(found.device, probes_csv(found, memory, seen), mean, lines[0])


def probes_csv(
    found: Found, memory: dict[str, float], seen: list[tuple[Probe, tuple[float, float]]]
) -> str:
    """A line a kernel: its constant, why that was not seen if so, us measured and predicted."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("constant", "unseen", "config", "problem", "us", "predicted_us"))
    rows.writerows((name, "", "", "", round(us, 3), "") for name, us in memory.items())
    for probe, times in seen:
        why = found.unseen.get(probe.name, "")
        for problem, us in zip((probe.fewer, probe.more), times, strict=True):
            predicted = predict(probe.config, problem, found.device).time
            numbers = round(us, 3), round(predicted, 3)
            rows.writerow((probe.name, why, probe.config, problem, *numbers))
    return table.getvalue()


# --- memory


def _memory_arms(device: Device) -> dict[str, Arm]:
    blocks = 4 * device.sms
    return {
        "nothing": probes.nothing(),
        "read32": probes.read(32, blocks),
        "read160": probes.read(160, blocks),
    }


def _memory(us: dict[str, float]) -> dict[str, float]:
    """An empty launch, and the rate of DRAM."""
    dram = (160 - 32) * 1.048576 / (us["read160"] - us["read32"])
    found = {"launch_us": us["nothing"], "dram_tbps": dram}
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
