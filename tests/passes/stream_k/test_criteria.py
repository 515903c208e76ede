"""Every refusal code of stream-k: the complete set of codes for a text and options, and an accepted
neighbour."""

from dataclasses import dataclass, field

import pytest

from loopir.errors import NotApplicable
from loopir.interp import InterpError
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify
from passes.base import Refused
from passes.options import pass_text
from passes.pipeline_text import parse_pass
from passes.stream_k import Merge, StreamKPass
from tests.support.differential import difference, known
from tests.support.texts import GEMM, MAX_ROWS, edited
from tests.support.wave_kernels import GEMM_ROWS

Edit = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """`setup` edits of the base text are accepted with `options`; the fault on top of them, in the
    text or in the options, is refused by merge=atomic with just `codes`. `in_slots`: the codes of
    merges of slots, where they are not those of `codes` that are no matter of atomics."""

    name: str
    codes: str
    fault: tuple[Edit, ...] = ()
    setup: tuple[Edit, ...] = ()
    options: str = "units=5"
    fault_options: str = ""
    base: str = field(default=GEMM, repr=False)
    in_slots: str | None = None

    def codes_of(self, merge: Merge) -> set[str]:
        codes = set(self.codes.split())
        if merge is Merge.ATOMIC:
            return codes
        slots = codes - OF_ADDS - {"SK08"} if self.in_slots is None else set(self.in_slots.split())
        return slots | (codes & {*OF_ADDS, "SK03"} if merge is Merge.ATOMIC_WORKSPACE else set())


#: of merges in which the order of arrival is the order of the additions; and some of SK03
OF_ADDS = {"SK04", "SK16", "SK17"}

ROW_SUM = """\
kernel @row_sum(X: i8[M, K], out Y: i32[M])
    where M = 96, K = 100, BM = 32, BK = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc s: register i32[BM]
    alloc x: shared i8[BM, BK]
    fill s, 0
    reduce (s: add) {
      for kp in 0 .. P {
        coop_load x, X[ti * BM +: BM, kp * BK +: BK] masked
        ewise s = s + sum(cast(i32, x), 1)
      }
    }
    store Y[ti * BM +: BM], s masked
  }
}
"""

FILL = "    fill acc, 0\n"
ALLOC = "    alloc acc: register f32[BM, BN]\n"
DOT = "        dot acc, a, b\n"
STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
GRID = "  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {\n"
PANELS = "P = max(1, ceildiv(K, BK))"
REDUCE = GEMM[GEMM.index("    reduce") : GEMM.index("    store")]
MAX_REDUCE = MAX_ROWS[MAX_ROWS.index("    fill") : MAX_ROWS.index("    store")]
SUM_REDUCE = edited(
    MAX_REDUCE,
    ("fill top, -inf", "fill top, 0"),
    ("(top: max)", "(top: add)"),
    (" else -inf", ""),
    ("max(top, amax(x, 1))", "top + sum(x, 1)"),
)
F16_ACC = (("out C: f32", "out C: f16"), ("acc: register f32", "acc: register f16"))
SYMBOLIC = "units=5 launch-constants=true"
EPILOGUE = "    ewise acc = max(acc, 0)\n"
WITH_D = ("out C: f32[M, N])", "out C: f32[M, N], out D: f16[M, BK])")
ALIAS_A = (PANELS + " {", PANELS + "\n    alias(A, C) {")


def after(place: str, text: str) -> Edit:
    return place, place + text


