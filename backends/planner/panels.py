"""What the panel loops of a configuration take: products, loads out of L2 and DRAM, latency."""

from dataclasses import dataclass
from math import gcd

from backends.planner.blocks import stage_bytes
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.norm import norm
from backends.planner.passes_of import descriptors, reads_once
from backends.planner.problem import Problem
from backends.planner.tile_cost import issue_cycles, products_cycles, tiling
from backends.planner.work import Phase, Work
from loopir.build import Layout

_KEPT_SHARE = 0.7  # of L2, that operands can fill and be found again
_LINE_BYTES, _SECTOR_BYTES = 128, 32
_WHOLE_ROW_BYTES = 512  # from which on longer rows gain nothing
_GROUP = 8  # rows of tiles that blocks of a wave share
_CROSSED_IN_L2 = 3  # what crossing costs L2 of panels that others read, over what it costs an SM
BLEND = 10  # the norm by which times that overlap add up
WAITS = 3  # the same, of products and latency, which overlap less
LOADS = 6  # the same, of DRAM and L2


@dataclass(frozen=True)
class Overlapping:
    """Times (us) of what goes on at the same time."""

    products: float
    latency: float
    l2: float
    link: float
    dram: float

    @property
    def loads(self) -> float:
        return norm((self.l2, self.dram), LOADS)

    @property
    def together(self) -> float:
        return norm((norm((self.products, self.latency), WAITS), self.loads, self.link), BLEND)


def first_panel_us(work: Work, each: tuple[Overlapping, ...]) -> float:
    """Until the first products can begin: the loads of one panel."""
    if not each:
        return 0.0
    first, phase = each[0], work.phases[0]
    return (first.loads + first.link) * phase.resident / phase.of_sm


def phases(config: Config, problem: Problem, device: Device, work: Work) -> tuple[Overlapping, ...]:
    """While all SMs have work, and then: fewer share L2 and DRAM."""
    panel = _panel(config, problem, device, work)
    return tuple(_overlapping(panel, config, problem, device, work, p) for p in work.phases)


@dataclass(frozen=True)
class _Panel:
    """Of one panel of one block. cycles: of its products; issued: until the next ones can begin;
    waited: from asking for a panel to its turn, over the stages ahead. received_us: into the SM.
    crossing: how much longer rows that lie across lines take an SM."""

    cycles: float
    issued: float
    waited: float
    received_us: float
    crossing: float


def _panel(config: Config, problem: Problem, device: Device, work: Work) -> _Panel:
    cycles = products_cycles(config, problem, device)
    slowness = device.slowness.get(tiling(config).name, 1.0)
    crossing = _crossing(config, problem, device)
    rate = device.sm_kb_per_us if descriptors(config) else device.pointer_kb_per_us
    received = 1e-3 * stage_bytes(config, problem) * crossing / rate
    waited = (_latency(config, problem, device, work) + received) * device.clock_ghz * 1e3
    ahead = max(1, config.num_stages - 1)
    issued = (cycles + issue_cycles(config, problem, device)) * slowness
    return _Panel(cycles, issued, waited / ahead * slowness, received, crossing)


def _overlapping(
    panel: _Panel, config: Config, problem: Problem, device: Device, work: Work, phase: Phase
) -> Overlapping:
    of_all = phase.of_all / max(1, work.tiles * work.panels)
    us = 1e-3 / device.clock_ghz
    received = phase.of_sm * panel.received_us
    dram = of_all * _dram_bytes(config, problem, device, work)
    return Overlapping(
        products=phase.of_sm * _product_cycles(panel, device, phase) * us,
        latency=phase.of_sm * panel.waited / phase.resident * us,
        l2=_l2(panel, config, problem, device, work, phase),
        link=max(received, _outside_us(config, problem, device) * of_all),
        dram=dram * _row_factor(config, problem, device) / (dram_tbps(config, device) * 1e6),
    )


def _product_cycles(panel: _Panel, device: Device, phase: Phase) -> float:
    """Of one panel. Blocks that share an SM multiply while others issue; the more of the tensor
    cores are busy, the lower the clock."""
    shared = panel.cycles if phase.resident > 1 else 0.0
    cycles = norm((shared, panel.issued / phase.resident), WAITS)
    busy = phase.of_all / (device.sms * phase.of_sm) * panel.cycles / cycles
    return cycles * (1 + device.busy_loss * busy)


# --- loads


