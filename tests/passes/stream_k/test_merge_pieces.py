"""The second kernel of fixup folds a tile in pieces: which tails can be cut, along which axes, and
that the bits are those of the whole tile."""

from dataclasses import replace

import numpy as np
import pytest

from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import sym
from loopir.verifier import verify
from passes.base import Applicable
from passes.pipeline import parse_pass, parse_pipeline
from passes.stream_k import Merge, StreamKPass
from passes.stream_k.merges import Pieces, pieces_of
from passes.stream_k.nest import Nest, find_nest
from tests.support.differential import difference
from tests.support.interp import same_bits
from tests.support.kernels import DUAL, ROW_MAX
from tests.support.merge_texts import EPILOGUE, TWO
from tests.support.reference import outputs_of_both
from tests.support.refusals import check_refused
from tests.support.tail_texts import STORE, TAILS, tail
from tests.support.texts import GEMM, edited
from tests.support.wave_kernels import GEMM_ROWS
from tests.support.workload_cases import CASES
from tests.support.workloads import Case

pytestmark = pytest.mark.sampled


def nest_of(text: str) -> Nest:
    found = find_nest(parse(text))
    assert isinstance(found, Nest)
    return found


def pieces(nest: Nest, asked: int | None, split_tiles: int | None, layout: str = "row") -> Pieces:
    made = StreamKPass(merge="fixup", splits=2, pieces=asked, slot_layout=layout)  # pyright: ignore
    return pieces_of(nest, made, split_tiles)


# --- which axes can be cut


def elements(name: str) -> int:
    """Of a tail, along the axes that can be cut."""
    lines, axes = TAILS[name]
    nest = nest_of(tail(*lines))
    return int(np.prod([nest.constant(sym(("BM", "BN")[axis])) for axis in axes]))


@pytest.mark.parametrize("name", TAILS)
def test_a_tail_can_be_cut_along_axes_that_it_does_not_mix(name: str):
    lines, axes = TAILS[name]
    nest, every = nest_of(tail(*lines)), elements(name)
    found = pieces(nest, every, None)
    assert (tuple(cut.axis for cut in found.cuts), found.count) == (axes, every)
    assert pieces(nest, 2 * every, None).cuts == ()


@pytest.mark.parametrize("pieces", [2, 4, 8])
@pytest.mark.parametrize("name", TAILS)
def test_a_tail_in_pieces_keeps_every_bit(name: str, pieces: int):
    before = parse(tail(*TAILS[name][0]))
    made = parse_pass(f"stream-k{{merge=fixup pieces={pieces} decomposition=split-k splits=3}}")
    if pieces > elements(name):
        check_refused(made, to_text(before), "SK20")
        return
    after = made.apply(before)
    assert parse(to_text(after)) == after
    assert difference(before, after, {}, seed=pieces, schedules=3) == ""


# --- the same bits, whatever is cut

EPILOGUES = {"epilogue": EPILOGUE, "two of one shape": DUAL, "maximum": ROW_MAX, "two": TWO}
MOST_PIECES = {"two": 4}
SCHEDULES = (
    *("units=5", "units=7 bounds=ceil direction=backward", "units=5 permuted=true"),
    *("decomposition=split-k splits=17", "decomposition=hybrid units=3 tail=one-tile"),
)


