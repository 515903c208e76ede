"""Segments, slots and split tiles of Stream-K, its minimum, and what it refuses."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passes.decomposition import Bounds, DataParallel, Direction, Segment, StreamK


def test_nine_tiles_over_four_units_split_the_tiles_at_the_unit_boundaries():
    schedule = StreamK(tiles=9, panels=32, units=4)  # 72 iterations a unit
    assert schedule.segments(1) == (
        Segment(unit=1, tile=2, k0=8, k1=32, slot=1, contributors=2),
        Segment(unit=1, tile=3, k0=0, k1=32, slot=0, contributors=1),
        Segment(unit=1, tile=4, k0=0, k1=16, slot=0, contributors=2),
    )
    assert schedule.split_tiles() == (2, 4, 6)
    assert [schedule.contributors(t) for t in range(9)] == [1, 1, 2, 1, 2, 1, 2, 1, 1]


def test_one_tile_over_many_units_has_a_slot_a_unit():
    schedule = StreamK(tiles=1, panels=10, units=5)
    assert [(s.k0, s.k1, s.slot) for s in schedule.all_segments()] == [
        (0, 2, 0),
        (2, 4, 1),
        (4, 6, 2),
        (6, 8, 3),
        (8, 10, 4),
    ]
    assert schedule.split_tiles() == (0,)


def test_as_many_units_as_tiles_is_data_parallel():
    stream_k, data_parallel = StreamK(7, 5, 7), DataParallel(7, 5)
    assert tuple(stream_k.all_segments()) == tuple(data_parallel.all_segments())
    assert stream_k.split_tiles() == data_parallel.split_tiles() == ()


@given(
    st.integers(1, 2**30), st.integers(1, 2**20), st.integers(2, 500), st.sampled_from(list(Bounds))
)
def test_the_workspace_depends_on_units_alone(tiles, panels, units, bounds):
    schedule = StreamK(tiles, panels, units, bounds)
    ends = [schedule.slot_base(t) + schedule.contributors(t) for t in schedule.split_tiles()]
    assert max(ends, default=0) <= schedule.slots <= 2 * (units - 1)


@pytest.mark.parametrize("bounds", Bounds)
def test_no_unit_has_less_than_the_minimum_and_no_larger_count_would_do(bounds):
    for total, units, minimum in product(range(1, 41), range(1, 17), range(1, 10)):
        schedule = StreamK(1, total, units, bounds, min_panels=minimum)
        assert schedule.units <= units
        assert schedule.units == 1 or min(loads(schedule)) >= minimum
        for more in range(schedule.units + 1, units + 1):
            larger = StreamK(1, total, more, bounds)
            assert larger.units < more or min(loads(larger)) < minimum


def loads(schedule: StreamK) -> list[int]:
    return [high - low for low, high in map(schedule.unit_range, range(schedule.units))]


def test_a_launch_with_less_than_the_minimum_is_one_unit():
    assert StreamK(1, 5, 4, min_panels=8).units == 1


@pytest.mark.parametrize("bounds", Bounds)
def test_backwards_is_the_same_segments_from_the_end(bounds):
    forward = StreamK(9, 7, 4, bounds)
    backward = replace(forward, direction=Direction.BACKWARD)
    for unit in range(forward.units):
        assert backward.segments(unit) == forward.segments(unit)[::-1]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tiles": -1}, "tiles"),
        ({"panels": -1}, "panels"),
        ({"units": 0}, "units"),
        ({"units": -3}, "units"),
        ({"tiles": True}, "tiles"),
        ({"panels": 4.0}, "panels"),
        ({"units": "4"}, "units"),
        ({"min_panels": 0}, "min_panels"),
        ({"min_panels": None}, "min_panels"),
        ({"bounds": "floor"}, "bounds"),
        ({"direction": 1}, "direction"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    right = {"tiles": 3, "panels": 4, "units": 5}
    with pytest.raises(ValueError, match=f"^{name}: an? "):
        StreamK(**right | wrong)


def test_a_unit_a_tile_or_an_iteration_out_of_range_is_an_index_error():
    schedule = StreamK(3, 4, 5)
    for ask, n in [
        (schedule.unit_range, schedule.units),
        (schedule.segments, schedule.units),
        (schedule.owner, schedule.total),
        (schedule.contributors, schedule.tiles),
        (schedule.slot_base, schedule.tiles),
    ]:
        ask(n - 1)
        for wrong in (-1, n):
            with pytest.raises(IndexError):
                ask(wrong)
