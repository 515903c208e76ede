"""The predicted time of a configuration, by what it goes into."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from backends.planner.blocks import stage_bytes, vector_residents
from backends.planner.config import Config, Kind
from backends.planner.device import Device
from backends.planner.passes_of import descriptors, keeps_fragments, overlaps_tiles
from backends.planner.problem import Problem
from backends.planner.tile_cost import products_us, tiling
from backends.planner.work import Work, work_of
from passes.stream_k import Merge

_BLEND = 5  # the norm by which times that overlap add up
_KEPT_SHARE = 0.7  # of L2, that operands can fill and be found again
_OVERLAPPED = 0.6  # of an epilogue, where the next tile's panels are loaded meanwhile
_LINE_BYTES = 128
_LOADED = 1.75  # latency while all of DRAM's rate is used
_GROUP = 8  # rows of tiles that blocks of a wave share


class Term(Enum):
    """A part of a predicted time; the value is the text form."""

    PRODUCTS = "products"
    L2 = "L2 to the SMs"
    DRAM = "DRAM"
    LATENCY = "latency of loads"
    POWER = "power"
    LAUNCH = "launch and first panel"
    EPILOGUE = "epilogues"
    FOLD = "fold"


@dataclass(frozen=True)
class Prediction:
    """Microseconds. The first five overlap: together they take `panels`; the others do not."""

    products: float
    l2: float
    dram: float
    latency: float
    power: float
    launch: float
    epilogue: float
    fold: float
    panels: float

    @property
    def time(self) -> float:
        return self.launch + self.panels + self.epilogue + self.fold

    @property
    def binds(self) -> Term:
        """The largest part."""
        return max(self.parts, key=lambda term: self.parts[term])

    @property
    def parts(self) -> dict[Term, float]:
        return {term: getattr(self, term.name.lower()) for term in Term}


def predict(
    config: Config, problem: Problem, device: Device, work: Work | None = None
) -> Prediction:
    """The time of one launch, operands out of DRAM. `work`: what `work_of` counts, where it is
    known. LoopIRError, ValueError: the configuration has no meaning, or none for this problem."""
    if config.kind is Kind.GEMV:
        return _gemv(config, problem, device)
    work = work or work_of(config, problem, device)
    phases = [_overlapping(config, problem, device, work, phase) for phase in _phases(work, device)]
    products, l2, dram, latency = map(sum, zip(*phases, strict=True))
    power = problem.flops / device.sustained_tflops[problem.dtype.value] / 1e6
    return Prediction(
        products=products,
        l2=l2,
        dram=dram,
        latency=latency,
        power=power,
        launch=device.launch_us + device.start_us,
        epilogue=_epilogue(config, problem, device, work),
        fold=_fold(config, problem, device, work),
        panels=max(power, sum(map(_blended, phases))),
    )


def _blended(parts: Iterable[float]) -> float:
    return sum(part**_BLEND for part in parts) ** (1 / _BLEND)


def _gemv(config: Config, problem: Problem, device: Device) -> Prediction:
    """A read of the matrix. A block loads its next part when the one before is multiplied."""
    blocks = -(-max(problem.m, problem.n) // max(config.bm, config.bn))
    rounds = -(-blocks // (device.sms * max(1, vector_residents(config))))
    dram = problem.least_bytes / (device.dram_tbps * 1e6)
    latency = rounds * -(-problem.k // config.bk) * device.latency_us * _LOADED
    return Prediction(
        products=0,
        l2=0,
        dram=dram,
        latency=latency,
        power=0,
        launch=device.launch_us + device.latency_us,
        epilogue=device.epilogue_us,
        fold=0,
        panels=_blended((dram, latency)),
    )


# --- panels


@dataclass(frozen=True)
class _Phase:
    """Panels that the busiest SM computes, and all SMs together."""

    of_sm: int
    of_all: int


def _phases(work: Work, device: Device) -> tuple[_Phase, _Phase]:
    """While all SMs have work, and then: fewer share L2 and DRAM."""
    total = work.tiles * work.panels
    even = min(work.even, total // device.sms)  # a last slice may be shorter
    rest = _Phase(work.panels_of_sm - even, total - even * device.sms)
    return _Phase(even, even * device.sms), rest


def _overlapping(
    config: Config, problem: Problem, device: Device, work: Work, phase: _Phase
) -> tuple[float, float, float, float]:
    """Products, L2, DRAM, latency."""
    slowness = device.slowness.get(tiling(config).name, 1.0)
    crossing = _crossing(config, problem, device)
    moved = _dram_bytes(config, problem, device, work) + work.slots * _slot_bytes(config, problem)
    of_all = phase.of_all / max(1, work.tiles * work.panels)
    return (
        phase.of_sm * products_us(config, problem, device) * slowness,
        _l2(config, problem, device, work, phase) * crossing,
        moved * of_all / (device.dram_tbps * 1e6),
        _latency(config, problem, device, work, phase) * crossing,
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


# --- behind the panels


def _epilogue(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Of the busiest SM; blocks that share one hide all but their own. A fold has its own."""
    tile_kb = config.bm * config.bn * problem.result.bytes / 1e3
    one = device.epilogue_us + tile_kb / device.store_kb_per_us
    turns = max(work.rounds, work.tiles_of_sm // max(1, work.resident), 1)
    shown = 1 + (turns - 1) * _OVERLAPPED if overlaps_tiles(config) else turns
    return one * shown


def _fold(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Parts of split tiles: stored, told, loaded by the last to arrive, or by a second kernel on
    all SMs."""
    if work.merge is None:
        return 0.0
    rate = device.fragment_kb_per_us if keeps_fragments(config) else device.slot_kb_per_us
    slot = _slot_bytes(config, problem) / 1e3 / rate
    store = work.slots_of_sm * slot
    if work.merge is Merge.FIXUP:
        launch = device.overlapped_launch_us if config.launch_pdl else device.next_launch_us
        return store + launch + work.slots * slot / device.sms + work.contributors * device.part_us
    folds = -(-_split_tiles(work) // device.sms)
    return store + device.arrive_us + folds * work.contributors * slot


def _split_tiles(work: Work) -> int:
    return max(1, work.slots // work.contributors)


def _slot_bytes(config: Config, problem: Problem) -> int:
    return config.bm * config.bn * problem.accumulator.bytes
