"""Slots in fragment order: which accumulators get them, and that no merge changes otherwise."""

from collections.abc import Mapping

import pytest
import torch

from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import ElementOrder
from passes.base import Applicable
from passes.pipeline import parse_pass, parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.differential import difference
from tests.support.kernels import DUAL
from tests.support.reference import outputs_of_both
from tests.support.refusals import check_refused
from tests.support.tail_texts import TAILS, tail
from tests.support.texts import GEMM, MAX_ROWS, edited
from tests.support.wave_kernels import GEMM_ROWS
from tests.support.workload_cases import CASES
from tests.support.workloads import MERGES, Case

pytestmark = pytest.mark.sampled

WITH_SLOTS = ("workspace", "fixup", "atomic-workspace")
SCHEDULES = (
    *("units=5", "units=11 bounds=ceil direction=backward", "decomposition=split-k splits=3"),
    *("decomposition=hybrid units=4", "decomposition=k-aligned units=4", "splits=7"),
)
#: rows and columns of tiles in multiples of 16; 9 tiles of 7 panels
PRODUCT = edited(GEMM, ("BM = 32", "BM = 16"), ("M = 96", "M = 41"))

#: a sum and a maximum of two shapes
PAIR = edited(
    PRODUCT,
    ("out C: f32[M, N]", "out C: f32[M, N], out T: f32[M, ceildiv(N, BN)]"),
    ("    fill acc, 0", "    alloc top: register f32[BM]\n    fill top, -inf\n    fill acc, 0"),
    ("reduce (acc: add)", "reduce (acc: add, top: max)"),
    (
        "        dot acc, a, b",
        "        dot acc, a, b\n        ewise top = max(top, amax(cast(f32, a), 1))",
    ),
    ("acc masked\n", "acc masked\n    store T[m, tj] over (m = ti * BM +: BM < M), top masked\n"),
)  # fmt: skip
#: a product without a dot
SUMS = edited(
    PRODUCT,
    (
        "        dot acc, a, b",
        "        ewise acc = acc + sum(expand(cast(f32, a), 2) * expand(cast(f32, b), 0), 1)",
    ),
)
#: tails of four by two blocks
BLOCKS = (
    "M = 7, N = 13, K = 12, BM = 4, BN = 8, BK = 2",
    "M = 70, N = 43, K = 48, BM = 64, BN = 32, BK = 16",
)


def rewritten(text: str, options: str) -> Program:
    return parse_pipeline(f"stream-k{{{options}}}").run(parse(text))


def is_ordered(program: Program) -> list[bool]:
    tiles = (w for w in program.workspaces if w.name.startswith("partials"))
    return [w.order is ElementOrder.FRAGMENTS for w in tiles]


def told(text: str, layout: str) -> str | None:
    made = StreamKPass(units=11, slot_layout=layout)  # pyright: ignore[reportArgumentType]
    verdict = made.can_be_applied(parse(text))
    assert isinstance(verdict, Applicable)
    return dict(made.report(verdict.plan)).get("slots")


#: texts whose accumulators cannot lie as fragments, and why
UNFIT = (
    (MAX_ROWS, "top: no rows and columns"),
    (GEMM_ROWS, "acc: waves share the tile"),
    (PRODUCT.replace("f32", "f16"), "acc: elements of 2 bytes, not 4"),
    (
        edited(PRODUCT, ("BN = 32", "BN = 8")),
        "acc: sides that are no constant multiples of 16",
    ),
)


@pytest.mark.parametrize(("text", "why"), [*UNFIT, (PAIR, "top: no rows and columns")])
def test_fragments_that_cannot_be_are_refused(text: str, why: str):
    made = StreamKPass(units=11, slot_layout="fragments")  # pyright: ignore[reportArgumentType]
    check_refused(made, text, "SK21")
    explained = made.can_be_applied(parse(text)).explain()
    assert [line for line in explained.splitlines() if "found:" in line] == [f"  found: {why}"]


