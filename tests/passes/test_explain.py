"""The figures that `explain` prints."""

import re

import pytest

import passes
from loopir.build import gemm, gemm_nest
from loopir.errors import VerifyError
from loopir.parser import parse
from passes.decomposition import Bounds, SplitK, StreamK, simulate, summary, waves
from passes.decomposition.choose import choose
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel
from passes.decomposition.cutlass import cutlass_rule
from passes.decomposition.guide_rule import guide_rule
from passes.explain import explain
from passes.pipeline_text import parse_pass
from passes.stream_k import StreamKPass
from passes.stream_k.report import plan_timeline, schedule_rows
from tests.support.texts import GEMM, MAX_ROWS, edited

SAME = "the same in every run"
WAVE = gemm(1536, 1536, 4096)


def rows(text: str) -> dict[str, str]:
    """The rows `  label  text`; of two with one label the last."""
    found = re.findall(r"^  (\S.*?) {2,}(.*)$", text, re.MULTILINE)
    return dict(found)


def table(text: str) -> dict[str, float]:
    """Predicted times of the table of candidates."""
    lines = text[text.index("    schedule ") :].splitlines()[1:]
    found = (re.match(r"    (.*?) {2,}([\d.]+) ", line) for line in lines)
    return {m[1]: float(m[2]) for m in found if m}


# --- of a pass


def test_the_rows_of_a_schedule_hold_every_figure():
    assert dict(schedule_rows(summary(StreamK(tiles=144, panels=64, units=132)))) == {
        "tiles": "144, of 64 panels each",
        "panels in all": "9216",
        "units": "132",
        "panels a unit": "69 to 70",
        "largest over mean share": "1.0026",
        "split tiles": "120 of 144",
        "contributors": "at most 2 (24 tiles with 1, 120 tiles with 2)",
    }


def test_one_of_a_thing_is_singular_and_equal_shares_are_one_number():
    found = dict(schedule_rows(summary(StreamK(tiles=1, panels=1, units=1))))
    assert found["tiles"] == "1, of 1 panel each"
    assert found["panels a unit"] == "1"
    assert found["contributors"] == "at most 1 (1 tile with 1)"


@pytest.mark.parametrize("options", ["units=4", "launch-constants=true splits=7"])
def test_an_order_of_the_launch_has_a_row(options: str):
    text = "block b takes unit order[b]: a permutation of 0 .. UNITS - 1, which nothing checks"
    made = f"stream-k{{{options}}}", f"stream-k{{{options} permuted=true}}"
    found = [rows(explain(parse(GEMM), parse_pass(pipeline))).get("order") for pipeline in made]
    assert found == [None, text]


def test_an_empty_launch_has_rows_too():
    found = dict(schedule_rows(summary(StreamK(tiles=0, panels=4, units=8))))
    assert (found["units"], found["contributors"]) == ("0", "at most 0 (no tile)")


def test_explain_aligns_the_rows_below_the_text_of_the_pass():
    assert explain(parse(GEMM), parse_pass("tile-order{group=4}")) == (
        "tile-order{group=4}\n  tile order  grouped(4)"
    )


def test_explain_of_a_refused_pass_is_the_verdicts():
    p = parse_pass("tile-order")
    program = parse(MAX_ROWS)
    assert explain(program, p) == p.can_be_applied(program).explain()


@pytest.mark.parametrize(
    ("options", "merge", "workspace", "bits"),
    [
        ({"units": 132}, "workspace", "17,171,200 bytes", f"{SAME}: parts are added in k order"),
        ({"units": 132, "merge": "fixup"}, "fixup", "17,170,432 bytes", f"{SAME}: parts are"),
        ({"units": 132, "merge": "atomic-workspace"}, "atomic-w", "8,585,984 bytes", f"{SAME}: no"),
        ({"units": 132, "merge": "atomic"}, "atomic", "0 bytes", f"{SAME}: no tile has three"),
        ({"units": 1000, "merge": "atomic"}, "atomic", "0 bytes", "by the order of arrival where"),
        ({"units": 144}, "none", "0 bytes", SAME),
        ({"decomposition": "data-parallel"}, "none", "0 bytes", SAME),
    ],
)
def test_a_plan_tells_its_merge_workspace_and_determinism(options, merge, workspace, bits):
    p = StreamKPass(**options)
    found = dict(p.report(p.can_be_applied(WAVE).plan))  # pyright: ignore
    assert found["determinism"].startswith(bits)
    assert found["workspace"] == workspace
    assert found["merge"].startswith(merge)


