"""Every decomposition computes each (tile, panel) once: by exhaustion for small sizes, by property
beyond; and the check that says so fails on seeded faults."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.decomposition import (
    Bounds,
    Hybrid,
    Schedule,
    Segment,
    SplitK,
    StreamK,
    check_exact_cover,
)
from tests.support.schedules import FAMILIES

LARGEST = 24
SIZES = range(1, LARGEST + 1)
SAMPLE = 500  # of the 13,824 sizes, for each kind of schedule


def loads(schedule: Schedule) -> list[int]:
    return [sum(s.k1 - s.k0 for s in schedule.segments(u)) for u in range(schedule.units)]


@pytest.fixture
def small_sizes(request: pytest.FixtureRequest) -> list[tuple[int, int, int]]:
    """(tiles, panels, units): all up to 24 with --long; else all up to 5, and a sample."""
    every = list(product(SIZES, repeat=3))
    if request.config.getoption("--long"):
        return every
    return [*product(range(1, 6), repeat=3), *Random(0).sample(every, SAMPLE)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_schedules_cover_each_panel_once_and_leave_no_unit_empty(family, small_sizes):
    schedules = {FAMILIES[family](*sizes) for sizes in small_sizes}
    for schedule in schedules:
        check_exact_cover(schedule)
    assert len(schedules) > 300  # clamping makes some equal


@pytest.mark.timeout(600)
@pytest.mark.parametrize("bounds", Bounds)
def test_loads_of_stream_k_without_a_minimum_differ_by_one_panel_at_most(bounds, request):
    upto = LARGEST if request.config.getoption("--long") else 14
    for sizes in product(range(1, upto + 1), repeat=3):
        shares = loads(StreamK(*sizes, bounds))
        full = shares[:-1] if bounds is Bounds.CEIL else shares  # its last unit takes the rest
        assert max(full, default=1) - min(full, default=1) <= 1, sizes
        assert 0 < shares[-1] <= max(shares)


@pytest.mark.parametrize("bounds", Bounds)
def test_ceil_and_the_others_give_no_unit_more_than_the_ceiling(bounds):
    for tiles, panels, units in [(9, 32, 4), (7, 13, 5), (144, 64, 132)]:
        assert max(loads(StreamK(tiles, panels, units, bounds))) == -(-tiles * panels // units)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=15)
@given(st.integers(1, 60), st.integers(1, 200), st.integers(1, 300))
def test_larger_schedules_cover_each_panel_once(family, tiles, panels, units):
    check_exact_cover(FAMILIES[family](tiles, panels, units))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_a_schedule_made_anew_from_its_fields_is_the_same(family, tiles, panels, units):
    schedule = FAMILIES[family](tiles, panels, units)
    again = replace(schedule)
    assert again == schedule
    assert again.units == schedule.units
    assert all(again.segments(u) == schedule.segments(u) for u in range(schedule.units))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("tiles", "panels"), [(0, 5), (5, 0), (0, 0)])
def test_a_launch_without_iterations_has_no_unit(family, tiles, panels):
    schedule = FAMILIES[family](tiles, panels, 4)
    assert (schedule.units, schedule.slots, schedule.split_tiles()) == (0, 0, ())
    check_exact_cover(schedule)
    assert replace(schedule) == schedule


@dataclass(frozen=True)
class Table:
    """A schedule as a table of segments, right or wrong; all else is as in `right`."""

    right: Schedule
    table: tuple[tuple[Segment, ...], ...]

    def __getattr__(self, name: str):
        return getattr(self.right, name)

    @property
    def units(self) -> int:
        return len(self.table)

    def segments(self, unit: int) -> tuple[Segment, ...]:
        return self.table[unit]


RIGHT = StreamK(tiles=3, panels=4, units=5)
ROWS = tuple(map(RIGHT.segments, range(RIGHT.units)))  # 0..2, 2..4, 4..7, 7..9, 9..12


def with_row(unit: int, change: Callable[[tuple[Segment, ...]], tuple[Segment, ...]]) -> Table:
    return Table(RIGHT, (*ROWS[:unit], change(ROWS[unit]), *ROWS[unit + 1 :]))


def first(**changes: int) -> Callable[[tuple[Segment, ...]], tuple[Segment, ...]]:
    return lambda row: (replace(row[0], **changes), *row[1:])


FAULTS = [
    ("starts one late", with_row(1, first(k0=3)), "tile 0, panel 2 is missing"),
    ("ends one early", with_row(0, first(k1=1)), "tile 0, panel 1 is missing"),
    ("starts one early", with_row(1, first(k0=1)), "tile 0, panel 1 is doubled"),
    ("ends one late", with_row(0, first(k1=3)), "tile 0, panel 2 is doubled"),
    ("last panel left out", with_row(4, first(k1=3)), "tile 2, panel 3 is missing"),
    ("segment twice", with_row(1, lambda row: row * 2), "tile 0, panel 2 is doubled"),
    ("segment left out", with_row(3, lambda row: row[1:]), "tile 1, panel 3 is missing"),
    ("whole unit doubled", Table(RIGHT, (*ROWS, ROWS[0])), "lists a segment of unit 0"),
    ("empty unit", with_row(2, lambda row: ()), "unit 2 is empty"),
    ("empty segment", with_row(0, first(k0=2)), "out of range or empty"),
    ("beyond the panels", with_row(4, first(k1=5)), "out of range or empty"),
    ("beyond the tiles", with_row(4, first(tile=3)), "out of range or empty"),
    ("wrong slot", with_row(1, first(slot=0)), "slot 0 in place of 1"),
    ("too few contributors", with_row(0, first(contributors=1)), "2 contributors, not 1"),
]


@pytest.mark.parametrize(("name", "schedule", "message"), FAULTS, ids=[f[0] for f in FAULTS])
def test_control_a_faulty_schedule_is_caught(name, schedule, message):
    with pytest.raises(ValueError, match=message):
        check_exact_cover(schedule)


def test_control_the_table_of_the_right_segments_passes():
    check_exact_cover(Table(RIGHT, ROWS))


@dataclass(frozen=True)
class Overlapping(StreamK):
    def slot_base(self, tile: int) -> int:
        return 0


@dataclass(frozen=True)
class FewSlots(StreamK):
    @property
    def slots(self) -> int:
        return 3


@dataclass(frozen=True)
class Miscounted(StreamK):
    def contributors(self, tile: int) -> int:
        return 2


@dataclass(frozen=True)
class Unsplit(StreamK):
    def split_tiles(self) -> tuple[int, ...]:
        return ()


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (Overlapping, "slot 0 is used twice"),
        (FewSlots, "workspace slot 4 of 3"),
        (Miscounted, "contributors, not 2"),
        (Unsplit, "split tiles are"),
    ],
)
def test_control_a_faulty_closed_form_is_caught(faulty, message):
    with pytest.raises(ValueError, match=message):
        check_exact_cover(faulty(3, 4, 7))


@dataclass(frozen=True)
class OneSlotShort(SplitK):
    @property
    def slots(self) -> int:
        return super().slots - 1


@dataclass(frozen=True)
class Clashing(Hybrid):
    def slot_base(self, tile: int) -> int:
        return super().slot_base(tile) // 2


@pytest.mark.parametrize(
    ("faulty", "message"),
    [(OneSlotShort(3, 4, 2), "slot 5 of 5"), (Clashing(9, 4, 4), "is used twice")],
)
def test_control_faulty_slots_of_the_others_are_caught(faulty, message):
    with pytest.raises(ValueError, match=message):
        check_exact_cover(faulty)


CHANGES = [
    lambda s: (replace(s, k0=s.k0 + 1, k1=s.k1 + 1),),
    lambda s: (replace(s, k1=s.k1 + 1),),
    lambda s: (replace(s, k0=s.k0 + 1),),
    lambda s: (replace(s, tile=s.tile + 1),),
    lambda s: (replace(s, slot=s.slot + 1),),
    lambda s: (replace(s, contributors=s.contributors + 1),),
    lambda s: (),
    lambda s: (s, s),
]


@pytest.mark.sampled
@pytest.mark.parametrize("change", range(len(CHANGES)))
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=10)
@given(st.data())
def test_control_any_segment_changed_is_caught(family, change, data):
    schedule = FAMILIES[family](*(data.draw(st.integers(2, 9)) for _ in range(3)))
    unit = data.draw(st.integers(0, schedule.units - 1))
    rows = [schedule.segments(u) for u in range(schedule.units)]
    at = data.draw(st.integers(0, len(rows[unit]) - 1))
    rows[unit] = (*rows[unit][:at], *CHANGES[change](rows[unit][at]), *rows[unit][at + 1 :])
    with pytest.raises(ValueError, match=r"tile|unit|segment"):
        check_exact_cover(Table(schedule, tuple(rows)))
