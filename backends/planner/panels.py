"""What the panel loops of a configuration take: products, loads out of L2 and DRAM, latency."""

from dataclasses import dataclass

from backends.planner.blocks import slot_bytes, stage_bytes
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.passes_of import descriptors
from backends.planner.problem import Problem
from backends.planner.tile_cost import products_us, tiling
from backends.planner.work import Work

_KEPT_SHARE = 0.7  # of L2, that operands can fill and be found again
_LINE_BYTES = 128
_GROUP = 8  # rows of tiles that blocks of a wave share


@dataclass(frozen=True)
class Overlapping:
    """Times (us) of what goes on at the same time."""

    products: float
    l2: float
    dram: float
    latency: float


def phases(
    config: Config, problem: Problem, device: Device, work: Work
) -> tuple[Overlapping, Overlapping]:
    """While all SMs have work, and then: fewer share L2 and DRAM."""
    total = work.tiles * work.panels
    even = min(work.even, total // device.sms)  # a last slice may be shorter
    rest = _Phase(work.panels_of_sm - even, total - even * device.sms)
    both = _Phase(even, even * device.sms), rest
    first, last = (_overlapping(config, problem, device, work, phase) for phase in both)
    return first, last


@dataclass(frozen=True)
class _Phase:
    """Panels that the busiest SM computes, and all SMs together."""

    of_sm: int
    of_all: int


def _overlapping(
    config: Config, problem: Problem, device: Device, work: Work, phase: _Phase
) -> Overlapping:
    slowness = device.slowness.get(tiling(config).name, 1.0)
    crossing = _crossing(config, problem, device)
    moved = _dram_bytes(config, problem, device, work) + work.slots * slot_bytes(config, problem)
    of_all = phase.of_all / max(1, work.tiles * work.panels)
    return Overlapping(
        products=phase.of_sm * products_us(config, problem, device) * slowness,
        l2=_l2(config, problem, device, work, phase) * crossing,
        dram=moved * of_all / (device.dram_tbps * 1e6),
        latency=_latency(config, problem, device, work, phase) * crossing,
    )


def _l2(config: Config, problem: Problem, device: Device, work: Work, phase: _Phase) -> float:
    """What all SMs receive together, or the busiest one by itself, or what descriptors fill in."""
    stage = stage_bytes(config, problem)
    alone = _alone(config, problem, device, work)
    us_per_mb = alone / device.skewed_l2_tbps + (1 - alone) / device.l2_tbps
    together = 1e-6 * phase.of_all * stage * us_per_mb
    if not descriptors(config):
        return max(together, 1e-3 * phase.of_sm * stage / device.pointer_kb_per_us)
    outside = _outside_bytes(config, problem) * phase.of_all / max(1, work.tiles * work.panels)
    of_sm = 1e-3 * phase.of_sm * stage / device.sm_kb_per_us
    return max(together, of_sm, 1e-6 * outside / device.outside_tbps)


def _alone(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """The share of loads that no block near in time repeats: of A's panels the first of a row of
    tiles, of B's the first of a column."""
    if work.is_skewed:
        return 1.0
    parts = work.contributors if work.slots == work.tiles * work.contributors else 1
    together = max(1, min(work.tiles, work.resident * device.sms // parts))
    rows = min(_GROUP, -(-problem.m // config.bm), together)
    columns = max(1, together // rows)
    return (config.bm / columns + config.bn / rows) / (config.bm + config.bn)


def _outside_bytes(config: Config, problem: Problem) -> int:
    """Of panels, beyond the last row of A and the last column of B."""
    rows, columns = -(-problem.m // config.bm), -(-problem.n // config.bn)
    a = (rows * config.bm - problem.m) * columns
    b = (columns * config.bn - problem.n) * rows
    return problem.batch * (a + b) * problem.k * problem.dtype.bytes


def _latency(config: Config, problem: Problem, device: Device, work: Work, phase: _Phase) -> float:
    """Loads one behind the other, as many at a time as there are stages ahead; those of what
    another block has loaded before come sooner."""
    loaded = work.tiles * work.panels * stage_bytes(config, problem)
    first = min(1.0, _once(problem) / max(1, loaded))
    one = device.l2_latency_us + (device.latency_us - device.l2_latency_us) * first
    chain = work.chain * phase.of_sm / max(1, work.panels_of_sm)
    return chain * one / max(1, config.num_stages - 1)


def _once(problem: Problem) -> int:
    """Bytes of both operands."""
    return problem.batch * (problem.m + problem.n) * problem.k * problem.dtype.bytes


def _crossing(config: Config, problem: Problem, device: Device) -> float:
    """How much longer loads take, of the operands whose rows lie across lines."""
    shares = (config.bm, config.bn)
    crossed = (row * problem.dtype.bytes % _LINE_BYTES != 0 for row in problem.rows)
    share = sum(s for s, is_crossed in zip(shares, crossed, strict=True) if is_crossed)
    return 1 + (device.crossing - 1) * share / sum(shares)


def _dram_bytes(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Operands that fit in L2 are read once; larger ones once by each wave that needs them."""
    element = problem.dtype.bytes
    once, result = _once(problem), problem.batch * problem.m * problem.n * problem.result.bytes
    if once <= _KEPT_SHARE * device.l2_bytes * problem.batch:
        return once + result
    rows_in_tiles = -(-problem.m // config.bm)
    rows = min(_GROUP, rows_in_tiles)
    columns = -(-device.sms // rows)
    wave = (min(rows * config.bm, problem.m) + min(columns * config.bn, problem.n)) * problem.k
    waves = -(-work.tiles // device.sms)
    return result + max(once, waves * wave * element)