CASES = [
    Case("loop_between", "SK01", ((REDUCE, f"    for r in 0 .. 2 {{\n{REDUCE}    }}\n"),)),
    Case("condition_between", "SK01", ((REDUCE, f"    if ti == 0 {{\n{REDUCE}    }}\n"),)),
    Case("two_reduces", "SK02", (after(REDUCE, REDUCE.replace("kp", "kq")),)),
    Case("no_reduce", "SK02", ((REDUCE, ""),)),
    Case(
        "max",
        "SK03",
        ((SUM_REDUCE, MAX_REDUCE),),
        ((MAX_REDUCE, SUM_REDUCE),),
        base=MAX_ROWS,
        in_slots="",
    ),
    Case("scan", "SK03", (("reduce (acc: add)", "reduce (acc: scan)"),)),
    Case("argmax", "SK03", (("reduce (acc: add)", "reduce (acc: argmax)"),)),
    Case(
        "int8_accumulator",
        "SK04",
        (("out Y: i32", "out Y: i8"), ("register i32", "register i8"), ("cast(i32, x)", "x")),
        base=ROW_SUM,
    ),
    Case("fp16_on_gfx942", "SK04", setup=F16_ACC, fault_options="units=5 target=hip:gfx942"),
    Case("loop_from_one", "SK05", (("in 0 .. P", "in 1 .. P"),)),
    Case(
        "ragged_panels",
        "SK05",
        (("in 0 .. P", "in 0 .. n"),),
        (("A: f16[M, K]", "lens: i32[3], A: f16[M, K]"), after(FILL, "    let n = lens[ti]\n")),
    ),
    Case(
        "panels_by_tile_row",
        "SK05",
        (("in 0 .. 3", "in 0 .. ti + 1"),),
        (("in 0 .. P", "in 0 .. 3"),),
    ),
    Case(
        "K_at_launch", "SK05", setup=((" K = 100,", ""),), options=SYMBOLIC, fault_options="units=5"
    ),
    Case(
        "K_may_be_zero",
        "SK05",
        ((PANELS, "P = ceildiv(K, BK)"),),
        ((" K = 100,", ""),),
        options=SYMBOLIC,
    ),
    Case("no_panels", "SK05", (("P = 1 ", "P = 0 "),), ((PANELS, "P = 1"),)),
    Case(
        "M_at_launch", "SK06", setup=((" M = 96,", ""),), options=SYMBOLIC, fault_options="units=5"
    ),
    Case(
        "triangular_grid",
        "SK06",
        (("(tj) in [ceildiv(N, BN)]", "(tj) in [ti + 1]"),),
        (
            (GRID, "  grid (ti) in [ceildiv(M, BM)] {\n  grid (tj) in [ceildiv(N, BN)] {\n"),
            (STORE, STORE + "  }\n"),
        ),
    ),
    Case(
        "negative_extent",
        "SK06",
        (("[ceildiv(M, BM), ", "[ceildiv(M, BM) - 1, "),),
        (("M = 96", "M = 0"),),
    ),
    Case("unmasked_tail_store", "SK06", ((", acc masked", ", acc"),)),
    Case("unmasked_tail_load", "SK06", (("kp * BK +: BK] masked", "kp * BK +: BK]"),)),
    Case("inout_output", "SK07", (("out C", "inout C"),), in_slots=""),
    Case("nothing_stored", "SK07", ((STORE, ""),)),
    Case("stored_twice", "SK07", ((STORE, STORE + STORE),)),
    Case(
        "stored_to_workspace",
        "SK07",
        ((STORE, STORE.replace("C[", "W[")),),
        (("kernel @gemm", "workspace W: f32[96, 80]\nkernel @gemm"),),
    ),
    Case("relu", "SK08", ((STORE, EPILOGUE + STORE),)),
    Case(
        "cast",
        "SK08",
        (
            ("out C: f32", "out C: f16"),
            after(ALLOC, "    alloc out: register f16[BM, BN]\n"),
            (STORE, "    ewise out = cast(f16, acc)\n" + STORE.replace("acc", "out")),
        ),
    ),
    Case("conditional_store", "SK08", ((STORE, f"    if ti == 0 {{\n{STORE}    }}\n"),)),
    Case("aliased_input", "SK09", (ALIAS_A,)),
    Case("omitted_axis", "SK10", (("C[ti * BM +: BM, tj", "C[ti * BM +: BM, ti"),)),
    Case("overlapping_tiles", "SK10", (("C[ti * BM +: BM", "C[ti * 16 +: BM"),)),
    Case(
        "carried_tile",
        "SK11",
        (after(DOT, "        ewise s = s + 1\n"),),
        (after(ALLOC, "    alloc s: register f32[BM]\n    fill s, 0\n"),),
    ),
    Case(
        "carried_counter",
        "SK11",
        (after(DOT, "        while c < kp {\n          set c = c + 1\n        }\n"),),
        (after(FILL, "    let c = 0\n"),),
    ),
    Case(
        "last_panel_escapes",
        "SK11 SK13",
        (after(STORE, "    store D[ti * BM +: BM, 0 +: BK], a masked\n"),),
        (WITH_D,),
        in_slots="SK11",
    ),
    Case("starts_at_one", "SK12", (("fill acc, 0", "fill acc, 1"),)),
    Case(
        "starts_at_bias",
        "SK12",
        ((FILL, "    load acc, Z[ti * BM +: BM, tj * BN +: BN] masked\n"),),
        (("out C", "Z: f32[M, N], out C"),),
    ),
    Case("filled_on_condition", "SK12", ((FILL, f"{FILL}    if ti == 0 {{\n  {FILL}    }}\n"),)),
    Case(
        "store_before",
        "SK13",
        (after(FILL, "    store D[ti * BM +: BM, tj * BN +: BN], acc masked\n"),),
        (("out C: f32[M, N])", "out C: f32[M, N], out D: f32[M, N])"),),
    ),
    Case(
        "atomic_inside",
        "SK13",
        (after(DOT, "        atomic add D[ti * BM +: BM, 0 +: BK], a masked\n"),),
        (("out C: f32[M, N])", "out C: f32[M, N], inout D: f16[M, BK])"),),
    ),
    Case(
        "arrive_inside",
        "SK13",
        (after(FILL, "    arrive last, count[ti], 2\n"),),
        (("kernel @gemm", "workspace count: i32[3]\nkernel @gemm"),),
    ),
    Case("splits_not_dividing", "SK14", options="splits=7", fault_options="splits=4"),
    Case(
        "units_beside_splits",
        "SK14",
        options="splits=7 units=63",
        fault_options="splits=7 units=64",
    ),
    Case("determinism_asked", "SK16", fault_options="units=5 deterministic=true"),
    Case(
        "hybrid_at_launch",
        "SK18",
        ((" M = 96,", ""),),
        options="decomposition=hybrid units=5 launch-constants=true",
    ),
    Case(
        "k_aligned_at_launch",
        "SK18",
        ((" K = 100,", ""),),
        options="decomposition=k-aligned units=5 launch-constants=true",
    ),
    Case(
        "ceil_of_a_least_share_at_launch",
        "SK18",
        ((" K = 100,", ""),),
        options="units=5 bounds=ceil min-panels=2 launch-constants=true",
    ),
    Case(
        "ceil_of_a_least_share_with_units_of_the_launcher",
        "SK18",
        options="units=5 bounds=ceil min-panels=2",
        fault_options="bounds=ceil min-panels=2",
    ),
    Case("descriptor_of_a_load", "SK19", (("BK] masked", "BK] masked descriptor"),)),
    Case("descriptor_of_a_store", "SK19", (("acc masked", "acc masked descriptor"),)),
    Case("fragment", "SK17", (("acc: register", "acc: fragment"),)),
    Case(
        "several",
        "SK07 SK08 SK09 SK12 SK16",
        (("out C", "inout C"), (STORE, EPILOGUE + STORE), ALIAS_A, ("fill acc, 0", "fill acc, 2")),
        fault_options="deterministic=true",
        in_slots="SK09 SK12",
    ),
]

