"""The makespan of a schedule under a cost a panel, an epilogue and a partial tile.

A unit computes its segments in order. A whole tile pays the epilogue; a part of a split tile is
stored and published, or folds the other parts, which `Fold` says.
"""

from collections.abc import Generator, Iterator
from enum import Enum
from heapq import heappop, heappush

from passes.decomposition.arithmetic import check_kind, check_size
from passes.decomposition.schedule import Schedule, Segment
from passes.decomposition.timeline import Event, EventKind, Timeline, UnitCost

Key = tuple[int, int]  # (tile, slot): a partial tile
Wish = float | Key  # go on at that time, or once that part is published
Work = Generator[Wish, None, None]


class Fold(Enum):
    """Who adds up the parts of a split tile; the value is the text form.

    FIRST_PANEL: the unit with panel 0 waits for each other part in k order: for units that walk
    forwards. LAST_PANEL: the unit with the last panel does: for units that walk backwards.
    LAST_ARRIVER: every unit stores, the last to do so loads the other parts; nobody waits.
    REDUCTION_WAVE: every unit stores; when all units are done, each split tile has a block of its
    own that loads all parts but one, all at once. ATOMIC: every unit adds its part into the output,
    which costs what a store does; nobody loads, and a split tile has no epilogue.
    """

    FIRST_PANEL = "first-panel"
    LAST_PANEL = "last-panel"
    LAST_ARRIVER = "last-arriver"
    REDUCTION_WAVE = "reduction-wave"
    ATOMIC = "atomic"


def simulate(
    schedule: Schedule,
    cost: UnitCost = UnitCost(),  # noqa: B008
    *,
    places: int | None = None,
    fold: Fold = Fold.FIRST_PANEL,
) -> Timeline:
    """What each unit of `schedule` does when, on `places` places (SMs * blocks an SM; one a unit if
    not said). Units start in order, each as soon as a place is free.

    ValueError: `places` is no int >= 1; or units that wait hold all places, so that the unit
    waited for never starts.
    """
    if places is not None:
        check_size("places", places, 1)
    check_kind("fold", fold, Fold)
    launch = _Launch(schedule, cost, fold, places or max(1, schedule.units))
    launch.run()
    return launch.timeline()