@pytest.mark.parametrize("pieces", [1, 2, 4, 8])
@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("name", EPILOGUES)
def test_pieces_give_the_bits_of_a_fold_by_the_last_arriver(name: str, options: str, pieces: int):
    """Of real numbers, so that another order of the sums would show."""
    before, found = parse(EPILOGUES[name]), []
    pieces = min(pieces, MOST_PIECES.get(name, pieces))
    for merge in ("workspace", f"fixup pieces={pieces}"):
        after = parse_pipeline(f"stream-k{{merge={merge} {options}}}").run(before)
        verify(after)
        arrays = random_inputs(after, 4, integer_valued=False)
        run(after, arrays, seed=3)
        found.append(arrays)
    assert all(same_bits(found[0][n], found[1][n]) for n in found[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_workload_in_pieces_keeps_every_bit(case: Case):
    """By ranges and by slices; those whose tiles cannot be cut are folded whole."""
    for pieces, options in ((2, {"units": 5}), (4, {"decomposition": "split-k", "splits": 2})):
        made = case.stream_k(Merge.FIXUP, pieces=pieces, **options)
        if not made.can_be_applied(case.canonical):
            made = replace(made, pieces=None)
        after = parse_pipeline(str(made)).run(case.canonical)
        assert difference(case.canonical, after, case.sizes, seed=pieces) == ""


def test_most_workloads_are_cut():
    def is_cut(case: Case) -> bool:
        nest = find_nest(case.canonical)
        assert isinstance(nest, Nest)
        return pieces(nest, 2, None).count == 2

    whole = {str(case) for case in CASES if not is_cut(case)}
    of_one_element = {"dot", "add all", "trace", "and all"}
    assert whole == {*of_one_element, "pieces of both"}  # whose accumulators differ in both sides


#: a product whose gate is linear, so that its integers stay exact; 5 panels, or 7
GATED = edited(DUAL, ("M = 100, N = 72", "M = 99, N = 71"), ("* sigmoid(gate)", "* gate"))
LONGER = edited(GATED, ("K = 130", "K = 223"))


@pytest.mark.parametrize("pieces", [2, 4, 8, 64])
@pytest.mark.parametrize(
    "options", ["units=13", "splits=7", "decomposition=hybrid units=4", "units=13 bounds=ceil"]
)
def test_emitted_pieces_have_the_bits_of_the_interpreter(options: str, pieces: int):
    before = parse(LONGER if "splits" in options else GATED)
    after = parse_pipeline(f"stream-k{{merge=fixup pieces={pieces} {options}}}").run(before)
    assert len(after.kernels) == 2
    for found, wanted in outputs_of_both(after, integer_valued=True):
        assert found.equal(wanted)


# --- how many

COUNTS = [
    # tile, tiles that are split -> rows and columns of a piece
    ((128, 128), 4, (4, 64)),
    ((128, 128), 16, (4, 128)),
    ((128, 128), 144, (64, 128)),
    ((128, 128), 1000, (64, 128)),
    ((128, 128), None, (64, 128)),
    ((128, 256), 131, (32, 256)),
    ((64, 64), 4, (4, 64)),
    ((16, 128), 4, (4, 64)),
    ((16, 512), 1, (4, 64)),
    ((32, 32), 4, (8, 32)),
    ((16, 32), 128, (8, 32)),
    ((16, 16), 4, (16, 16)),
    ((256, 256), 1, (4, 64)),
]


@pytest.mark.parametrize(("tile", "split", "piece"), COUNTS, ids=str)
def test_pieces_are_as_many_as_fill_a_device_and_none_is_tiny(
    tile: tuple[int, int], split: int | None, piece: tuple[int, int]
):
    sizes = ("BM = 32, BN = 32", f"BM = {tile[0]}, BN = {tile[1]}")
    cuts = pieces(nest_of(edited(GEMM, sizes)), None, split).cuts
    assert tuple(next((c.size for c in cuts if c.axis == a), tile[a]) for a in (0, 1)) == piece


def test_slots_in_fragment_order_are_cut_in_whole_blocks():
    nest = nest_of(edited(GEMM, ("BM = 32, BN = 32", "BM = 64, BN = 128")))
    sizes = {}
    for asked in (2, 8, 32, None):
        sizes[asked] = [c.size for c in pieces(nest, asked, 4, "fragments").cuts]
    assert sizes == {2: [32], 8: [16, 64], 32: [16, 16], None: [16, 16]}
    why = "at most 32, of whole 16 x 16 blocks of fragments"
    assert pieces(nest, 64, 4, "fragments") == Pieces((), why)
    assert [c.size for c in pieces(nest, 64, 4).cuts] == [1]


def test_as_many_as_asked_for_are_made_small_ones_if_they_must_be():
    nest = nest_of(GEMM)  # 32 x 32
    found = {n: [(c.axis, c.count) for c in pieces(nest, n, 9).cuts] for n in (2, 8, 32, 128)}
    assert found == {
        2: [(0, 2)],
        8: [(0, 8)],
        32: [(0, 32)],
        128: [(0, 32), (1, 4)],
    }


SMALL = edited(GEMM, ("BM = 32, BN = 32", "BM = 16, BN = 16"))
WHY_ONE = {
    "asked for": (GEMM, 1),
    "waves share the tile": (GEMM_ROWS, 4),
    "3 is no power of two": (GEMM, 3),
    "at most 1024": (GEMM, 2048),
    "the tile is small, or the tiles are many": (SMALL, None),
}


@pytest.mark.parametrize(("why", "text", "asked"), [(w, *c) for w, c in WHY_ONE.items()])
def test_one_piece_has_a_reason(why: str, text: str, asked: int | None):
    assert pieces(nest_of(text), asked, 9).why == why


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            TAILS["sums of rows and of columns"][0],
            "axis 0: `ewise column = sum(acc, 0)` needs all of it; "
            "axis 1: `ewise row = sum(acc, 1)` needs all of it",
        ),
        (
            TAILS["a store of what no row is of"][0],
            "axis 0: every piece would do `store Z[ti, tj * BN +: BN], column masked`; "
            "axis 1: every piece would do `store Z[ti, tj * BN +: BN], column masked`",
        ),
    ],
)
def test_the_reason_names_the_statement_and_explain_tells_it(lines: tuple[str, ...], why: str):
    program = parse(tail(*lines))
    assert pieces(nest_of(tail(*lines)), 2, None).why == why
    assert ("fold", f"a block a tile: {why}") in rows(program, "splits=2")
    verdict = parse_pass("stream-k{merge=fixup pieces=2 splits=2}").can_be_applied(program)
    assert f"found: pieces=2: {why}\n" in verdict.explain()