@pytest.mark.parametrize(
    ("options", "tail"),
    [
        ("units=100", "44 tiles: 29 panels by an owner, 29 by a helper; the last 6 of all of them"),
        ("units=200 cost=3", "144 tiles: 50 panels by an owner; the last 14 of all of them"),
        ("units=132", "12 tiles: 6 panels by an owner, 6 by each of 9 helpers; the last 4 of all"),
    ],
)
def test_the_tail_of_a_k_aligned_plan_is_told(options: str, tail: str):
    p = parse_pass(f"stream-k{{decomposition=k-aligned {options}}}")
    assert rows(explain(WAVE, p))["tail"].startswith(tail)


def test_a_schedule_without_layers_has_no_such_row():
    whole = parse_pass("stream-k{decomposition=k-aligned units=144}")
    assert not any("tail" in rows(explain(WAVE, p)) for p in (whole, StreamKPass(units=100)))


def test_units_that_would_be_empty_are_told():
    text = explain(gemm(128, 128, 256), StreamKPass(units=9))
    assert rows(text)["units asked for"] == "9: more than leave none empty"
    assert rows(text)["units"] == "4"


def test_a_plan_stands_among_the_candidates_with_its_predicted_time():
    text = explain(WAVE, StreamKPass(units=66), sms=132)
    assert table(text)["this plan"] > table(text)["stream-k"] == 78
    assert text.startswith("stream-k{units=66}\n  tiles ")
    assert "\n@gemm in every decomposition\n" in text


def test_a_schedule_that_the_launch_completes_is_compared_where_the_sizes_are_known():
    assert "stream-k" in table(explain(WAVE, StreamKPass()))
    text = explain(gemm(None, 64, 64), StreamKPass(launch_constants=True))
    assert rows(text)["tiles"] == "known at launch"
    assert "every decomposition" not in text


# --- of a program


@pytest.mark.parametrize("sms", [108, 132, 148])
def test_a_program_is_explained_by_waves_and_both_rules_and_the_best_candidate(sms):
    text = passes.explain(WAVE, sms=sms)
    found, w = rows(text), waves(144, sms)
    assert found["output"] == "12 x 12 x 1 = 144 tiles of 128 x 128, 64 panels each"
    assert found["SMs"] == f"{sms}, as given; one block each"
    assert found["waves, a block a tile"] == str(w.count)
    assert found["last wave"] == f"{w.last} of {sms} blocks"
    assert found["utilisation"] == f"{100 * w.utilization:.1f} %"
    plan = cutlass_rule(1536, 1536, 4096, sms=sms)
    assert found["CUTLASS rule"] == (
        f"{plan.mode.value}: {plan.reason.value}; workspace {plan.workspace_bytes:,} bytes"
    )
    guide = guide_rule(1536, 1536, sms=sms)
    assert found["guide rule"] == f"split-k by {guide.splits}: 144 tiles of 128 x 128"
    best = choose(1536, 1536, 4096, sms=sms, cost=UNIT_COST_MODEL).best
    assert found["least time"] == f"{best.name}, {best.time:g}"
    assert found["stream-k"] == "applies"


def test_it_says_why_not_data_parallel_and_where_data_parallel_is_best():
    assert rows(explain(WAVE, sms=132))["data-parallel"] == (
        "132, 1.69 times the least: its last wave has 12 of 132 blocks"
    )
    assert rows(explain(WAVE, sms=148))["data-parallel"] == "66, nothing is faster"


def test_132_sms_are_assumed_and_the_text_says_so():
    assert rows(explain(WAVE))["SMs"] == "132, assumed; one block each"
    assert explain(WAVE).replace("assumed", "as given") == explain(WAVE, sms=132)


def test_the_table_has_the_best_and_both_rules_and_counts_the_others():
    text = explain(WAVE)
    every = choose(1536, 1536, 4096, sms=132, cost=UNIT_COST_MODEL).candidates
    shown = table(text)
    assert list(shown)[:6] == [c.name for c in every[:6]]
    assert {"data-parallel", "cutlass: stream-k", "guide: split-k by 4"} <= shown.keys()
    assert f"and {len(every) - len(shown)} others" in text
    assert all(shown[c.name] == c.time for c in every if c.name in shown)


