"""The bounds and their owners: closed forms against the definition, numbers against expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopir.symbols import evaluate, sym
from passes.decomposition import Bounds, StreamK, owner, unit_range

LARGE = st.integers(1, 2**40)
RANGE = {b: unit_range(b, sym("u"), sym("TOTAL"), sym("UNITS")) for b in Bounds}
OWNER = {b: owner(b, sym("i"), sym("TOTAL"), sym("UNITS")) for b in Bounds}


@st.composite
def schedules(draw) -> StreamK:
    return StreamK(draw(LARGE), draw(LARGE), draw(LARGE), draw(st.sampled_from(list(Bounds))))


@given(schedules(), st.data())
def test_an_iteration_lies_in_the_range_of_its_owner(schedule, data):
    i = data.draw(st.integers(0, schedule.total - 1))
    low, high = schedule.unit_range(schedule.owner(i))
    assert low <= i < high


@given(schedules(), st.data())
def test_a_unit_begins_where_the_one_before_it_ends_and_owns_both_its_ends(schedule, data):
    unit = data.draw(st.integers(0, schedule.units - 1))
    low, high = schedule.unit_range(unit)
    assert low < high
    assert schedule.owner(low) == schedule.owner(high - 1) == unit
    before = schedule.unit_range(unit - 1)[1] if unit else 0
    after = schedule.unit_range(unit + 1)[0] if unit + 1 < schedule.units else schedule.total
    assert low == before
    assert high == after


@given(schedules(), st.data())
def test_expressions_have_the_values_of_the_numbers(schedule, data):
    unit = data.draw(st.integers(0, schedule.units - 1))
    i = data.draw(st.integers(0, schedule.total - 1))
    env = {"u": unit, "i": i, "TOTAL": schedule.total, "UNITS": schedule.units}
    low, high = RANGE[schedule.bounds]
    assert (evaluate(low, env), evaluate(high, env)) == schedule.unit_range(unit)
    assert evaluate(OWNER[schedule.bounds], env) == schedule.owner(i)


@given(schedules(), st.data())
def test_the_contributors_of_a_tile_are_the_owners_of_its_panels(schedule, data):
    tile = data.draw(st.integers(0, schedule.tiles - 1))
    start, end = tile * schedule.panels, (tile + 1) * schedule.panels - 1
    assert schedule.contributors(tile) == schedule.owner(end) - schedule.owner(start) + 1


def test_the_floor_owner_is_not_the_scaled_iteration():
    """The tempting `i * UNITS // TOTAL` is wrong, here for iteration 3 of 10 over 3 units."""
    schedule = StreamK(tiles=1, panels=10, units=3)
    assert [schedule.unit_range(u) for u in range(3)] == [(0, 3), (3, 6), (6, 10)]
    assert [schedule.owner(i) for i in range(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert schedule.owner(3) != 3 * 3 // 10


@pytest.mark.parametrize(
    ("bounds", "ranges"),
    [
        (Bounds.FLOOR, [(0, 2), (2, 5), (5, 7), (7, 10)]),
        (Bounds.CEIL, [(0, 3), (3, 6), (6, 9), (9, 10)]),
        (Bounds.BIG_UNITS, [(0, 3), (3, 6), (6, 8), (8, 10)]),
    ],
)
def test_ten_iterations_over_four_units(bounds, ranges):
    schedule = StreamK(2, 5, 4, bounds)
    assert [schedule.unit_range(u) for u in range(4)] == ranges


def test_ceil_drops_units_that_would_be_empty():
    assert StreamK(1, 10, 6, Bounds.CEIL).units == 5  # shares of two
    assert StreamK(1, 10, 6, Bounds.FLOOR).units == 6


@pytest.mark.parametrize("bounds", Bounds)
def test_units_are_clamped_to_the_iterations(bounds):
    assert StreamK(2, 3, 100, bounds).units == 6