def rows(program: Program, options: str) -> tuple[tuple[str, str], ...]:
    (made,) = parse_pipeline(f"stream-k{{merge=fixup {options}}}").passes
    verdict = made.can_be_applied(program)
    assert isinstance(verdict, Applicable)
    return made.report(verdict.plan)


def test_explain_tells_the_pieces():
    text = "4 blocks a tile, each a piece of 8 along axis 0"
    assert ("fold", text) in rows(parse(GEMM), "pieces=4 splits=7")
    assert "fold" not in dict(rows(parse(GEMM), "pieces=4 splits=1"))


def test_pieces_are_of_fixup_alone():
    with pytest.raises(ValueError, match=r"^pieces: only of merge=fixup"):
        StreamKPass(pieces=4, splits=2)
    with pytest.raises(ValueError, match=r"^pieces: an int >= 1"):
        StreamKPass(merge="fixup", pieces=0, splits=2)  # pyright: ignore


# --- controls

FAULTS = {
    "all pieces fold the first": ("row_piece * ROWS +: ROWS, 0 +: BN]\n", "0 +: ROWS, 0 +: BN]\n"),
    "all pieces store to the first": ("C[row_piece * ROWS + ti * BM", "C[ti * BM"),
    "a piece too few": ("in [TILES, ROW_PIECES]", "in [TILES, ROW_PIECES - 1]"),
    "rows of a mask are not moved": ("row_piece * ROWS + ti * BM, M", "ti * BM, M"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_pieces_is_seen(fault: str):
    before = parse(tail("ewise acc = mask(acc, 0, ti * BM, M - 2, 3)", STORE))
    text = to_text(parse_pipeline("stream-k{merge=fixup pieces=2 splits=3}").run(before))
    assert difference(before, parse(text), {}, seed=1) == ""
    assert difference(before, parse(edited(text, FAULTS[fault])), {}, seed=1) != ""
