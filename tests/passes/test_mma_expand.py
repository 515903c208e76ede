"""The pass `mma-expand`: what becomes a fragment, the complete set of codes of each program that it
refuses, an accepted neighbour, and that no value changes."""

from dataclasses import dataclass, field

import pytest

from backends.triton_codegen import emit
from loopir.build import gemm
from loopir.errors import NotApplicable
from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from passes.base import Refused
from passes.mma_expand import MmaExpandPass
from passes.pipeline import parse_pipeline
from passes.pipeline_text import parse_pass
from passes.stream_k import StreamKPass
from tests.support.interp import same_bits
from tests.support.kernels import DUAL, IN_PLACE, INT8
from tests.support.protocols import FOLD
from tests.support.reference import outputs_of_both
from tests.support.refusals import check_accepted, check_refused
from tests.support.texts import GEMM, MAX_ROWS, edited

Edit = tuple[str, str]
SLOTS = FOLD.replace("BM = 8", "BM = 16").replace("BK = 4", "BK = 16").replace("K = 24", "K = 60")
EXPAND = MmaExpandPass()


@dataclass(frozen=True)
class Case:
    """The base text with the `setup` edits is accepted; with the fault on top of them it is refused
    with just `codes`."""

    name: str
    codes: str
    fault: tuple[Edit, ...]
    setup: tuple[Edit, ...] = ()
    base: str = field(default=GEMM, repr=False)


DOT = "        dot acc, a, b\n"
FILL = "    fill acc, 0\n"
STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
RELU = "    ewise acc = max(acc, 0)\n"
SQUARE = (("N = 80", "N = 30"), ("BK = 16", "BK = 32"))
AGAIN = "    alloc d: register f32[BM, BN]\n    fill d, 0\n"
WITH_Z = ("out C", "Z: f32[M, N], out C")
LOADED = "    load acc, Z[ti * BM +: BM, tj * BN +: BN] masked\n"
F32 = (("A: f16", "A: f32"), ("B: f16", "B: f32"), ("shared f16[BM", "shared f32[BM"),
       ("shared f16[BK", "shared f32[BK"))  # fmt: skip
F8 = tuple((old, new.replace("f32", "f8e4m3")) for old, new in F32)
ATOMIC = (
    (STORE, STORE.replace("store", "atomic add")),
    ("BK)) {", "BK))\n    requires zeroed(C) {"),
)

