"""The predicted time of a configuration, by what it goes into."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum

from backends.planner.blocks import slot_bytes, vector_residents
from backends.planner.config import Config, Kind
from backends.planner.device import Device
from backends.planner.panels import Overlapping, phases
from backends.planner.passes_of import keeps_fragments, overlaps_tiles
from backends.planner.problem import Problem
from backends.planner.work import Work, work_of
from passes.stream_k import Merge

_BLEND = 5  # the norm by which times that overlap add up
_LOADS = 3  # the same, of DRAM and latency, which overlap less
_OVERLAPPED = 0.6  # of an epilogue, where the next tile's panels are loaded meanwhile
_LOADED = 1.2  # latency while all of DRAM's rate is used


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
    each = phases(config, problem, device, work)
    sustained = problem.flops / device.sustained_tflops[problem.dtype.value] / 1e6
    power = max(0.0, sustained - device.burst_us)
    return Prediction(
        **{f.name: sum(getattr(phase, f.name) for phase in each) for f in fields(Overlapping)},
        power=power,
        launch=device.launch_us + device.start_us,
        epilogue=_epilogue(config, problem, device, work),
        fold=_fold(config, problem, device, work),
        panels=max(power, sum(map(_blended, each))),
    )


def _blended(phase: Overlapping) -> float:
    """Loads out of DRAM wait longer the nearer it is to its rate."""
    loads = _norm((phase.dram, phase.latency), _LOADS)
    return _norm((phase.products, phase.l2, loads), _BLEND)


def _norm(parts: Iterable[float], power: int) -> float:
    parts = tuple(parts)
    most = max(parts)  # powers of the shares cannot overflow
    return most * sum((part / most) ** power for part in parts) ** (1 / power) if most else 0.0


def _gemv(config: Config, problem: Problem, device: Device) -> Prediction:
    """A read of the matrix. A block loads its next part when the one before is multiplied."""
    blocks = -(-max(problem.m, problem.n) // max(config.bm, config.bn))
    loads = blocks * -(-problem.k // config.bk)
    at_a_time = device.sms * max(1, vector_residents(config))
    dram = problem.least_bytes / (device.dram_tbps * 1e6)
    latency = max(loads / at_a_time, loads / blocks) * device.latency_us * _LOADED
    return Prediction(
        products=0,
        l2=0,
        dram=dram,
        latency=latency,
        power=0,
        launch=device.launch_us + device.latency_us,
        epilogue=device.epilogue_us,
        fold=0,
        panels=_norm((dram, latency), _LOADS),
    )


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
    slot = slot_bytes(config, problem) / 1e3 / rate
    store = work.slots_of_sm * slot
    if work.merge is Merge.FIXUP:
        launch = device.overlapped_launch_us if config.launch_pdl else device.next_launch_us
        return store + launch + work.slots * slot / device.sms + work.contributors * device.part_us
    folds = -(-_split_tiles(work) // device.sms)
    return store + device.arrive_us + folds * work.contributors * slot


def _split_tiles(work: Work) -> int:
    return max(1, work.slots // work.contributors)
