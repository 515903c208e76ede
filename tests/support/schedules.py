"""Schedules of every kind, for the tests of decompositions."""

from collections.abc import Callable, Iterator
from itertools import product

from passes.decomposition import (
    Bounds,
    DataParallel,
    Direction,
    Hybrid,
    HybridKind,
    KAligned,
    Permuted,
    Schedule,
    SlotOrder,
    SplitK,
    StreamK,
)

BACKWARD = Direction.BACKWARD


def permuted(tiles: int, panels: int, units: int) -> Permuted:
    """Stream-K whose blocks take first the odd units, backwards, then the even ones."""
    schedule = StreamK(tiles, panels, units)
    odd, even = range(1, schedule.units, 2), range(0, schedule.units, 2)
    return Permuted(schedule, (*reversed(odd), *even))


def _families() -> Iterator[tuple[str, Callable[[int, int, int], Schedule]]]:
    for b, least in product(Bounds, (1, 3, 8)):
        yield f"stream-k {b.value} {least}", lambda *n, b=b, m=least: StreamK(*n, b, m)
    yield "stream-k backward", lambda *n: StreamK(*n, direction=BACKWARD)
    yield "data-parallel", DataParallel
    for o in SlotOrder:
        yield f"split-k {o.value}", lambda *n, o=o: SplitK(*n, o)
    for k, first, b in product(HybridKind, (True, False), Bounds):
        name = f"hybrid {k.value} {b.value} {'first' if first else 'last'}"
        yield name, lambda *n, k=k, f=first, b=b: Hybrid(*n, k, f, b)
    for k in HybridKind:
        yield (
            f"hybrid {k.value} 3 backward",
            lambda *n, k=k: Hybrid(*n, k, True, Bounds.CEIL, 3, BACKWARD),
        )
    for cost, least in ((0, 1), (3, 1), (0, 4), (2, 3)):
        yield f"k-aligned {cost} {least}", lambda *n, c=cost, m=least: KAligned(*n, c, m)
    yield "permuted", permuted


FAMILIES = dict(_families())  # name -> of (tiles, panels, units), or splits in place of units


def loads(schedule: Schedule) -> list[int]:
    """Panels of each unit."""
    return [sum(s.k1 - s.k0 for s in schedule.segments(u)) for u in range(schedule.units)]


def different_k(schedule: Schedule) -> float:
    """At how many different k units are at once, on average, if all compute in step."""
    order = [
        [k for s in schedule.segments(unit) for k in range(s.k0, s.k1)]
        for unit in range(schedule.units)
    ]
    steps = max(map(len, order))
    return sum(len({ks[i] for ks in order if i < len(ks)}) for i in range(steps)) / steps
