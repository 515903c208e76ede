"""What every drawing of a timeline shows: its rows, which tiles are split, a line of figures, a
scale."""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, log10

from passes.decomposition.timeline import Event, EventKind, Timeline

FIXUP = frozenset({EventKind.STORE, EventKind.WAIT, EventKind.LOAD})


@dataclass(frozen=True)
class Row:
    """One line of a drawing: a unit, or the fold of one split tile in a reduction wave."""

    label: str
    events: tuple[Event, ...]


def rows(timeline: Timeline) -> tuple[Row, ...]:
    """A row a unit, then a row a fold."""
    units = [Row(f"unit {unit}", events) for unit, events in enumerate(timeline.events)]
    folds = groupby(timeline.reduction, key=lambda e: e.unit)
    return *units, *(Row(f"fold {ordinal}", tuple(events)) for ordinal, events in folds)


def split_tiles(timeline: Timeline) -> frozenset[int]:
    """The tiles that two units or more compute a part of."""
    parts = Counter(_computed(timeline))
    return frozenset(tile for tile, count in parts.items() if count > 1)


def headline(timeline: Timeline) -> str:
    """The figures of a timeline, in one line."""
    tiles, split = len(set(_computed(timeline))), len(split_tiles(timeline))
    return (
        f"{tiles} tiles, {split} of them split; {len(timeline.events)} units on "
        f"{timeline.places} places; makespan {timeline.makespan:g}, ideal {timeline.ideal:g}"
    )


def describe(event: Event) -> str:
    """What an event is about: its tile, and the panels that it computes, stores or fetches."""
    if event.kind is EventKind.EPILOGUE:
        return f"tile {event.tile}"
    return f"tile {event.tile}, panels {event.k0}..{event.k1}"


def round_step(least: float) -> float:
    """The least of 1, 2, 5, 10, ... (and 0.5, 0.2, ...) that is `least` or more; 1 for zero."""
    if least <= 0:
        return 1.0
    power = floor(log10(least))
    steps = [m * 10.0**p for p in (power, power + 1) for m in (1, 2, 5)]
    return next(step for step in steps if step * (1 + 1e-9) >= least)


def step_count(span: float, step: float) -> int:
    """How many steps cover `span`, at least one."""
    return max(1, ceil(span / step - 1e-9))


def _computed(timeline: Timeline) -> list[int]:
    return [e.tile for u in timeline.events for e in u if e.kind is EventKind.COMPUTE]
