"""Makespans against the published table, a second formulation and hand-made timelines; no simulated
launch breaks a law of the machine."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.decomposition import (
    Bounds,
    DataParallel,
    Direction,
    Event,
    EventKind,
    Fold,
    Hybrid,
    Permuted,
    Schedule,
    SlotOrder,
    SplitK,
    StreamK,
    Timeline,
    UnitCost,
    simulate,
)
from tests.support.schedules import FAMILIES

TABLE = json.loads((Path(__file__).parent / "schedule_makespan.json").read_text())["rows"]
COMPUTE, STORE, WAIT, LOAD, EPILOGUE = EventKind
AFTER = Fold.REDUCTION_WAVE


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r['m']}x{r['n']}x{r['k']} on {r['sms']}")
def test_makespans_agree_with_the_published_table(row):
    tiles, panels, sms = row["tiles"], row["iterations"], row["sms"]
    whole = simulate(DataParallel(tiles, panels), places=sms)
    assert round(whole.ideal, 1) == row["ideal"]
    assert whole.makespan == row["data_parallel"]
    for splits in (2, 4):
        split = simulate(SplitK(tiles, panels, splits), places=sms, fold=AFTER)
        assert split.makespan == row[f"split_k_{splits}"]
    stream_k = StreamK(tiles, panels, sms, Bounds.BIG_UNITS)
    assert simulate(stream_k, places=sms).makespan == row["stream_k"]


@pytest.mark.parametrize("row", TABLE[:3], ids=lambda r: f"{r['m']}x{r['n']}x{r['k']}")
def test_the_parts_of_a_hybrid_take_what_the_published_rule_says(row):
    hybrid = Hybrid(row["tiles"], row["iterations"], row["sms"], bounds=Bounds.BIG_UNITS)
    parts = hybrid.stream_k, hybrid.data_parallel
    rule = f"StreamK sk_tiles={hybrid.stream_k.tiles} units={hybrid.stream_k.units}"
    assert rule == row["rule"]
    apart = sum(simulate(part, places=row["sms"]).makespan for part in parts)
    assert apart == row["rule_makespan"]
    assert simulate(hybrid, places=row["sms"]).makespan <= apart


def split_k_formula(tiles: int, panels: int, splits: int, sms: int) -> int:
    return -(-tiles * splits // sms) * (-(-panels // splits) + 2) + (splits - 1) * 2 + 2


@given(st.integers(1, 60), st.integers(1, 40), st.integers(2, 8), st.integers(1, 50))
def test_split_k_with_a_reduction_wave_takes_what_the_formula_says(tiles, panels, splits, sms):
    schedule = SplitK(tiles, panels * splits, splits)
    found = simulate(schedule, places=sms, fold=AFTER).makespan
    assert found == split_k_formula(tiles, panels * splits, splits, sms)


@given(st.integers(1, 60), st.integers(2, 40), st.integers(2, 8), st.integers(1, 50))
def test_slices_that_do_not_divide_take_no_longer_than_the_formula(tiles, panels, splits, sms):
    schedule = SplitK(tiles, panels, splits)
    found = simulate(schedule, places=sms, fold=AFTER).makespan
    assert found <= split_k_formula(tiles, panels, schedule.splits, sms)


def stream_k_formula(schedule: StreamK, cost: UnitCost) -> float:
    """The model once more, without events: parts that do not start their tile are published when
    their unit gets there, and a unit's start of a split tile is its last segment."""
    here, published = [0.0] * schedule.units, {}
    for unit in range(schedule.units):
        for s in schedule.segments(unit):
            here[unit] += (s.k1 - s.k0) * cost.mac
            if s.k0 > 0:
                here[unit] += cost.partial
                published[s.tile, s.slot] = here[unit]
            elif s.contributors == 1:
                here[unit] += cost.epilogue
    for unit in range(schedule.units):
        s = schedule.segments(unit)[-1]
        if s.k0 == 0 and s.contributors > 1:
            for slot in range(1, s.contributors):
                here[unit] = max(here[unit], published[s.tile, slot]) + cost.partial
            here[unit] += cost.epilogue
    return max(here)


SMALL = st.integers(1, 30)
COSTS = st.builds(UnitCost, st.integers(0, 3), st.integers(0, 9), st.integers(0, 9))


@given(SMALL, SMALL, SMALL, st.sampled_from(list(Bounds)), COSTS)
def test_stream_k_takes_what_a_second_formulation_says(tiles, panels, units, bounds, cost):
    schedule = StreamK(tiles, panels, units, bounds)
    assert simulate(schedule, cost).makespan == stream_k_formula(schedule, cost)


