"""Segments, slots and split tiles of Stream-K and data-parallel, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passes.decomposition import Bounds, DataParallel, Segment, StreamK


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


@pytest.mark.parametrize("sizes", [(-1, 4, 2), (4, -1, 2), (4, 4, 0), (4, 4, -3)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"must not be negative|must be at least 1"):
        StreamK(*sizes)


@pytest.mark.parametrize("schedule", [StreamK(3, 4, 5), DataParallel(3, 4)])
def test_a_unit_or_an_iteration_out_of_range_is_an_index_error(schedule):
    for ask, n in [(schedule.unit_range, schedule.units), (schedule.owner, schedule.total)]:
        ask(n - 1)
        for wrong in (-1, n):
            with pytest.raises(IndexError):
                ask(wrong)


def test_data_parallel_owner_is_the_tile():
    assert [DataParallel(3, 4).owner(i) for i in (0, 3, 4, 11)] == [0, 0, 1, 2]
