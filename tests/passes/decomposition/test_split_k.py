"""Slices, unit orders and refusals of split-K."""

import pytest

from passes.decomposition import DataParallel, Segment, SlotOrder, SplitK


def test_the_slices_are_ceilings_and_the_last_is_shorter():
    schedule = SplitK(tiles=1, panels=10, splits=4)
    assert [(s.k0, s.k1, s.slot) for s in schedule.all_segments()] == [
        (0, 3, 0),
        (3, 6, 1),
        (6, 9, 2),
        (9, 10, 3),
    ]


@pytest.mark.parametrize(
    ("panels", "asked", "splits"), [(10, 6, 5), (9, 4, 3), (10, 100, 10), (1, 3, 1), (64, 4, 4)]
)
def test_empty_slices_are_dropped(panels, asked, splits):
    schedule = SplitK(3, panels, asked)
    assert (schedule.splits, schedule.units, schedule.contributors(0)) == (
        splits,
        3 * splits,
        splits,
    )


def test_split_fastest_has_the_contributors_of_a_tile_side_by_side():
    schedule = SplitK(2, 6, 3, SlotOrder.SPLIT_FASTEST)
    assert [(s.tile, s.slot) for s in schedule.all_segments()] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_split_slowest_has_equal_parts_of_k_side_by_side():
    schedule = SplitK(2, 6, 3, SlotOrder.SPLIT_SLOWEST)
    assert [(s.tile, s.slot) for s in schedule.all_segments()] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (0, 2),
        (1, 2),
    ]
    assert [schedule.slot_base(t) for t in range(2)] == [0, 3]
    assert schedule.segments(3) == (Segment(3, 1, 2, 4, slot=1, contributors=3),)


@pytest.mark.parametrize("order", SlotOrder)
def test_one_split_is_data_parallel_without_slots(order):
    schedule = SplitK(5, 7, 1, order)
    assert tuple(schedule.all_segments()) == tuple(DataParallel(5, 7).all_segments())
    assert (schedule.slots, schedule.split_tiles()) == (0, ())


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tiles": -1}, "tiles"),
        ({"panels": True}, "panels"),
        ({"splits": 0}, "splits"),
        ({"splits": 2.0}, "splits"),
        ({"slot_order": "split-fastest"}, "slot_order"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=f"^{name}: an? "):
        SplitK(**{"tiles": 3, "panels": 4, "splits": 2} | wrong)