CASES = [
    Case("fragment_already", "MX01", (("acc: register", "acc: fragment"),)),
    Case("no_dot", "MX01", ((DOT, "        ewise acc = acc + 1\n"),)),
    Case("starts_at_a_bias", "MX02", ((FILL, LOADED),), (WITH_Z,)),
    Case(
        "loaded_after_the_reduce",
        "MX02",
        ((STORE, LOADED + STORE),),
        (WITH_Z, (STORE, RELU + STORE)),
    ),
    Case(
        "loaded_from_its_slots",
        "MX02",
        (("load part, parts", "load acc, parts"), ("acc = acc + part", "acc = acc + acc")),
        base=SLOTS,
    ),
    Case(
        "operand_of_a_second_dot",
        "MX02",
        ((STORE, AGAIN + "    dot d, acc, acc\n" + STORE),),
        (*SQUARE, *F32, (STORE, RELU + STORE)),
    ),
    Case("rows_of_24", "MX03", (("BM = 32", "BM = 24"),)),
    Case("columns_of_8", "MX03", (("BN = 32", "BN = 8"),)),
    Case("panel_of_8", "MX03", (("BK = 16", "BK = 8"),)),
    Case("fp8_panel_of_16", "MX03", (("BK = 32", "BK = 16"),), (*F8, ("BK = 16", "BK = 32"))),
    Case("fp8_operands", "MX03", F8),
    Case("atomic_writeback", "MX04", ATOMIC),
    Case(
        "several",
        "MX02 MX03 MX04",
        (("BM = 32", "BM = 8"), (FILL, LOADED), *ATOMIC),
        (WITH_Z,),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fault_is_refused_with_just_these_codes(case: Case):
    check_refused(EXPAND, edited(edited(case.base, *case.setup), *case.fault), case.codes)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_neighbour_without_the_fault_is_accepted(case: Case):
    check_accepted(EXPAND, edited(case.base, *case.setup))


def test_every_code_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()}
    assert covered == {f"MX{n:02}" for n in range(1, 5)}


def test_a_refusal_shows_the_place_with_a_caret_and_a_hint():
    program = parse(edited(GEMM, WITH_Z, (FILL, LOADED)))
    text = EXPAND.can_be_applied(program).explain()
    assert (
        text
        == """\
mma-expand: not applicable, 1 reason(s)

MX02: an accumulator is filled, updated by dot and ewise, and stored, always as a whole
  5 |     alloc a: shared f16[BM, BK]
  6 |     alloc b: shared f16[BK, BN]
  7 |     load acc, Z[ti * BM +: BM, tj * BN +: BN] masked
    |          ^^^
  8 |     reduce (acc: add) {
  9 |       for kp in 0 .. P {
  found: acc is loaded from memory
  hint:  fill acc, load into a tile of its own, and add it by ewise"""
    )


def test_every_refused_statement_is_listed():
    program = parse(edited(GEMM, WITH_Z, (FILL, LOADED + LOADED)))
    verdict = EXPAND.can_be_applied(program)
    assert isinstance(verdict, Refused)
    assert [r.path[-1] for r in verdict.reasons] == [3, 4]


# --- what changes


def test_only_the_space_of_the_accumulator_changes():
    expected = edited(GEMM, ("acc: register", "acc: fragment"))
    assert to_text(EXPAND.apply(parse(GEMM))) == expected


def test_every_accumulator_of_every_kernel_becomes_a_fragment():
    two = parse(DUAL + INT8)
    text = to_text(EXPAND.apply(two))
    assert text == to_text(two).replace("acc: register", "acc: fragment").replace(
        "gate: register", "gate: fragment"
    )
    plan = EXPAND.can_be_applied(two).plan
    assert EXPAND.report(plan) == (("fragments", "acc, gate, acc"),)


def test_kernels_without_a_dot_stay_as_they_are():
    text = to_text(EXPAND.apply(parse(GEMM + MAX_ROWS)))
    assert text.endswith(MAX_ROWS)
    assert text.startswith(edited(GEMM, ("acc: register", "acc: fragment")))


def test_a_product_outside_a_reduce_becomes_a_fragment_too():
    loop = GEMM[GEMM.index("    reduce") : GEMM.index("    store")]
    plain = "\n".join(loop.split("\n")[1:-2]) + "\n"
    text = edited(GEMM, (loop, plain))
    assert to_text(EXPAND.apply(parse(text))) == to_text(
        parse(edited(text, ("acc: register", "acc: fragment")))
    )


def test_input_is_left_as_it_was():
    program = parse(GEMM)
    EXPAND.apply(program)
    assert program == parse(GEMM)


def test_the_pass_is_named_in_pipelines():
    assert parse_pass("mma-expand") == EXPAND
    assert str(EXPAND) == "mma-expand"


# --- the same numbers


KERNELS = {
    "gemm": gemm(40, 50, 70, "bf16", "bf16", tile=(16, 32, 32)),
    "gemm f8": gemm(40, 50, 70, "f8e4m3", tile=(32, 16, 32)),
    "gemm f32": gemm(20, 50, 70, "f32", tile=(16, 32, 32), precision="tf32"),
    "two accumulators": parse(DUAL),
    "in place": parse(IN_PLACE),
    "integers": parse(INT8),
}


@pytest.mark.parametrize("name", [*KERNELS, "slots"])
def test_the_result_interprets_to_the_same_bits(name: str):
    before = KERNELS[name] if name in KERNELS else parse(SLOTS)
    arrays = random_inputs(before, 3, integer_valued=False)
    again = {n: a.copy() for n, a in arrays.items()}
    run(before, arrays, seed=1)
    run(EXPAND.apply(before), again, seed=1)
    assert all(same_bits(arrays[n], again[n]) for n in arrays)


@pytest.mark.parametrize("name", ["gemm", "gemm f8", "integers"])
def test_the_result_emits_to_the_bits_of_the_interpreter(name: str):
    for found, expected in outputs_of_both(EXPAND.apply(KERNELS[name]), integer_valued=True):
        assert found.equal(expected)


@pytest.mark.parametrize("name", KERNELS)
def test_the_result_emits_the_same_kernel(name: str):
    before = KERNELS[name]
    assert _code(EXPAND.apply(before)) == _code(before)


def _code(program: Program) -> str:
    """The emitted file, less the header that quotes the program."""
    return emit(program).source.split('"""', 2)[2]


# --- beside stream-k


def test_atomic_stream_k_after_mma_expand_is_refused_by_stream_k():
    verdict = StreamKPass(units=5, merge="atomic").can_be_applied(EXPAND.apply(parse(GEMM)))  # pyright: ignore
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"SK17"}
    with pytest.raises(NotApplicable, match="SK17"):
        parse_pipeline("mma-expand,stream-k{merge=atomic units=5}").run(parse(GEMM))


def test_mma_expand_after_atomic_stream_k_is_refused_by_mma_expand():
    persistent = parse_pipeline("stream-k{merge=atomic units=5}").run(parse(GEMM))
    verdict = EXPAND.can_be_applied(persistent)
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"MX04"}
    with pytest.raises(NotApplicable, match="MX04"):
        parse_pipeline("stream-k{merge=atomic units=5},mma-expand").run(parse(GEMM))


@pytest.mark.parametrize("merge", ["workspace", "fixup"])
def test_slots_take_fragments_that_are_made_before_or_after(merge: str):
    """Made after, only the accumulator of the product is one; both have the bits of the base."""
    tile = f"stream-k{{merge={merge} units=11}}"
    arrays = random_inputs(parse(GEMM), 5)
    run(parse(GEMM), arrays)
    for pipeline, fragments in ((f"mma-expand,{tile}", 2), (f"{tile},mma-expand", 1)):
        after = parse_pipeline(pipeline).run(parse(GEMM))
        assert to_text(after).count("fragment") == fragments
        again = random_inputs(parse(GEMM), 5)
        run(after, again, seed=1)
        assert same_bits(arrays["C"], again["C"])


def test_tile_order_goes_with_mma_expand_either_way():
    first = parse_pipeline("tile-order{group=2},mma-expand").run(parse(GEMM))
    assert first == parse_pipeline("mma-expand,tile-order{group=2}").run(parse(GEMM))
