"""The choice is never worse than either rule's, takes the simpler of equals, and says why."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passes.decomposition import DataParallel, StreamK, check_exact_cover
from passes.decomposition.choose import Choice, choose
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel, Term, predict
from passes.decomposition.cutlass import CutlassSchedule, cutlass_rule
from passes.decomposition.guide_rule import guide_rule
from passes.decomposition.hybrid import Hybrid, HybridKind
from passes.decomposition.k_aligned import KAligned
from passes.decomposition.split_k import SplitK

AMOUNTS = st.sampled_from([0.0, 0.25, 1.0, 2.0, 9.0])
MODELS = st.builds(
    CostModel,
    panel=AMOUNTS.filter(bool),
    epilogue=AMOUNTS,
    partial_bytes=AMOUNTS,
    bandwidth=AMOUNTS.filter(bool),
    partial_latency=AMOUNTS,
    launch=AMOUNTS,
    device_bandwidth=st.sampled_from([0.5, 20.0, float("inf")]),
)
TILES = st.sampled_from([(128, 128, 64), (64, 64, 64), (256, 128, 32)])
SIZES = st.one_of(st.integers(0, 3000), st.integers(0, 12).map(lambda i: 1 << i))
FREE_FIXUP = CostModel(panel=1, epilogue=0, partial_bytes=0, bandwidth=1)


def chosen(m: int, n: int, k: int, sms: int = 132, cost=UNIT_COST_MODEL, **options) -> Choice:
    return choose(m, n, k, sms=sms, cost=cost, **options)


@settings(max_examples=150)
@given(SIZES, SIZES, SIZES, st.integers(1, 3), st.integers(1, 150), TILES, MODELS)
def test_the_choice_is_never_worse_than_either_rule(m, n, k, batch, sms, tile, model):
    tiles = -(-m // tile[0]) * -(-n // tile[1]) * batch
    panels = max(1, -(-k // tile[2]))
    found = choose(m, n, k, batch, sms=sms, cost=model, tile=tile)
    cutlass = CutlassSchedule(cutlass_rule(m, n, k, batch, sms=sms, tile=tile))
    guide = SplitK(tiles, panels, guide_rule(m, n, sms=sms).splits)
    for rule in (cutlass, guide):
        assert found.time <= predict(rule, sms, model).time
    times = [c.time for c in found.candidates]
    assert times == sorted(times)
    assert (found.schedule.tiles, found.schedule.panels) == (tiles, panels)


@settings(max_examples=30)
@given(st.integers(1, 1500), st.integers(1, 1500), st.integers(1, 2000), st.integers(1, 40))
def test_every_candidate_is_a_schedule_that_covers_each_panel_once(m, n, k, sms):
    for candidate in chosen(m, n, k, sms, tile=(128, 128, 128)).candidates:
        check_exact_cover(candidate.schedule)


def test_the_candidates_are_all_that_are_asked_for():
    names = {c.name: c.schedule for c in chosen(3840, 3840, 4096, 148).candidates}
    assert names.keys() == {
        "data-parallel",
        # ceil slices: other splits of 64 panels leave an empty one
        *(f"split-k by {s}" for s in (*range(2, 9), 10, 11, 13, 16, 22, 32)),
        "stream-k",
        "hybrid one-tile",
        "hybrid two-tile",
        "k-aligned",
        "k-aligned cost 2",  # what storing a part costs
        "guide: split-k by 1",
        "cutlass: stream-k",
    }
    assert names["k-aligned cost 2"] == KAligned(900, 64, 148, 2)
    assert names["hybrid two-tile"] == Hybrid(900, 64, 148, HybridKind.TWO_TILE)
    assert names["split-k by 8"] == SplitK(900, 64, 8)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((1536, 1536, 4096), "stream-k"),  # 144 tiles
        ((1536, 1408, 4096), "data-parallel"),  # 132
        ((128, 4096, 4096), "split-k by 4"),  # 32
        ((2048, 2048, 4096), "data-parallel"),  # 256: the tail is nearly full
    ],
)
def test_known_shapes_on_132_sms(sizes, name):
    assert chosen(*sizes).best.name == name


def test_no_candidate_is_another_under_a_second_name():
    whole = {c.name for c in chosen(1536, 1408, 4096).candidates}  # 132 tiles: no tail
    assert not whole & {"stream-k", "hybrid one-tile", "hybrid two-tile", "k-aligned"}
    one_wave = {c.name for c in chosen(128, 4096, 4096).candidates}  # 32 tiles: no full wave
    assert "stream-k" in one_wave
    assert not one_wave & {"hybrid one-tile", "hybrid two-tile"}


def test_a_tie_goes_to_data_parallel_then_to_fewer_splits_then_to_stream_k():
    # 132 tiles: nothing to gain
    assert chosen(1536, 1408, 4096, cost=FREE_FIXUP).schedule == DataParallel(132, 64)
    # 66 tiles: split-K by 2 and by 4, Stream-K, k-aligned and the guide's split share evenly
    even = chosen(768, 1408, 4096, cost=FREE_FIXUP)
    assert even.schedule == SplitK(66, 64, 2)
    equals = [c.name for c in even.candidates if c.time == even.time]
    assert equals[:4] == [f"split-k by {s}" for s in (2, 4, 8, 16)]
    assert equals[-3:] == ["stream-k", "k-aligned", "guide: split-k by 8"]


def test_stream_k_stands_before_hybrids_and_rules_of_its_time():
    times = {c.name: c.time for c in chosen(4096, 4096, 4096).candidates}
    names = list(times)
    assert times["stream-k"] == times["hybrid two-tile"]
    assert names.index("stream-k") < names.index("hybrid two-tile")
    assert names.index("data-parallel") < names.index("cutlass: data-parallel")


def test_fix_up_that_costs_much_leaves_tiles_whole():
    dear = CostModel(panel=1, epilogue=2, partial_bytes=1000, bandwidth=1)
    assert chosen(1536, 1536, 4096, cost=dear).best.name == "data-parallel"
    narrow = CostModel(1, 2, partial_bytes=1, bandwidth=1, device_bandwidth=0.5)
    assert chosen(1536, 1536, 4096, cost=narrow).best.name == "data-parallel"


def test_blocks_an_sm_make_more_places():
    found = chosen(1536, 1536, 4096, blocks_per_sm=2)
    assert found.places == 264
    assert StreamK(144, 64, 264) in [c.schedule for c in found.candidates]


def test_a_launch_without_tiles_takes_its_launch_only():
    cost = CostModel(1, 2, 2, 1, launch=3)
    found = chosen(0, 128, 128, cost=cost)
    assert (found.best.name, found.time, found.binds) == ("data-parallel", 3, Term.LAUNCH)


def test_the_same_question_has_the_same_answer():
    first, again = chosen(1536, 1536, 4096), chosen(1536, 1536, 4096)
    assert first.table() == again.table()
    assert first.candidates == again.candidates


def test_the_table_shows_the_best_and_what_comes_after():
    assert chosen(1536, 1536, 4096).table(4).splitlines() == [
        "schedule           time  ratio  panels  epilogues  fix-up  binds",
        "stream-k             78      1      70          2       6  panels",
        "cutlass: stream-k    82  1.051      74          4       4  panels",
        "hybrid one-tile      96  1.231      70          4      22  panels",
        "k-aligned            96  1.231      70          4      22  panels",
    ]
    assert len(chosen(1536, 1536, 4096).table().splitlines()) > 15


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("m", {"m": -1}),
        ("n", {"n": 2.0}),
        ("k", {"k": None}),
        ("batch", {"batch": -1}),
        ("sms", {"sms": 0}),
        ("tile", {"tile": (0, 1, 1)}),
        ("blocks_per_sm", {"blocks_per_sm": 0}),
    ],
)
def test_an_impossible_argument_is_named(name, changes):
    options = {"m": 1, "n": 1, "k": 1, "sms": 1, "cost": UNIT_COST_MODEL}
    with pytest.raises(ValueError, match=f"^{name}: "):
        choose(**{**options, **changes})