class _Launch:
    """The units as generators, resumed in order of time."""

    def __init__(self, schedule: Schedule, cost: UnitCost, fold: Fold, places: int):
        self.schedule, self.cost, self.fold, self.places = schedule, cost, fold, places
        self.events: list[list[Event]] = []
        self.place: list[int] = []
        self.work: list[Work] = []
        self.ready: list[tuple[float, int]] = []  # (time, unit)
        self.waiting: dict[Key, int] = {}
        self.published: dict[Key, tuple[float, Segment]] = {}
        self.finish: float = 0

    def run(self) -> None:
        for place in range(min(self.places, self.schedule.units)):
            self._start(0, place)
        while self.ready:
            now, unit = heappop(self.ready)
            self._resume(now, unit)
        if self.waiting:
            unit, (tile, slot) = min((unit, key) for key, unit in self.waiting.items())
            raise ValueError(
                f"unit {unit} waits for slot {slot} of tile {tile} for ever: units that wait hold "
                f"all {self.places} places; give it more places, or {Fold.LAST_ARRIVER}"
            )

    def timeline(self) -> Timeline:
        reduction = tuple(self._reduction())
        return Timeline(
            places=self.places,
            events=tuple(map(tuple, self.events)),
            place=tuple(self.place),
            reduction=reduction,
            makespan=max((e.end for e in reduction), default=self.finish),
            ideal=self._ideal(),
        )

    def _start(self, now: float, place: int) -> None:
        unit = len(self.work)
        self.events.append([])
        self.place.append(place)
        self.work.append(self._unit(unit, now))
        heappush(self.ready, (now, unit))

    def _resume(self, now: float, unit: int) -> None:
        wish = next(self.work[unit], None)
        if isinstance(wish, tuple):
            self.waiting[wish] = unit
        elif wish is not None:
            heappush(self.ready, (wish, unit))
        else:
            self.finish = now
            if len(self.work) < self.schedule.units:
                self._start(now, self.place[unit])

    def _unit(self, unit: int, now: float) -> Work:
        for s in self.schedule.segments(unit):
            now = self._spend(EventKind.COMPUTE, now, (s.k1 - s.k0) * self.cost.mac, s)
            if s.contributors == 1:
                now = self._epilogue(unit, now, s.tile)
            elif self._waits(s):
                now = yield from self._collect(s, now)
            else:
                now = self._spend(EventKind.STORE, now, self.cost.partial, s)
                yield now  # so that parts are published in order of time
                now = self._publish(s, now)
        yield now  # so that places are freed in order of time

    def _waits(self, s: Segment) -> bool:
        match self.fold:
            case Fold.FIRST_PANEL:
                return s.k0 == 0
            case Fold.LAST_PANEL:
                return s.k1 == self.schedule.panels
            case Fold.LAST_ARRIVER | Fold.REDUCTION_WAVE | Fold.ATOMIC:
                return False

    def _collect(self, s: Segment, now: float) -> Generator[Wish, None, float]:
        for slot in _others(s):
            key = s.tile, slot
            if key not in self.published:
                yield key
            there, part = self.published[key]
            if there > now:
                now = self._spend(EventKind.WAIT, now, there - now, part, s.unit)
            now = self._spend(EventKind.LOAD, now, self.cost.partial, part, s.unit)
        return self._epilogue(s.unit, now, s.tile)

    def _publish(self, s: Segment, now: float) -> float:
        key = s.tile, s.slot
        self.published[key] = now, s
        if key in self.waiting:
            heappush(self.ready, (now, self.waiting.pop(key)))
        others = [self.published.get((s.tile, slot)) for slot in _others(s)]
        if self.fold is not Fold.LAST_ARRIVER or None in others:
            return now
        for _, part in filter(None, others):
            now = self._spend(EventKind.LOAD, now, self.cost.partial, part, s.unit)
        return self._epilogue(s.unit, now, s.tile)

    def _reduction(self) -> Iterator[Event]:
        """REDUCTION_WAVE: after the last unit, all split tiles at once."""
        if self.fold is not Fold.REDUCTION_WAVE:
            return
        for ordinal, tile in enumerate(self.schedule.split_tiles()):
            now, panels = self.finish, self.schedule.panels
            for slot in range(1, self.schedule.contributors(tile)):
                _, part = self.published[tile, slot]
                end = now + self.cost.partial
                yield Event(ordinal, EventKind.LOAD, now, end, tile, part.k0, part.k1)
                now = end
            end = now + self.cost.epilogue
            yield Event(ordinal, EventKind.EPILOGUE, now, end, tile, 0, panels)

    def _epilogue(self, unit: int, now: float, tile: int) -> float:
        end = now + self.cost.epilogue
        panels = self.schedule.panels
        self.events[unit].append(Event(unit, EventKind.EPILOGUE, now, end, tile, 0, panels))
        return end

    def _spend(
        self, kind: EventKind, now: float, time: float, s: Segment, unit: int | None = None
    ) -> float:
        """`unit`, that of the segment if not said, spends `time` on it; when that ends."""
        unit = s.unit if unit is None else unit
        self.events[unit].append(Event(unit, kind, now, now + time, s.tile, s.k0, s.k1))
        return now + time

    def _ideal(self) -> float:
        panels = self.schedule.panels
        tiles = self.schedule.tiles if panels else 0
        return tiles * (panels * self.cost.mac + self.cost.epilogue) / self.places


def _others(s: Segment) -> list[int]:
    """The slots of the other parts of a segment's tile, in k order."""
    return [slot for slot in range(s.contributors) if slot != s.slot]
