"""How long a schedule takes, fix-up included, under constants that are all arguments.

Blocks run in order on `places` places. A whole tile pays its panels and an epilogue; every part of
a split tile is stored, and the last to arrive loads the others and pays the epilogue, so nobody
waits. Whole waves are counted, not simulated: the time to predict does not grow with the tiles.
"""

from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from passes.decomposition.arithmetic import ceildiv, check_size
from passes.decomposition.cutlass.modes import Mode
from passes.decomposition.cutlass.schedule import CutlassSchedule
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.hybrid import Hybrid
from passes.decomposition.k_aligned import KAligned
from passes.decomposition.schedule import Schedule
from passes.decomposition.simulation import Fold, simulate
from passes.decomposition.split_k import SplitK
from passes.decomposition.stream_k import StreamK
from passes.decomposition.timeline import Event, EventKind, UnitCost

DIGITS = 12


class Term(Enum):
    """A part of a predicted time; the value is the text form."""

    PANELS = "panels"
    EPILOGUES = "epilogues"
    FIXUP = "fix-up"
    TRAFFIC = "partial-tile traffic"
    LAUNCH = "launch"


@dataclass(frozen=True)
class CostModel:
    """Constants, all in one unit of time (seconds, cycles) and in bytes.

    panel, epilogue: time of one block. partial_bytes: one partial tile. bandwidth: bytes a unit of
    time that one block stores or loads of partial tiles; device_bandwidth: all blocks together.
    partial_latency: time to publish or to fetch one partial tile beyond its bytes. launch: fixed.
    ValueError names a constant that is negative, or a bandwidth that is zero.
    """

    panel: float
    epilogue: float
    partial_bytes: float
    bandwidth: float
    partial_latency: float = 0.0
    launch: float = 0.0
    device_bandwidth: float = inf

    def __post_init__(self):
        for name in ("panel", "epilogue", "partial_bytes", "partial_latency", "launch"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}: a finite number >= 0, not {getattr(self, name)!r}")
        for name in ("bandwidth", "device_bandwidth"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: a number > 0, not {getattr(self, name)!r}")

    @property
    def partial(self) -> float:
        """Time of one block to store or to load one partial tile."""
        return self.partial_latency + self.partial_bytes / self.bandwidth

    @property
    def units(self) -> UnitCost:
        """The constants that `simulate` takes."""
        return UnitCost(self.panel, self.epilogue, self.partial)


UNIT_COST_MODEL = CostModel(panel=1, epilogue=2, partial_bytes=2, bandwidth=1)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time of the place that ends last, by what it does; and of the device.

    partials: partial tiles that are stored or loaded. traffic: the least time that the device takes
    for them.
    """

    panels: float
    epilogues: float
    fixup: float
    launch: float
    traffic: float
    partials: int

    @property
    def time(self) -> float:
        """The launch, and the larger of the last place's time and the traffic. To twelve digits, so
        that equal sums in another order are equal."""
        busy = self.panels + self.epilogues + self.fixup
        return float(f"{self.launch + max(busy, self.traffic):.{DIGITS}g}")

    @property
    def binds(self) -> Term:
        """The largest part of the time; the first in the order of `Term` if several are."""
        place = {
            Term.PANELS: self.panels,
            Term.EPILOGUES: self.epilogues,
            Term.FIXUP: self.fixup,
        }
        busy = self.traffic <= sum(place.values())
        parts = {**(place if busy else {Term.TRAFFIC: self.traffic}), Term.LAUNCH: self.launch}
        return max(parts, key=lambda term: parts[term])


@dataclass(slots=True)
class _Counts:
    """What one place does; fixups: stores and loads of partial tiles."""

    panels: int = 0
    epilogues: int = 0
    fixups: int = 0

    def add(self, event: Event) -> None:
        match event.kind:
            case EventKind.COMPUTE:
                self.panels += event.k1 - event.k0
            case EventKind.EPILOGUE:
                self.epilogues += 1
            case EventKind.STORE | EventKind.LOAD:
                self.fixups += 1

    def time(self, cost: CostModel) -> float:
        work = self.panels * cost.panel + self.epilogues * cost.epilogue
        return work + self.fixups * cost.partial


def predict(schedule: Schedule, places: int, cost: CostModel) -> Prediction:
    """The time of `schedule` on `places` places (SMs * blocks an SM).

    As `simulate` with LAST_ARRIVER has it; but for split-K in more than one wave an estimate: its
    waves of slices, then the folds of its waves of tiles. ValueError: `places` below one."""
    check_size("places", places, 1)
    match schedule:
        case DataParallel() if schedule.units in (schedule.tiles, min(schedule.units, places)):
            return _waves(schedule.tiles, schedule.panels, 1, places, cost)
        case SplitK():
            return _waves(schedule.tiles, schedule.panels, schedule.splits, places, cost)
        case StreamK() if schedule.units <= places:
            return _stream_k(schedule, places, cost)
        case Hybrid() if schedule.wave <= places:
            return _hybrid(schedule, places, cost)
        case KAligned() if schedule.units <= places:
            return _k_aligned(schedule, places, cost)
        case CutlassSchedule() if schedule.plan.geometry.wave <= places:
            return _cutlass(schedule, places, cost)
        case _:
            return _simulated(schedule, places, cost)


def _waves(tiles: int, panels: int, splits: int, places: int, cost: CostModel) -> Prediction:
    if panels == 0:
        return _prediction(_Counts(), 0, cost)
    slices, folds = ceildiv(tiles * splits, places), ceildiv(tiles, places)
    stores = slices if splits > 1 else 0
    counts = _Counts(slices * ceildiv(panels, splits), folds, stores + folds * (splits - 1))
    return _prediction(counts, tiles * (2 * splits - 1) if splits > 1 else 0, cost)


def _stream_k(schedule: StreamK, places: int, cost: CostModel) -> Prediction:
    """All whole tiles but one a unit are counted: with so many tiles less, all cuts are in the same
    places of their tiles. A unit ends with the first part of a tile, after a tile's worth of panels
    or more: it is the last to arrive there, with the fewer tiles too. (With CEIL the last units may
    lose their work so; they have least.)"""
    counted = max(0, schedule.tiles // schedule.units - 1) if schedule.units else 0
    simulated = replace(schedule, tiles=schedule.tiles - counted * schedule.units)
    return _simulated(simulated, places, cost, counted)


def _hybrid(schedule: Hybrid, places: int, cost: CostModel) -> Prediction:
    whole, part = schedule.data_parallel, schedule.stream_k
    if part.units == 0:
        return _waves(whole.tiles, whole.panels, 1, places, cost)
    return _simulated(part, places, cost, whole.tiles // schedule.wave)


def _k_aligned(schedule: KAligned, places: int, cost: CostModel) -> Prediction:
    tail = schedule.tail
    if tail is None:
        return _waves(schedule.tiles, schedule.panels, 1, places, cost)
    waves, split = schedule.tiles // schedule.units, replace(schedule, tiles=tail.tiles)
    return _simulated(split, places, cost, waves)


def _cutlass(schedule: CutlassSchedule, places: int, cost: CostModel) -> Prediction:
    plan, wave = schedule.plan, schedule.plan.geometry.wave
    if plan.mode is not Mode.STREAM_K:
        return _waves(schedule.tiles, schedule.panels, plan.splits, wave, cost)
    if plan.whole_tiles % wave:
        return _simulated(schedule, places, cost)
    return _simulated(schedule.stream_k, places, cost, plan.whole_tiles // wave)


def _simulated(
    schedule: Schedule, places: int, cost: CostModel, whole_tiles: int = 0
) -> Prediction:
    """As simulated; every place then computes `whole_tiles` tiles more."""
    timeline = simulate(schedule, cost.units, places=places, fold=Fold.LAST_ARRIVER)
    used = min(places, schedule.units)
    counts = [_Counts(whole_tiles * schedule.panels, whole_tiles) for _ in range(used)]
    for place, events in zip(timeline.place, timeline.events, strict=True):
        for event in events:
            counts[place].add(event)
    last = max(counts, key=lambda c: c.time(cost), default=_Counts())
    return _prediction(last, sum(c.fixups for c in counts), cost)


def _prediction(counts: _Counts, partials: int, cost: CostModel) -> Prediction:
    return Prediction(
        panels=counts.panels * cost.panel,
        epilogues=counts.epilogues * cost.epilogue,
        fixup=counts.fixups * cost.partial,
        launch=cost.launch,
        traffic=partials * cost.partial_bytes / cost.device_bandwidth,
        partials=partials,
    )