def _l2(
    panel: _Panel, config: Config, problem: Problem, device: Device, work: Work, phase: Phase
) -> float:
    """What all SMs together receive of L2."""
    alone = _alone(config, problem, device, work)
    crossing = 1 + _CROSSED_IN_L2 * (panel.crossing - 1)
    us_per_mb = alone / device.skewed_l2_tbps + (1 - alone) * crossing / device.l2_tbps
    return 1e-6 * phase.of_all * stage_bytes(config, problem) * us_per_mb


def _alone(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """The share of loads that no block near in time repeats: of A's panels the first of a row of
    tiles, of B's the first of a column."""
    if work.is_skewed:
        return 1.0
    all_rows, all_columns = _grid(config, problem)
    together = max(1, min(work.tiles, device.sms // work.slices))
    rows = min(_GROUP, all_rows, together)
    columns = min(all_columns, max(1, together // rows))
    rows = min(all_rows, together / columns)
    return (config.bm / columns + config.bn / rows) / (config.bm + config.bn)


def _outside_us(config: Config, problem: Problem, device: Device) -> float:
    """What descriptors fill in beyond the last row of A and the last column of B."""
    if not descriptors(config):
        return 0.0
    rows, columns = _grid(config, problem)
    a = (rows * config.bm - problem.m) * columns
    b = (columns * config.bn - problem.n) * rows
    outside = problem.batch * (a + b) * problem.k * problem.dtype.bytes
    return 1e-6 * outside / device.outside_tbps


def _grid(config: Config, problem: Problem) -> tuple[int, int]:
    """Rows and columns of tiles."""
    return max(1, -(-problem.m // config.bm)), max(1, -(-problem.n // config.bn))


def _latency(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Of one load; out of DRAM what no block has loaded before, the later the more SMs ask."""
    loaded = work.tiles * work.panels * stage_bytes(config, problem)
    first = min(1.0, _once(problem) / max(1, loaded))
    asking = work.active / device.sms
    busy = device.once_latency_us if reads_once(config) else device.loaded_latency_us
    dram = device.latency_us + (busy - device.latency_us) * asking
    return device.l2_latency_us + (dram - device.l2_latency_us) * first


def _once(problem: Problem) -> int:
    """Bytes of both operands."""
    return problem.batch * (problem.m + problem.n) * problem.k * problem.dtype.bytes


def _crossing(config: Config, problem: Problem, device: Device) -> float:
    """How much longer the rows of both operands take an SM, that lie across lines of 128 bytes or
    even across sectors of 32."""
    shares = (config.bm, config.bn)
    longer = [_longer(row * problem.dtype.bytes, device) for row in problem.rows]
    return 1 + sum(s * more for s, more in zip(shares, longer, strict=True)) / sum(shares)


def _longer(row_bytes: int, device: Device) -> float:
    """By the shares of rows that do not begin at a line, and not at a sector."""
    lines = 1 - gcd(row_bytes, _LINE_BYTES) / _LINE_BYTES
    sectors = 1 - gcd(row_bytes, _SECTOR_BYTES) / _SECTOR_BYTES
    return device.line_crossing * lines + device.sector_crossing * sectors


def dram_tbps(config: Config, device: Device) -> float:
    """What all SMs together receive from DRAM."""
    return device.once_dram_tbps if reads_once(config) else device.dram_tbps


def _row_factor(config: Config, problem: Problem, device: Device) -> float:
    """How much longer DRAM takes for shorter rows in a panel of the larger operand."""
    is_b = problem.n > problem.m
    along_k = problem.b_layout is Layout.COL_MAJOR if is_b else problem.a_layout is Layout.ROW_MAJOR
    row = config.bk if along_k else config.bn if is_b else config.bm
    shorter = _WHOLE_ROW_BYTES / (row * problem.dtype.bytes) - 1
    return 1 + device.row_loss * max(0.0, shorter)


def _dram_bytes(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Operands that fit in L2 are read once; larger ones once by each wave that needs them. Results
    of the last turn are stored behind the panels."""
    stored = 1 - (work.merge is None) / max(1, work.turns)
    result = stored * problem.batch * problem.m * problem.n * problem.result.bytes
    once = _once(problem)
    if once <= _KEPT_SHARE * device.l2_bytes * problem.batch:
        return once + result
    rows = min(_GROUP, _grid(config, problem)[0])
    columns = -(-device.sms // rows)
    wave = (min(rows * config.bm, problem.m) + min(columns * config.bn, problem.n)) * problem.k
    waves = -(-work.tiles // device.sms)
    return result + max(once, waves * wave * problem.dtype.bytes)