def test_workspace_and_determinism_are_those_of_the_best():
    found = rows(explain(WAVE))
    assert "by merge=workspace (262 slots of 65,536 bytes, 131 counters)" in found["workspace"]
    assert found["determinism"] == "stream-k: the same bits in every run, by atomics too"
    deep = rows(explain(gemm(128, 128, 65536)))
    assert deep["determinism"].endswith("from slots; with atomics by the order of arrival")
    whole = rows(explain(gemm(128, 128, 64)))
    assert whole["workspace"] == "data-parallel: 0 bytes"
    assert whole["determinism"] == "data-parallel: the same bits in every run"


def test_times_follow_the_costs_that_are_given():
    dear = CostModel(panel=1, epilogue=0, partial_bytes=1000, bandwidth=1)
    found = rows(explain(WAVE, cost=dear))
    assert found["least time"] == "data-parallel, 128"
    assert found["time"].startswith("a panel 1, an epilogue 0, a part stored or loaded 1000;")


def test_a_program_that_stream_k_refuses_is_compared_and_its_codes_are_named():
    text = explain(parse(edited(MAX_ROWS, ("top: max", "top: argmax"))))
    assert rows(text)["stream-k"] == "refuses: SK03; `loopir-opt -p stream-k` says why"
    assert rows(text)["output"] == "3 x 1 x 1 = 3 tiles of 32 x 1, 7 panels each"


def test_what_is_no_grid_of_tiles_says_so_with_the_code():
    text = explain(gemm_nest(64, 64, 64))
    assert text.startswith("@gemm: no grid of output tiles to decompose\n  SK01  ")
    done = StreamKPass(units=4).apply(WAVE)
    assert "SK15  grid1d (unit) is persistent already" in explain(done)


def test_sizes_that_are_open_ask_to_be_bound():
    assert "bind them in `where`" in rows(explain(gemm(None, 64, 64)))["sizes"]


def test_an_output_without_an_element_has_figures_too():
    found = rows(explain(gemm(0, 64, 64)))
    assert (found["waves, a block a tile"], found["least time"]) == ("0", "data-parallel, 0")


def test_a_program_that_breaks_a_rule_is_refused():
    text = edited(GEMM, ("    alloc acc: register f32[BM, BN]\n", ""))
    with pytest.raises(VerifyError):
        explain(parse(text))


@pytest.mark.parametrize("sms", [0, -1, True, 1.5])
def test_a_wrong_number_of_sms_is_refused_by_name(sms):
    for p in (None, StreamKPass(units=4)):
        with pytest.raises(ValueError, match=r"^sms: an int >= 1"):
            explain(WAVE, p, sms=sms)


def test_the_package_and_its_module_have_the_same_function():
    assert passes.explain is explain


# --- the timeline of a plan


def timeline_of(p: StreamKPass, sms: int = 132):
    return plan_timeline(p.can_be_applied(WAVE).plan, sms)  # pyright: ignore


def test_units_that_are_asked_for_have_a_place_each():
    timeline = timeline_of(StreamKPass(units=66))
    assert timeline is not None
    assert (timeline.places, len(timeline.events)) == (66, 66)


@pytest.mark.parametrize(
    ("merge", "kinds"),
    [
        ("atomic", {"compute", "store", "epilogue"}),
        ("workspace", {"compute", "store", "load", "epilogue"}),
    ],
)
def test_a_timeline_shows_what_the_merge_does(merge, kinds):
    timeline = timeline_of(StreamKPass(units=66, merge=merge))
    assert timeline is not None
    assert {e.kind.value for unit in timeline.events for e in unit} == kinds


def test_units_that_nobody_asked_for_share_the_sms():
    timeline = timeline_of(StreamKPass(decomposition="split-k", splits=3), 108)  # pyright: ignore
    assert timeline is not None
    assert (timeline.places, len(timeline.events)) == (108, 432)
    assert timeline.makespan > simulate(SplitK(144, 64, 3)).makespan


def test_a_timeline_follows_the_bounds_of_the_plan():
    p = StreamKPass(units=5, bounds=Bounds.CEIL)
    timeline = timeline_of(p)
    assert timeline is not None
    assert [u[0].start for u in timeline.events] == [0] * 5
    panels = [sum(e.k1 - e.k0 for e in u if e.kind.value == "compute") for u in timeline.events]
    assert panels == [1844, 1844, 1844, 1844, 1840]


def test_the_launch_completes_a_schedule_without_units():
    assert timeline_of(StreamKPass()) is None