merges = pytest.mark.parametrize("merge", list(Merge)[1:], ids=lambda m: m.value)


def stream_k(options: str, merge: Merge = Merge.ATOMIC) -> StreamKPass:
    made = parse_pass(f"stream-k{{merge={merge.value} {options}}}")
    assert isinstance(made, StreamKPass)
    return made


@merges
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fault_is_refused_with_just_these_codes(case: Case, merge: Merge):
    program = parse(edited(edited(case.base, *case.setup), *case.fault))
    verify(program)
    verdict = stream_k(case.fault_options or case.options, merge).can_be_applied(program)
    codes = verdict.codes if isinstance(verdict, Refused) else set()
    assert codes == case.codes_of(merge), verdict.explain()


@merges
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_neighbour_without_the_fault_is_accepted(case: Case, merge: Merge):
    program = parse(edited(case.base, *case.setup))
    verify(program)
    verdict = stream_k(case.options, merge).can_be_applied(program)
    assert verdict, verdict.explain()
    verify(stream_k(case.options, merge).apply(program))


@pytest.mark.parametrize("merge", [Merge.WORKSPACE, Merge.FIXUP], ids=lambda m: m.value)
@pytest.mark.parametrize("case", [c for c in CASES if not c.codes_of(Merge.FIXUP)], ids=str)
def test_what_only_atomics_refuse_has_the_bits_of_the_grid_form(case: Case, merge: Merge):
    program = parse(edited(edited(case.base, *case.setup), *case.fault))
    options = (case.fault_options or case.options).replace("units=5", "units=7")
    after = stream_k(options, merge).apply(program)
    verify(after)
    assert difference(program, after, {}, seed=4, schedules=2) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_apply_raises_with_the_text_of_explain_and_changes_nothing(case: Case):
    program = parse(edited(edited(case.base, *case.setup), *case.fault))
    text = to_text(program)
    refusing = stream_k(case.fault_options or case.options)
    with pytest.raises(NotApplicable) as raised:
        refusing.apply(program)
    assert str(raised.value) == refusing.can_be_applied(program).explain()
    assert to_text(program) == text


