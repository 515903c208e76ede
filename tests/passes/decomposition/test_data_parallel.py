"""Whole tiles, one a unit or in turns."""

import pytest

from passes.decomposition import DataParallel


def test_without_a_unit_count_there_is_one_a_tile():
    assert DataParallel(7, 5).units == DataParallel(7, 5, 100).units == 7
    assert DataParallel(7, 5) == DataParallel(7, 5, 7)


def test_fewer_units_take_turns():
    schedule = DataParallel(7, 5, 3)
    tiles = [[s.tile for s in schedule.segments(u)] for u in range(3)]
    assert tiles == [[0, 3, 6], [1, 4], [2, 5]]
    assert all((s.k0, s.k1, s.contributors) == (0, 5, 1) for s in schedule.all_segments())


def test_the_owner_of_an_iteration_is_that_of_its_tile():
    assert [DataParallel(3, 4).owner(i) for i in (0, 3, 4, 11)] == [0, 0, 1, 2]
    assert [DataParallel(5, 2, 3).owner(i) for i in (0, 5, 6, 9)] == [0, 2, 0, 1]


def test_a_unit_a_tile_or_an_iteration_out_of_range_is_an_index_error():
    schedule = DataParallel(5, 4, 3)
    for ask, n in [
        (schedule.segments, 3),
        (schedule.owner, 20),
        (schedule.contributors, 5),
        (schedule.slot_base, 5),
    ]:
        ask(n - 1)
        for wrong in (-1, n):
            with pytest.raises(IndexError):
                ask(wrong)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"tiles": -1}, "tiles"), ({"panels": 1.5}, "panels"), ({"units": 0}, "units")],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=f"^{name}: an int >= "):
        DataParallel(**{"tiles": 3, "panels": 4, "units": 2} | wrong)