@given(SMALL, SMALL, SMALL)
def test_whole_tiles_take_a_wave_each_whether_the_units_are_persistent_or_not(tiles, panels, sms):
    expected = -(-tiles // sms) * (panels + 2)
    assert simulate(DataParallel(tiles, panels), places=sms).makespan == expected
    assert simulate(DataParallel(tiles, panels, sms), places=sms).makespan == expected


# --- timelines by hand ----------------------------------------------------------------------------

PAIR = StreamK(tiles=1, panels=10, units=2)


def test_the_unit_with_the_first_panel_waits_loads_and_finishes():
    assert simulate(PAIR) == Timeline(
        places=2,
        events=(
            (
                Event(0, COMPUTE, 0, 5, tile=0, k0=0, k1=5),
                Event(0, WAIT, 5, 7, tile=0, k0=5, k1=10),
                Event(0, LOAD, 7, 9, tile=0, k0=5, k1=10),
                Event(0, EPILOGUE, 9, 11, tile=0, k0=0, k1=10),
            ),
            (
                Event(1, COMPUTE, 0, 5, tile=0, k0=5, k1=10),
                Event(1, STORE, 5, 7, tile=0, k0=5, k1=10),
            ),
        ),
        place=(0, 1),
        reduction=(),
        makespan=11,
        ideal=6,
    )


def kinds(timeline: Timeline, unit: int) -> list[EventKind]:
    return [e.kind for e in timeline.events[unit]]


def test_the_unit_with_the_last_panel_can_be_the_one_that_waits():
    timeline = simulate(PAIR, fold=Fold.LAST_PANEL)
    assert kinds(timeline, 0) == [COMPUTE, STORE]
    assert kinds(timeline, 1) == [COMPUTE, WAIT, LOAD, EPILOGUE]


def test_the_last_to_arrive_loads_the_others_and_nobody_waits():
    timeline = simulate(StreamK(1, 7, 2), fold=Fold.LAST_ARRIVER)  # 3 panels and 4
    assert kinds(timeline, 0) == [COMPUTE, STORE]
    assert kinds(timeline, 1) == [COMPUTE, STORE, LOAD, EPILOGUE]
    assert timeline.makespan == 4 + 2 + 2 + 2


def test_a_reduction_wave_comes_after_all_units():
    timeline = simulate(PAIR, fold=AFTER)
    assert kinds(timeline, 0) == kinds(timeline, 1) == [COMPUTE, STORE]
    assert timeline.reduction == (
        Event(0, LOAD, 7, 9, tile=0, k0=5, k1=10),
        Event(0, EPILOGUE, 9, 11, tile=0, k0=0, k1=10),
    )
    assert timeline.makespan == 11


def test_a_reduction_wave_without_a_split_tile_takes_nothing():
    assert simulate(DataParallel(3, 4), fold=AFTER) == simulate(DataParallel(3, 4))


def test_units_start_in_order_as_places_free_up():
    timeline = simulate(SplitK(1, 7, 4), places=2, fold=AFTER)  # slices 2 2 2 1
    starts = [events[0].start for events in timeline.events]
    assert (starts, timeline.place) == ([0, 0, 4, 4], (0, 1, 0, 1))
    uneven = simulate(Permuted(SplitK(1, 7, 4), (3, 0, 1, 2)), places=2, fold=AFTER)
    starts = [events[0].start for events in uneven.events]
    assert (starts, uneven.place) == ([0, 0, 3, 4], (0, 1, 0, 1))


def test_units_that_wait_for_one_that_never_starts_are_an_error():
    schedule = SplitK(4, 8, 2, SlotOrder.SPLIT_SLOWEST)  # units 0 .. 3 wait for 4 .. 7
    with pytest.raises(ValueError, match=r"unit 0 waits for slot 1 of tile 0 for ever.* 3 places"):
        simulate(schedule, places=3)
    for places, fold in [(5, Fold.FIRST_PANEL), (3, Fold.LAST_ARRIVER), (3, AFTER)]:
        simulate(schedule, places=places, fold=fold)


def test_backward_units_want_the_unit_with_the_last_panel_to_wait():
    """CUTLASS's walk: waits are then for lower units only, and any number of places will do."""
    backward = StreamK(9, 32, 6, direction=Direction.BACKWARD)
    right, wrong = (simulate(backward, fold=f) for f in (Fold.LAST_PANEL, Fold.FIRST_PANEL))
    assert right.makespan == simulate(replace(backward, direction=Direction.FORWARD)).makespan
    assert wrong.makespan > right.makespan
    assert simulate(backward, places=1, fold=Fold.LAST_PANEL).makespan > right.makespan


def test_no_iteration_takes_no_time():
    for schedule in (StreamK(0, 4, 8), SplitK(4, 0, 2), DataParallel(0, 0)):
        timeline = simulate(schedule, fold=AFTER)
        assert (timeline.events, timeline.makespan, timeline.ideal) == ((), 0, 0)


def test_parts_that_are_added_atomically_are_stored_by_all_and_loaded_by_none():
    timeline = simulate(StreamK(1, 7, 2), fold=Fold.ATOMIC)  # 3 panels and 4
    kinds = [[e.kind for e in events] for events in timeline.events]
    assert kinds == [[COMPUTE, STORE], [COMPUTE, STORE]]
    assert timeline.makespan == 6


# --- laws of any launch ---------------------------------------------------------------------------


def check_launch(schedule: Schedule, cost: UnitCost, fold: Fold, timeline: Timeline) -> None:
    """AssertionError: something is done twice, never, at two places at once, or read too early."""
    of = {k: [e for u in timeline.events for e in u if e.kind is k] for k in EventKind}
    for unit, events in enumerate(timeline.events):
        assert all(e.unit == unit and e.start <= e.end for e in events)
        assert all(a.end == b.start for a, b in pairwise(events)), "a unit is never idle"
        done = [(e.tile, e.k0, e.k1) for e in events if e.kind is COMPUTE]
        assert done == [(s.tile, s.k0, s.k1) for s in schedule.segments(unit)]
    for place in range(timeline.places):
        here = [u for u, p in zip(timeline.events, timeline.place, strict=True) if p == place]
        assert all(a[-1].end <= b[0].start for a, b in pairwise(here)), "one unit at a time"
    starts = [events[0].start for events in timeline.events]
    assert starts == sorted(starts), "units start in order"
    split = schedule.split_tiles()
    ends = [e for e in (*of[EPILOGUE], *timeline.reduction) if e.kind is EPILOGUE]
    ended = set(range(schedule.tiles)) - (set(split) if fold is Fold.ATOMIC else set())
    assert sorted(e.tile for e in ends) == sorted(ended)
    loads = [*of[LOAD], *(e for e in timeline.reduction if e.kind is LOAD)]
    stored = {(e.tile, e.k0): e.end for e in of[STORE]}
    assert all(stored[e.tile, e.k0] <= e.start for e in loads), "stored before it is loaded"
    parts = sum(map(schedule.contributors, split))
    assert len(loads) == (0 if fold is Fold.ATOMIC else parts - len(split))
    own = fold in (Fold.FIRST_PANEL, Fold.LAST_PANEL)
    assert len(of[STORE]) == parts - (len(split) if own else 0)
    last = {t: max(e.end for e in of[COMPUTE] if e.tile == t) for t in range(schedule.tiles)}
    assert all(last[e.tile] <= e.start for e in ends), "computed before it is finished"
    assert timeline.makespan == max(e.end for e in (*sum(timeline.events, ()), *timeline.reduction))
    assert timeline.makespan >= timeline.ideal or fold in (AFTER, Fold.ATOMIC)
    assert all(e.end - e.start == (e.k1 - e.k0) * cost.mac for e in of[COMPUTE])
    assert all(e.end - e.start == cost.epilogue for e in ends)
    assert all(e.end - e.start == cost.partial for e in (*of[STORE], *loads))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("fold", Fold)
@settings(max_examples=12)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 14), COSTS)
def test_no_launch_breaks_a_law(family, fold, tiles, panels, units, places, cost):
    schedule = FAMILIES[family](tiles, panels, units)
    if fold in (Fold.FIRST_PANEL, Fold.LAST_PANEL):
        places = max(places, schedule.units)  # those that wait may hold fewer places for ever
    check_launch(schedule, cost, fold, simulate(schedule, cost, places=places, fold=fold))