def codes(text: str, options: str, merge: Merge) -> set[str]:
    program = parse(text)
    verify(program)
    verdict = stream_k(options, merge).can_be_applied(program)
    return set(verdict.codes) if isinstance(verdict, Refused) else set()


SCALED = edited(
    GEMM_ROWS,
    ("    wave w", "    alloc t: register f32[WM, BN]\n    fill t, 1\n    wave w"),
    ("      fill acc, 0\n", "      fill acc, 0\n      alloc u: register f32[WM, BN]\n"),
    ("          dot acc, a, b\n", "          dot acc, a, b\n          ewise acc = acc + t\n"),
    ("tj * BN +: BN], acc masked\n", "tj * BN +: BN], acc masked\n      ewise t = t * 2\n"),
)


@merges
def test_panels_that_use_what_the_wave_before_left_are_refused_where_it_leaves_it_once(
    merge: Merge,
):
    assert codes(SCALED, "units=5", merge) == (set() if merge is Merge.ATOMIC else {"SK11"})
    assert codes(edited(SCALED, ("ewise t = t", "ewise u = t")), "units=5", merge) == set()


ADDS = edited(
    GEMM,
    ("out C: f32[M, N])", "out C: f32[M, N], out D: f32[M, N])"),
    ("ceildiv(K, BK)) {", "ceildiv(K, BK))\n    requires zeroed(D) {"),
    (STORE, STORE + STORE.replace("store C", "atomic add D")),
)


@merges
def test_an_epilogue_that_adds_into_a_zeroed_output_is_refused_where_it_is_zeroed_twice(merge):
    refused = merge in (Merge.ATOMIC, Merge.FIXUP)
    assert codes(ADDS, "units=5", merge) == ({"SK13"} if refused else set())
    inout = ADDS.replace("out D", "inout D").replace("\n    requires zeroed(D)", "")
    assert codes(inout, "units=5", merge) == ({"SK13"} if merge is Merge.ATOMIC else set())


