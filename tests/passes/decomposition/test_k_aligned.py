"""How a k-aligned schedule cuts its tail: at the same k for all, evenly, in parts that are worth
it."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passes.decomposition import (
    DataParallel,
    Fold,
    Hybrid,
    HybridKind,
    KAligned,
    Schedule,
    Segment,
    SlotOrder,
    SplitK,
    StreamK,
    check_exact_cover,
    simulate,
)
from passes.decomposition.k_aligned_shares import Shares
from tests.support.schedules import different_k, loads

#: tiles and panels of 128 x 256 x 64 on 132 SMs, the cost of a part, how the tail is cut
SHAPES = {
    "3840 x 3840 x 4096": (450, 64, 0, Shares(2, 27, 0, enders=24, chunks=2, grain=5)),
    "3840, parts at 3": (450, 64, 3, Shares(2, 27, 3, enders=24, chunks=1, grain=7)),
    "1792 x 1792 x 8192": (98, 128, 0, Shares(1, 96, 0, enders=34, chunks=1, grain=32)),
    "1792, parts at 3": (98, 128, 3, Shares(1, 96, 3, enders=34, chunks=1, grain=29)),
    "1536 x 1536 x 4096": (72, 64, 3, Shares(1, 36, 3, enders=60, chunks=5, grain=5)),
    "1408 x 768 x 8192": (33, 128, 0, Shares(3, 32, 0, enders=33, chunks=1, grain=32)),
}


def parts(schedule: Schedule) -> Iterator[tuple[Segment, ...]]:
    """The parts of split tiles that each unit computes, in its order."""
    for unit in range(schedule.units):
        yield tuple(s for s in schedule.segments(unit) if s.contributors > 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_known_shapes_are_cut_as_by_hand(shape: str):
    tiles, panels, cost, cut = SHAPES[shape]
    schedule = KAligned(tiles, panels, 132, cost)
    assert schedule.shares == cut
    check_exact_cover(schedule)


def test_a_small_tail_by_hand():
    """Eight tiles in a wave; of five, 13 panels by owners, and ends of 7 by three helpers: the row
    of 35 panels is cut at 11 and at 23."""
    schedule = KAligned(13, 20, 8)
    assert schedule.shares == Shares(1, 13, 0, enders=3, chunks=7, grain=1)
    assert [(s.tile, s.k0, s.k1, s.slot) for s in schedule.segments(4)] == [
        (4, 0, 20, 0),
        (12, 0, 13, 0),
    ]
    assert [(s.tile, s.k0, s.k1, s.slot) for s in schedule.segments(6)] == [
        (6, 0, 20, 0),
        (11, 13, 15, 1),
        (10, 13, 20, 1),
        (9, 17, 20, 2),
    ]
    assert [schedule.contributors(tile) for tile in range(7, 13)] == [1, 2, 3, 2, 3, 2]


SIZES = st.tuples(st.integers(1, 400), st.integers(1, 200), st.integers(1, 150))
OPTIONS = st.tuples(st.integers(0, 6), st.integers(1, 9))


@given(SIZES, OPTIONS)
def test_every_unit_begins_the_tail_where_a_layer_does(sizes, options):
    schedule = KAligned(*sizes, *options)
    cut = schedule.shares
    layers = range(cut.layers + 1) if cut else ()
    starts = {i * cut.share + min(i, 1) * cut.cost for i in layers} if cut else set()
    began = Counter(own[0].k0 for own in parts(schedule) if own)
    assert set(began) <= starts
    in_full_layers = [count for k, count in began.items() if k != max(began)]
    assert set(in_full_layers) <= {len(schedule.split_tiles())}


@given(SIZES, st.integers(0, 6))
def test_no_unit_is_more_than_a_panel_above_an_even_share_and_the_cost(sizes, cost):
    schedule = KAligned(*sizes, cost)
    tiles, panels, units = sizes
    even = -(-tiles * panels // units)
    # a part costs more than itself where a unit of the ends has several
    assert max(loads(schedule)) <= even + 2 * cost
    assert cost or max(loads(schedule)) == even


def test_without_a_cost_the_busiest_unit_has_the_ceiling_of_an_even_share(request):
    every = list(product(range(1, 25), repeat=3))
    kept = every if request.config.getoption("--long") else Random(3).sample(every, 1500)
    for tiles, panels, units in kept:
        schedule = KAligned(tiles, panels, units)
        assert max(loads(schedule)) == -(-tiles * panels // units)


@pytest.mark.parametrize(("cost", "least", "busiest"), [(0, 1, 3), (3, 1, 4), (0, 3, 5)])
def test_a_cost_or_least_panels_may_give_more_than_an_even_share(cost, least, busiest):
    assert max(loads(KAligned(1, 5, 2, cost, least))) == busiest


@given(SIZES, OPTIONS)
def test_an_owner_has_the_cost_more_than_a_helper_and_nobody_more_than_an_owner(sizes, options):
    schedule = KAligned(*sizes, *options)
    cut, tail = schedule.shares, len(schedule.split_tiles())
    for rank, own in enumerate(parts(schedule) if tail else ()):
        assert cut is not None
        sizes_of_parts = [s.k1 - s.k0 for s in own]
        if rank < tail:
            assert sizes_of_parts == [cut.owned] == [cut.share + schedule.cost]
        elif rank < cut.layers * tail:
            assert sizes_of_parts == [cut.share]
        assert rank < tail or sum(size + schedule.cost for size in sizes_of_parts) <= cut.owned


@given(SIZES, OPTIONS)
def test_parts_have_the_least_panels_or_all_of_a_tile(sizes, options):
    schedule = KAligned(*sizes, *options)
    least = schedule.min_panels
    assert all(s.k1 - s.k0 >= least for own in parts(schedule) for s in own)


def test_parts_that_cost_more_are_fewer():
    schedules = [KAligned(144, 64, 132, min_panels=least) for least in (1, 8, 16, 32, 33)]
    assert [s.contributors(143) for s in schedules] == [11, 8, 4, 2, 1]
    # ends of two panels would cost more than they relieve
    assert [KAligned(65, 64, 132, cost).contributors(0) for cost in (0, 3)] == [2, 2]


def test_a_tail_as_often_in_the_units_as_it_goes_is_split_k():
    """As many parts a tile, all of them equal: the slices of neighbours are at the same k."""
    aligned = KAligned(33, 128, 132)
    split_k = SplitK(33, 128, 4, SlotOrder.SPLIT_SLOWEST)
    assert [aligned.segments(u) for u in range(132)] == [split_k.segments(u) for u in range(132)]


@pytest.mark.parametrize(
    ("tiles", "panels", "cost"), [(132, 64, 0), (264, 64, 0), (140, 1, 0), (140, 4, 9), (131, 8, 2)]
)
def test_without_a_tail_that_is_worth_it_tiles_are_whole(tiles: int, panels: int, cost: int):
    schedule = KAligned(tiles, panels, 132, cost)
    assert (schedule.split_tiles(), schedule.slots, schedule.tail) == ((), 0, None)
    expected = DataParallel(tiles, panels, 132)
    assert list(schedule.all_segments()) == list(expected.all_segments())


def test_whole_waves_come_first_and_are_those_of_data_parallel():
    schedule, whole = KAligned(450, 64, 132), DataParallel(396, 64, 132)
    for unit in range(132):
        assert schedule.segments(unit)[:3] == whole.segments(unit)


def test_units_without_a_part_have_whole_tiles_only():
    schedule = KAligned(144, 64, 132, min_panels=8)
    assert schedule.units == 132
    assert [len(schedule.segments(u)) for u in (0, 95, 96, 131)] == [2, 2, 1, 1]
    assert KAligned(12, 64, 132, min_panels=8).units == 96


@pytest.mark.parametrize("fold", Fold)
def test_nobody_waits_for_ever_and_owners_wait_less_where_a_part_has_a_cost(fold: Fold):
    free, paid = (simulate(KAligned(98, 128, 132, cost), fold=fold) for cost in (0, 3))
    assert free.makespan > 96
    assert paid.makespan <= free.makespan + 3


def test_units_that_run_together_are_at_few_different_k():
    """In step, one panel each at a time."""
    for tiles, panels in ((450, 64), (98, 128), (72, 64), (200, 32)):
        aligned = different_k(KAligned(tiles, panels, 132))
        others = [StreamK(tiles, panels, 132)]
        others += [Hybrid(tiles, panels, 132, kind) for kind in HybridKind]
        assert aligned < 4
        assert all(different_k(other) > 3 * aligned for other in others)


def test_control_data_parallel_units_are_at_one_k_and_units_at_ranges_of_their_own_at_many():
    assert different_k(DataParallel(264, 64, 132)) == 1
    assert different_k(StreamK(98, 128, 132)) > 60


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tiles": -1}, "tiles"),
        ({"panels": 1.5}, "panels"),
        ({"units": 0}, "units"),
        ({"units": True}, "units"),
        ({"cost": -1}, "cost"),
        ({"cost": 0.5}, "cost"),
        ({"min_panels": 0}, "min_panels"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=f"^{name}: an? "):
        KAligned(**{"tiles": 9, "panels": 4, "units": 4} | wrong)
