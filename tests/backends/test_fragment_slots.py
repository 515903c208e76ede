"""Slots in fragment order as Triton text: where the vector starts, what is refused, the values."""

import re

import pytest

from backends.triton_codegen import emit
from loopir.errors import CodegenError
from loopir.nodes import Program
from loopir.parser import parse
from loopir.verifier import violations
from passes.pipeline import parse_pipeline
from tests.support.emitted_protocols import steps_of
from tests.support.reference import outputs_of_both
from tests.support.texts import GEMM, edited
from tests.support.verifier_cases import ORDERED
from tests.support.workspace_texts import FIXUP, SPLIT_K, STREAM_K

#: partial tiles of 16 x 32
IN_ORDER = {
    name: re.sub(r"^(workspace partials: .*)$", r"\1 fragment_order", text, flags=re.MULTILINE)
    for name, text in (("split-k", SPLIT_K), ("stream-k", STREAM_K), ("fixup", FIXUP))
}
#: the second kernel folds half of the columns a block, in a grid of slots of its own
HALVES = edited(
    IN_ORDER["fixup"].replace("BR", "BC"),
    ("[TILES * S, BM, BN] fragment_order", "[TILES, S, BM, BN] fragment_order"),
    ("store partials[tile * S + s, ", "store partials[tile, s, "),
    ("BC = 4", "BC = 16"),
    ("BM // BC]", "BN // BC]"),
    ("acc: register f32[BC, BN]", "acc: register f32[BM, BC]"),
    ("part: register f32[BC, BN]", "part: register f32[BM, BC]"),
    ("row: register f32[BN]", "row: register f32[BC]"),
    ("result: register f16[BC, BN]", "result: register f16[BM, BC]"),
    (
        "partials[(ti * TN + tj) * S + q, piece * BC +: BC, 0 +: BN]",
        "partials[ti * TN + tj, q, 0 +: BM, piece * BC +: BC]",
    ),
    ("bias[tj * BN +: BN]", "bias[tj * BN + piece * BC +: BC]"),
    ("C[ti * BM + piece * BC +: BC", "C[ti * BM +: BM"),
    ("BM, tj * BN +: BN], result", "BM, tj * BN + piece * BC +: BC], result"),
)  # fmt: skip


def check(program: Program) -> None:
    """AssertionError: a bit is not that of the interpreter."""
    for found, wanted in outputs_of_both(program, integer_valued=True):
        assert found.equal(wanted)


@pytest.mark.parametrize("text", [ORDERED, IN_ORDER["split-k"], IN_ORDER["stream-k"], HALVES])
def test_the_emitted_kernel_has_the_bits_of_the_interpreter(text: str):
    program = parse(text)
    assert violations(program) == ()
    source = emit(program).source
    assert source.count("to_slot(") == source.count("from_slot(") == 2  # made, called
    check(program)


def test_whole_rows_are_one_run_and_others_are_not():
    source = emit(parse(HALVES)).source
    assert "partials_at = tl.arange(0, BM * BC)\n" in source
    assert " + piece * BC * BM + partials_at" in source
    assert "partials_at //" not in source
    pieces = "stream-k{merge=fixup pieces=2 splits=2 slot-layout=fragments}"
    made = parse_pipeline(pieces).run(parse(edited(GEMM, ("K = 100", "K = 96"))))
    source = emit(made).source
    assert "partials_at = partials_at // (8 * ROWS) * (8 * BM) + partials_at % (8 * ROWS)" in source
    check(made)


def test_a_block_of_another_place_is_another_result():
    """Control of the offsets: columns of the first half in both pieces."""
    wrong = parse(edited(HALVES, ("q, 0 +: BM, piece * BC +: BC]", "q, 0 +: BM, 0 +: BC]")))
    right = [o.clone() for o, _ in outputs_of_both(parse(HALVES), integer_valued=True)]
    found = [o for o, _ in outputs_of_both(wrong, integer_valued=True)]
    assert not all(a.equal(b) for a, b in zip(right, found, strict=True))


def test_a_block_that_may_leave_its_slot_is_refused():
    text = edited(HALVES, ("piece) in [", "piece, x) in ["), ("BN // BC]", "BN // BC, X]"))
    text = edited(text, ("q, 0 +: BM, piece * BC", "q, 0 +: BM, x * BC"))
    program = parse(edited(text, ("BC = 16, S = 3", "BC = 16, S = 3, X = 3")))
    assert violations(program) == ()
    with pytest.raises(CodegenError, match="columns that may lie outside a slot of partials"):
        emit(program)
    emit(parse(edited(text, ("BC = 16, S = 3", "BC = 16, S = 3, X = 2"))))


def test_a_slot_whose_number_is_unknown_is_guarded():
    text = edited(ORDERED, ("order: i32[TILES]", "order: i32[TILES], which: i32[1]"))
    text = edited(text, ("    let s = unit % S", "    let s = unit % S\n    let z = which[0]"))
    text = edited(text, ("slots[tile * S + i, ", "slots[z, "))
    source = emit(parse(text)).source
    assert "mask=(z >= 0) & (z < UNITS), other=0" in source
    assert "mask=(z" not in emit(parse(ORDERED)).source


@pytest.mark.parametrize("merge", ["workspace", "fixup", "atomic-workspace"])
def test_the_protocol_is_that_of_slots_by_rows(merge: str):
    steps = []
    for layout in ("row", "fragments"):
        options = f"stream-k{{merge={merge} units=5 slot-layout={layout}}}"
        program = parse_pipeline(options).run(parse(GEMM))
        steps.append(steps_of(emit(program).source, program))
    assert steps[0] == steps[1]