@pytest.mark.parametrize("merge", [Merge.WORKSPACE, Merge.ATOMIC_WORKSPACE, Merge.FIXUP])
def test_an_epilogue_that_adds_runs_once(merge: Merge):
    text = ADDS.replace("out D", "inout D").replace("\n    requires zeroed(D)", "")
    for program in (parse(ADDS), parse(text))[merge is Merge.FIXUP :]:
        after = stream_k("units=7", merge).apply(program)
        assert difference(program, after, {}, seed=1, schedules=2) == ""


def test_persistent_kernel_is_refused():
    once = stream_k("units=5").apply(parse(GEMM))
    verdict = stream_k("units=5").can_be_applied(once)
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"SK15"}


def test_two_kernels_are_refused():
    verdict = stream_k("units=5").can_be_applied(parse(GEMM + GEMM.replace("@gemm", "@again")))
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"SK01"}


def test_every_code_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()} | {"SK15"}
    elsewhere = {"SK20", "SK21"}  # test_merge_pieces.py, test_merge_slot_layout.py
    assert covered | elsewhere == {f"SK{n:02}" for n in range(1, 22)}


#: what data-parallel asks too: a grid around one reduce, its counts, and no descriptors yet
OF_COUNTS = {"SK01", "SK02", "SK05", "SK19"}
SK06_OF_COUNTS = ("M_at_launch", "triangular_grid", "negative_extent")


def codes_of_whole_tiles(case: Case) -> set[str]:
    codes = set(case.codes.split())
    return codes & (OF_COUNTS | ({"SK06"} if case.name in SK06_OF_COUNTS else set()))


def whole_tiles(case: Case) -> StreamKPass:
    """Data-parallel with what else the options of the case say."""
    said = case.fault_options or case.options
    kept = [o for o in said.split() if o.split("=")[0] in ("launch-constants", "deterministic")]
    return stream_k(" ".join(("decomposition=data-parallel units=2", *kept)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_whole_tiles_are_refused_for_their_counts_only(case: Case):
    """What else is wrong with a split is the same with whole tiles as in the grid form."""
    program, made = parse(edited(edited(case.base, *case.setup), *case.fault)), whole_tiles(case)
    verdict = made.can_be_applied(program)
    expected = codes_of_whole_tiles(case)
    if not verdict:
        assert verdict.codes == expected, verdict.explain()
        return
    assert not expected
    after = made.apply(program)
    verify(after)
    sizes = known(program, {"M": 96, "K": 100})
    if case.name in WRONG_AS_IT_IS:
        with pytest.raises(InterpError):
            difference(program, after, sizes, 1, 2)
        return
    assert difference(program, after, sizes, 1, 2) == ""


#: of the grid form: they race, leave a buffer, or leave a counter standing
WRONG_AS_IT_IS = (
    *("omitted_axis", "overlapping_tiles", "unmasked_tail_load", "unmasked_tail_store"),
    *("last_panel_escapes", "arrive_inside"),
)


def test_explain_shows_code_line_caret_found_and_hint():
    verdict = stream_k("units=5").can_be_applied(parse(edited(GEMM, (STORE, EPILOGUE + STORE))))
    text = verdict.explain()
    assert text.startswith("stream-k{merge=atomic units=5}: not applicable, 1 reason(s)")
    assert "SK08: with merge=atomic nothing but the writeback follows the reduction" in text
    assert "ewise acc = max(acc, 0)" in text
    assert "^" in text
    assert "hint:" in text


@pytest.mark.parametrize(
    ("option", "value"),
    [("units", 0), ("units", "8"), ("splits", -1), ("target", "cuda:70"), ("merge", "magic")],
)
def test_wrong_option_values_raise(option: str, value: object):
    with pytest.raises((ValueError, TypeError), match=str(value)):
        StreamKPass(**{option: value})  # pyright: ignore[reportArgumentType]


def test_options_print_and_parse_back():
    text = "stream-k{merge=atomic units=132 bounds=big-units launch-constants=true target=cuda:80}"
    assert pass_text(parse_pass(text)) == text