def changed(timeline: Timeline, unit: int, event: int, **changes) -> Timeline:
    events = [list(row) for row in timeline.events]
    events[unit][event] = replace(events[unit][event], **changes)
    return replace(timeline, events=tuple(map(tuple, events)))


@pytest.mark.parametrize(
    "faulty",
    [
        lambda t: changed(t, 0, 2, start=6, end=8),  # loads before the store ends
        lambda t: changed(t, 1, 0, k0=4),  # computes a panel twice
        lambda t: changed(t, 0, 3, kind=STORE),  # no epilogue
        lambda t: changed(t, 1, 1, kind=EPILOGUE),  # two epilogues
        lambda t: changed(t, 1, 0, start=1),  # too short for its panels
        lambda t: changed(t, 0, 3, end=12),  # an epilogue that takes too long
        lambda t: replace(t, makespan=10),
        lambda t: replace(t, place=(0, 0)),
    ],
)
def test_control_a_faulty_timeline_is_caught(faulty):
    right, cost = simulate(PAIR), UnitCost()
    check_launch(PAIR, cost, Fold.FIRST_PANEL, right)
    with pytest.raises((AssertionError, KeyError)):
        check_launch(PAIR, cost, Fold.FIRST_PANEL, faulty(right))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"places": 0}, "places"),
        ({"places": True}, "places"),
        ({"places": 2.0}, "places"),
        ({"fold": "last-arriver"}, "fold"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=f"^{name}: an? "):
        simulate(PAIR, **wrong)


@pytest.mark.parametrize("name", ["mac", "epilogue", "partial"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "2", True, None])
def test_a_wrong_cost_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}: a finite number >= 0"):
        UnitCost(**{name: value})
