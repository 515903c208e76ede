"""Every decomposition computes each (tile, panel) once: by exhaustion for small sizes, by property
beyond; and the check that says so fails on seeded faults."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.decomposition import Bounds, DataParallel, Segment, StreamK, check_exact_cover

LARGEST = 24


def loads(schedule: StreamK) -> list[int]:
    return [hi - lo for lo, hi in map(schedule.unit_range, range(schedule.units))]


@pytest.mark.parametrize("bounds", Bounds)
def test_every_small_schedule_covers_each_panel_once_and_leaves_no_unit_empty(bounds):
    sizes = range(1, LARGEST + 1)
    schedules = {StreamK(t, p, u, bounds) for t in sizes for p in sizes for u in sizes}
    for schedule in schedules:
        check_exact_cover(schedule)
        if bounds is not Bounds.CEIL:
            assert max(loads(schedule)) - min(loads(schedule)) <= 1, schedule
    assert len(schedules) > 9_000  # clamping makes some of the 13,824 equal


@pytest.mark.parametrize("bounds", Bounds)
def test_ceil_and_the_others_give_no_unit_more_than_the_ceiling(bounds):
    for tiles, panels, units in [(9, 32, 4), (7, 13, 5), (144, 64, 132)]:
        assert max(loads(StreamK(tiles, panels, units, bounds))) == -(-tiles * panels // units)


@given(st.integers(1, 60), st.integers(1, 200), st.integers(1, 300), st.sampled_from(list(Bounds)))
def test_larger_schedules_cover_each_panel_once(tiles, panels, units, bounds):
    check_exact_cover(StreamK(tiles, panels, units, bounds))


def test_data_parallel_covers_each_panel_once():
    for tiles in range(LARGEST):
        for panels in range(LARGEST):
            check_exact_cover(DataParallel(tiles, panels))


@pytest.mark.parametrize(("tiles", "panels"), [(0, 5), (5, 0), (0, 0)])
def test_a_launch_without_iterations_has_no_unit(tiles, panels):
    for schedule in (StreamK(tiles, panels, 4), DataParallel(tiles, panels)):
        assert (schedule.units, schedule.total, schedule.split_tiles()) == (0, 0, ())
        check_exact_cover(schedule)


@dataclass(frozen=True)
class Table:
    """A schedule as a table of segments, right or wrong; all else is as in `right`."""

    right: StreamK
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


@settings(max_examples=50)
@given(st.data())
def test_control_any_segment_shifted_by_one_panel_is_caught(data):
    schedule = StreamK(*(data.draw(st.integers(2, 9)) for _ in range(3)))
    unit = data.draw(st.integers(0, schedule.units - 1))
    rows = [schedule.segments(u) for u in range(schedule.units)]
    s = rows[unit][0]
    rows[unit] = (replace(s, k0=s.k0 + 1, k1=s.k1 + 1), *rows[unit][1:])
    with pytest.raises(ValueError, match=r"panel \d+ is missing|out of range"):
        check_exact_cover(Table(schedule, tuple(rows)))
