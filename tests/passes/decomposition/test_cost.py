"""Predicted times against the simulation they stand for, and against bounds and sums by hand."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.decomposition import Bounds, DataParallel, StreamK, cost
from passes.decomposition.closed_form import Direction
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel, Term, predict
from passes.decomposition.cutlass import CutlassSchedule, Mode, cutlass_rule
from passes.decomposition.hybrid import Hybrid, HybridKind
from passes.decomposition.k_aligned import KAligned
from passes.decomposition.schedule import Schedule
from passes.decomposition.simulation import Fold, simulate
from passes.decomposition.split_k import SplitK

# binary fractions, over powers of two: sums are exact, and equal times of arrival stay equal
AMOUNTS = st.sampled_from([0.0, 0.125, 0.375, 1.0, 2.0, 7.5])
MODELS = st.builds(
    CostModel,
    panel=AMOUNTS.filter(bool),
    epilogue=AMOUNTS,
    partial_bytes=AMOUNTS,
    bandwidth=st.sampled_from([0.125, 1.0, 2.0, 8.0]),
    partial_latency=AMOUNTS,
)
BOUNDS, DIRECTIONS = st.sampled_from(list(Bounds)), st.sampled_from(list(Direction))


def simulated(schedule: Schedule, places: int, model: CostModel) -> float:
    return simulate(schedule, model.units, places=places, fold=Fold.LAST_ARRIVER).makespan


def agrees(schedule: Schedule, places: int, model: CostModel) -> bool:
    expected = simulated(schedule, places, model)
    return predict(schedule, places, model).time == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 60), st.integers(0, 40), st.integers(1, 20), MODELS)
def test_data_parallel_is_as_simulated(tiles, panels, places, model):
    for schedule in (DataParallel(tiles, panels), DataParallel(tiles, panels, places)):
        assert agrees(schedule, places, model)


@settings(max_examples=200)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 12), BOUNDS, DIRECTIONS, MODELS)
def test_stream_k_is_as_simulated(tiles, panels, units, bounds, direction, model):
    assert agrees(StreamK(tiles, panels, units, bounds, 1, direction), units, model)


@settings(max_examples=200)
@given(
    st.integers(1, 90),
    st.integers(1, 40),
    st.integers(1, 12),
    st.sampled_from(list(HybridKind)),
    st.booleans(),
    st.integers(1, 9),
    MODELS,
)
def test_hybrids_are_as_simulated(tiles, panels, units, kind, first, least, model):
    schedule = Hybrid(tiles, panels, units, kind, stream_k_first=first, min_panels=least)
    assert agrees(schedule, units, model)


@settings(max_examples=200)
@given(
    st.integers(1, 90),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(0, 4),
    st.integers(1, 9),
    MODELS,
)
def test_k_aligned_schedules_are_as_simulated(tiles, panels, units, part_cost, least, model):
    schedule = KAligned(tiles, panels, units, part_cost, least)
    assert agrees(schedule, units, model)


@settings(max_examples=200)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 40), st.integers(1, 12), MODELS)
def test_the_cutlass_stream_k_plan_is_as_simulated(m, n, panels, sms, model):
    plan = cutlass_rule(m, n, panels, sms=sms, tile=(1, 1, 1), mode=Mode.STREAM_K)
    assert agrees(CutlassSchedule(plan), sms, model)


@given(st.integers(1, 4), st.integers(1, 8), st.integers(2, 6), st.integers(0, 9), MODELS)
def test_split_k_in_one_wave_is_as_simulated(tiles, share, splits, spare, model):
    assert agrees(SplitK(tiles, share * splits, splits), tiles * splits + spare, model)


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(2, 64), st.integers(2, 8), st.integers(4, 20))
def test_split_k_in_several_waves_is_estimated_within_a_third(tiles, panels, splits, places):
    schedule = SplitK(tiles, panels, splits)
    estimate = predict(schedule, places, UNIT_COST_MODEL).time
    assert 0.66 <= estimate / simulated(schedule, places, UNIT_COST_MODEL) <= 1.5


@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 12), MODELS)
def test_no_prediction_is_below_an_even_share_of_the_panels(tiles, panels, places, model):
    least = tiles * panels / places * model.panel
    for schedule in (DataParallel(tiles, panels), StreamK(tiles, panels, places)):
        assert predict(schedule, places, model).time >= least * (1 - 1e-9)


def test_whole_tiles_that_are_no_full_waves_are_simulated():
    """A grid of 13 blocks, 12 of them in clusters of four: 16 tiles for these, then 16 whole ones,
    of which the first is for the last block and two are a second one of their blocks."""
    plan = cutlass_rule(8, 4, 30, sms=13, tile=(1, 1, 1), cluster=(1, 4), mode=Mode.STREAM_K)
    assert (plan.sk_units, plan.whole_tiles, plan.geometry.wave) == (12, 16, 13)
    assert agrees(CutlassSchedule(plan), 13, UNIT_COST_MODEL)


def test_units_beyond_the_places_are_simulated():
    one_form = StreamK(7, 10, 9), DataParallel(30, 10, 9)
    for schedule in (*one_form, Hybrid(20, 10, 9), KAligned(20, 10, 9)):
        assert agrees(schedule, 4, UNIT_COST_MODEL)


def test_a_launch_of_many_tiles_is_not_simulated_tile_by_tile(monkeypatch):
    simulated_tiles = []

    def recorded(schedule, *args, **kwargs):
        simulated_tiles.append(schedule.tiles)
        return simulate(schedule, *args, **kwargs)

    monkeypatch.setattr(cost, "simulate", recorded)
    tiles, places = 132 * 75_757 + 5, 132
    plan = cutlass_rule(tiles, 1, 64, sms=places, tile=(1, 1, 1))
    for schedule in (
        DataParallel(tiles, 64),
        SplitK(tiles, 64, 4),
        StreamK(tiles, 64, places),
        Hybrid(tiles, 64, places),
        KAligned(tiles, 64, places),
        CutlassSchedule(plan),
    ):
        assert predict(schedule, places, UNIT_COST_MODEL).time >= tiles * 64 / places
    assert plan.mode is Mode.STREAM_K
    assert len(simulated_tiles) == 4
    assert max(simulated_tiles) < 2 * places


def test_the_parts_of_a_time_by_hand():
    model = CostModel(panel=3, epilogue=5, partial_bytes=14, bandwidth=2, launch=11)
    p = predict(SplitK(2, 8, 4), 8, model)  # two panels, a store, three loads, an epilogue
    assert (p.panels, p.epilogues, p.fixup, p.launch, p.partials) == (6, 5, 28, 11, 14)
    assert (p.time, p.binds, p.traffic) == (50, Term.FIXUP, 0)


def test_the_traffic_of_all_blocks_bounds_the_time():
    model = CostModel(1, 1, partial_bytes=100, bandwidth=inf, device_bandwidth=2, launch=1)
    p = predict(SplitK(2, 8, 4), 8, model)
    assert (p.traffic, p.time, p.binds) == (700, 701, Term.TRAFFIC)
    assert predict(DataParallel(2, 8), 8, model).traffic == 0


@pytest.mark.parametrize(
    ("change", "term"),
    [
        ({"panel": 100}, Term.PANELS),
        ({"epilogue": 100}, Term.EPILOGUES),
        ({"partial_latency": 100}, Term.FIXUP),
        ({"launch": 100}, Term.LAUNCH),
        ({"device_bandwidth": 0.01}, Term.TRAFFIC),
    ],
)
def test_the_largest_part_binds(change, term):
    assert predict(StreamK(3, 8, 4), 4, replace(UNIT_COST_MODEL, **change)).binds is term


def test_equal_sums_in_another_order_are_equal_times():
    model = CostModel(panel=0.1, epilogue=0.2, partial_bytes=0.3, bandwidth=1)
    p = predict(DataParallel(1, 1), 1, model)
    assert p.panels + p.epilogues != 0.3
    assert p.time == 0.3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("panel", -1),
        ("epilogue", inf),
        ("partial_bytes", float("nan")),
        ("partial_latency", -0.5),
        ("launch", -1),
        ("bandwidth", 0),
        ("device_bandwidth", -2),
        ("device_bandwidth", float("nan")),
    ],
)
def test_an_impossible_constant_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        replace(UNIT_COST_MODEL, **{name: value})


def test_no_place_is_refused():
    with pytest.raises(ValueError, match=r"^places: "):
        predict(DataParallel(1, 1), 0, UNIT_COST_MODEL)
