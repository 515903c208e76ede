"""The constants of the cost model, measured on the current GPU, in less than a minute.

Every number is a difference between two sizes of one kernel, or between kernels, all timed in one
contest of interleaved rounds. What cannot be told apart so keeps the value of the device that it
started from: flops_per_cycle, panel_cycles, store_kb_per_us, arrive_us, and the clock.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from backends.planner import Config, Device, Problem, predict
from backends.planner.tile_cost import tiling
from backends.planner.tiles import LARGE, SMALL
from backends.triton_codegen.ops import probes
from backends.triton_codegen.ops.bound import first_call
from backends.triton_codegen.ops.contest import medians_us
from backends.triton_codegen.ops.operands import Arguments
from loopir.errors import LoopIRError
from loopir.types import DType

Arm = Callable[[], object]
_ROUNDS = 24
_PANELS = (48, 144)  # of a tile, whose times are compared
_SUSTAINED_S = 0.5
_BUSY = Problem(8192, 8192, 8192)


@dataclass(frozen=True)
class Tile:
    """A tiling, timed with fewer and with more panels."""

    config: Config
    problems: tuple[Problem, Problem]
    arms: tuple[Arm, Arm]


def calibrate(base: Device, say: Callable[[str], None] = lambda text: None) -> Device:
    """`base` with what the current GPU measures. `say`: told of each step."""
    say("compiling")
    tiles = [t for t in map(_tile_of(base), _configs()) if t is not None]
    arms = _probe_arms(base)
    names = list(arms)
    say(f"timing {len(arms) + 2 * len(tiles)} kernels, {_ROUNDS} rounds")
    each = [*arms.values(), *(arm for tile in tiles for arm in tile.arms)]
    times = medians_us(each, _ROUNDS)
    seen = dict(zip(names, times[: len(names)], strict=True))
    measured = replace(base, **_constants(seen, base))
    pairs = times[len(names) :]
    timed = list(zip(tiles, zip(pairs[::2], pairs[1::2], strict=True), strict=True))
    slowness = {tiling(t.config).name: _slowness(t, us, measured) for t, us in timed}
    measured = replace(measured, slowness={k: round(v, 3) for k, v in slowness.items()})
    say("sustained rate")
    scale = _sustained_tflops(measured) / base.sustained_tflops[DType.BF16.value]
    sustained = {k: round(v * scale, 1) for k, v in base.sustained_tflops.items()}
    measured = replace(measured, sustained_tflops=sustained)
    return replace(measured, epilogue_us=_epilogue(timed, measured))


# --- probes


def _probe_arms(device: Device) -> dict[str, Arm]:
    rows, columns = _grid(device.sms)
    blocks = 4 * device.sms
    return {
        "one": probes.nothing(1),
        "two": probes.nothing(2),
        "read32": probes.read(32, blocks),
        "read160": probes.read(160, blocks),
        "chase64": probes.chase(64),
        "chase256": probes.chase(256),
        "aligned48": probes.panels(48, rows, columns, 0),
        "aligned144": probes.panels(144, rows, columns, 0),
        "skewed48": probes.panels(48, rows, columns, 11),
        "skewed144": probes.panels(144, rows, columns, 11),
        "slots2": probes.slots(2, device.sms),
        "slots10": probes.slots(10, device.sms),
    }


def _constants(us: dict[str, float], base: Device) -> dict[str, float]:
    rows, columns = _grid(base.sms)
    panel_mb = 4e-6 * rows * columns * (probes.PANEL_A + probes.PANEL_B)
    slot_kb = 4e-3 * probes.SLOT
    dram = (160 - 32) * 1.048576 / (us["read160"] - us["read32"])
    found = {
        "launch_us": us["one"],
        "next_launch_us": us["two"] - us["one"],
        "dram_tbps": dram,
        "start_us": us["read32"] - us["one"] - 32 * 1.048576 / dram,
        "latency_us": (us["chase256"] - us["chase64"]) / (256 - 64),
        "l2_tbps": panel_mb * 96 / (us["aligned144"] - us["aligned48"]),
        "skewed_l2_tbps": panel_mb * 96 / (us["skewed144"] - us["skewed48"]),
        "slot_kb_per_us": 2 * 8 * slot_kb / (us["slots10"] - us["slots2"]),
    }
    return {name: round(max(value, 0.05), 3) for name, value in found.items()}


# --- tiles


def _configs() -> list[Config]:
    """The tiles of the planner, one block each, moved by descriptors."""
    shapes = [s.config(_BUSY) for s in (*LARGE, *SMALL)]
    return [replace(c, pipeline="tile-order{group=8},descriptors") for c in shapes]


def _tile_of(device: Device) -> Callable[[Config], Tile | None]:
    """A kernel for each count of panels; None: the compiler refuses it."""
    rows, columns = _grid(device.sms)

    def made(config: Config) -> Tile | None:
        m, n = rows * config.bm, columns * config.bn
        fewer, more = (Problem(m, n, count * config.bk) for count in _PANELS)
        try:
            return Tile(config, (fewer, more), (_product(fewer, config), _product(more, config)))
        except LoopIRError:
            return None

    return made


def _product(problem: Problem, config: Config) -> Arm:
    shapes = (problem.m, problem.k), (problem.n, problem.k), (problem.m, problem.n)
    a, b, out = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in shapes)
    bound, _ = first_call(Arguments(a, b.t(), out), config)
    return lambda: bound(a, b.t(), out)


def _slowness(tile: Tile, us: tuple[float, float], device: Device) -> float:
    """By what factor the products of a panel must be slower for the model to say what was seen."""
    low, high = 0.25, 4.0
    name = tiling(tile.config).name
    for _ in range(40):
        middle = (low + high) / 2
        slower = replace(device, slowness={name: middle})
        fewer, more = (predict(tile.config, p, slower).panels for p in tile.problems)
        low, high = (low, middle) if more - fewer > us[1] - us[0] else (middle, high)
    return low


def _epilogue(timed: list[tuple[Tile, tuple[float, float]]], device: Device) -> float:
    """What is left of a tile's time."""
    rest = [us[0] - predict(t.config, t.problems[0], device).time for t, us in timed]
    return round(max(0.05, device.epilogue_us + statistics.median(rest)), 3)


def _sustained_tflops(device: Device) -> float:
    run = _product(_BUSY, Config((128, 256, 64), _configs()[0].pipeline, 8, 3))
    torch.cuda.synchronize()
    start, launches = time.perf_counter(), 0
    while time.perf_counter() - start < _SUSTAINED_S:
        for _ in range(20):
            run()
        launches += 20
        torch.cuda.synchronize()
    return 1e-12 * launches * _BUSY.flops / (time.perf_counter() - start)


def _grid(sms: int) -> tuple[int, int]:
    """Rows and columns of one block an SM, as square as can be."""
    rows = max(r for r in range(1, sms + 1) if sms % r == 0 and r * r <= sms)
    return sms // rows, rows
