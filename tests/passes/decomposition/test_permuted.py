"""Blocks that compute each other's units."""

import pytest

from passes.decomposition import Permuted, Segment, StreamK

PLAIN = StreamK(tiles=3, panels=4, units=4)  # ranges of three


def test_a_block_computes_the_segments_of_its_unit_under_its_own_number():
    schedule = Permuted(PLAIN, (2, 0, 3, 1))
    assert schedule.segments(0) == (
        Segment(unit=0, tile=1, k0=2, k1=4, slot=1, contributors=2),
        Segment(unit=0, tile=2, k0=0, k1=1, slot=0, contributors=2),
    )
    assert schedule.segments(1) == (Segment(1, 0, 0, 3, slot=0, contributors=2),)


def test_sizes_slots_and_contributors_are_those_of_the_schedule():
    schedule = Permuted(PLAIN, (2, 0, 3, 1))
    assert (schedule.tiles, schedule.panels, schedule.units, schedule.slots) == (3, 4, 4, 6)
    assert schedule.split_tiles() == PLAIN.split_tiles()
    for tile in range(3):
        assert schedule.contributors(tile) == PLAIN.contributors(tile)
        assert schedule.slot_base(tile) == PLAIN.slot_base(tile)


def test_the_identity_changes_nothing():
    schedule = Permuted(PLAIN, (0, 1, 2, 3))
    assert [schedule.segments(u) for u in range(4)] == [PLAIN.segments(u) for u in range(4)]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 1, 2, 2), (1, 2, 3, 4), (False, 1, 2, 3), "0123"])
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(ValueError, match=r"^order: a permutation of 0 \.\. 4, not "):
        Permuted(PLAIN, order)


def test_a_block_out_of_range_is_an_index_error():
    for wrong in (-1, 4):
        with pytest.raises(IndexError):
            Permuted(PLAIN, (2, 0, 3, 1)).segments(wrong)