@pytest.mark.parametrize(
    ("text", "layout", "ordered", "row"),
    [
        (PRODUCT, "row", [False], None),
        (PRODUCT, "fragments", [True], "acc as fragments"),
        (PRODUCT, "auto", [True], "acc as fragments"),
        (DUAL, "auto", [True, True], "acc as fragments, gate as fragments"),
        (
            PAIR,
            "auto",
            [True, False],
            "acc as fragments, top row by row: no rows and columns",
        ),
        *((text, "auto", [False], why.replace(":", " row by row:")) for text, why in UNFIT),
        (SUMS, "auto", [False], "acc row by row: no dot makes it"),
        (SUMS, "fragments", [True], "acc as fragments"),
    ],
)
def test_slots_are_in_fragment_order_where_they_can_and_are_asked_for(
    text: str, layout: str, ordered: list[bool], row: str | None
):
    assert is_ordered(rewritten(text, f"units=11 slot-layout={layout}")) == ordered
    assert told(text, layout) == row


@pytest.mark.parametrize("merge", WITH_SLOTS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_program_is_the_same_but_for_the_order(schedule: str, merge: str):
    options = f"merge={merge} {schedule}" + " pieces=1" * (merge == "fixup")
    plain = to_text(rewritten(PRODUCT, options))
    ordered = to_text(rewritten(PRODUCT, f"{options} slot-layout=fragments"))
    assert ordered.replace(" fragment_order", "") == plain != ordered


def check_emitted(program: Program, sizes: Mapping[str, int]) -> None:
    """AssertionError: a bit is not that of the interpreter."""
    for found, wanted in outputs_of_both(program, sizes=sizes, integer_valued=True):
        assert torch.equal(found.nan_to_num(7), wanted.nan_to_num(7))


@pytest.mark.parametrize("merge", WITH_SLOTS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_emitted_kernel_keeps_every_bit(schedule: str, merge: str):
    after = rewritten(PRODUCT, f"merge={merge} {schedule} slot-layout=fragments")
    check_emitted(after, {})


@pytest.mark.parametrize("pieces", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("name", ["the accumulator", "a row and a column", "a sum of each row"])
def test_pieces_are_whole_blocks(name: str, pieces: int):
    """Of 64 x 32 elements there are eight; of whole rows four."""
    text = edited(tail(*TAILS[name][0]), BLOCKS)
    made = parse_pass(f"stream-k{{merge=fixup pieces={pieces} splits=3 slot-layout=fragments}}")
    if pieces > (4 if name == "a sum of each row" else 8):
        check_refused(made, text, "SK20")
        return
    after = made.apply(parse(text))
    assert ("ROW_PIECES" in to_text(after)) == (pieces > 1)
    assert difference(parse(text), after, {}, seed=pieces) == ""
    check_emitted(after, {})


def has_ordered_slots(case: Case) -> bool:
    made = case.stream_k(Merge.WORKSPACE, units=3, slot_layout="auto")
    return any(is_ordered(made.apply(case.canonical)))


#: with the builder, so that a sample has a case of each
BUILT = [(case.builder.__name__, case) for case in CASES]


@pytest.mark.sampled
@pytest.mark.parametrize(("builder", "case"), BUILT, ids=map(str, CASES))
def test_every_workload_that_can_keeps_every_bit(builder: str, case: Case):
    if not has_ordered_slots(case):
        pytest.skip("its accumulators lie row by row")
    for merge in (m for m in case.merges if m in MERGES[:3]):
        after = case.stream_k(merge, units=3, slot_layout="auto").apply(case.canonical)
        check_emitted(after, case.sizes)


def test_there_are_such_workloads():
    assert sum(map(has_ordered_slots, CASES[::6])) > 5


def test_atomic_has_no_slots():
    with pytest.raises(ValueError, match=r"^slot_layout: not with merge=atomic"):
        StreamKPass(merge="atomic", units=3, slot_layout="fragments")  # pyright: ignore
