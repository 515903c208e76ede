"""Tiles in pieces, swapped tiles and vectors under every schedule and merge: the product to the
bit; and what makes pieces legal."""

import itertools

import pytest

from loopir.build import Epilogue, gemm, gemv
from loopir.nodes import Access, Program, TileAxis
from loopir.parser import parse, parse_expr
from loopir.printer import to_text
from loopir.symbols import try_evaluate
from passes.base import Refused
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from passes.stream_k.side_by_side import joined
from tests.support import oracles
from tests.support.texts import edited

pytestmark = pytest.mark.sampled

EPILOGUE = Epilogue(2, 1, "f32", "relu", "f16")


def products(shape: tuple[int, int, int], out: str | None, **more) -> dict[str, Program]:
    kinds = {"dtype": "f16", "out_dtype": out, **more}
    return {
        "columns": gemm(*shape, tile=(16, (16, 8), 8), **kinds),
        "rows": gemm(*shape, tile=((16, 8), 8, 8), **kinds),
        "both": gemm(*shape, tile=((8, 4), (8, 16), 8), **kinds),
        "swapped": gemm(*shape, tile=(8, 16, 8), swapped=True, **kinds),
        "swapped pieces": gemm(*shape, tile=(8, (16, 8), 8), swapped=True, **kinds),
        "vectors": gemv(*shape, tile=(4, 16, 8), **kinds),
        "vectors of sums": gemv(*shape, tile=(4, 16, 8), panel_sums=True, **kinds),
    }


SCHEDULES = [
    "units=5",
    "decomposition=split-k splits=3",
    "decomposition=hybrid units=3",
    "decomposition=k-aligned units=5",
    "decomposition=data-parallel units=3",
]
MERGES = ["workspace", "fixup", "atomic-workspace"]
SHAPES = [(37, 45, 27), (16, 24, 16), (1, 7, 40)]


@pytest.mark.sampled
@pytest.mark.parametrize("epilogue", [None, EPILOGUE], ids=["plain", "epilogue"])
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_schedule_and_merge_gives_the_product(
    shape: tuple[int, int, int], schedule: str, merge: str, epilogue: Epilogue | None
):
    pipeline = parse_pipeline(f"tile-order{{group=2}},stream-k{{merge={merge} {schedule}}}")
    for program in products(shape, "f16", epilogue=epilogue).values():
        oracles.check(
            pipeline.run(program),
            lambda x: oracles.epilogue(epilogue or Epilogue(), x["A"] @ x["B"], x, "C"),
        )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_atomics_on_the_output_give_the_product(shape: tuple[int, int, int]):
    stream_k = StreamKPass(units=5, merge=Merge.ATOMIC)
    for name, program in products(shape, None).items():
        if name != "vectors":  # their sum behind the panels is an epilogue
            oracles.check(stream_k.apply(program), lambda x: x["A"] @ x["B"])


def test_each_piece_has_slots_of_its_own():
    text = to_text(StreamKPass(units=5).apply(products((37, 45, 27), None)["columns"]))
    assert "workspace partials: f32[SLOTS, BM, BN0]" in text
    assert "workspace partials_1: f32[SLOTS, BM, BN1]" in text


# --- what makes pieces legal

PIECES = to_text(products((37, 45, 27), None)["columns"])
SECOND = "store C[ti * BM +: BM, tj * BN + BN0 +: BN1], acc1 masked"


def codes(text: str, merge: Merge) -> set[str]:
    verdict = StreamKPass(units=5, merge=merge).can_be_applied(parse(text))
    return {r.code for r in verdict.reasons} if isinstance(verdict, Refused) else set()


@pytest.mark.parametrize("merge", Merge)
def test_pieces_side_by_side_are_accepted(merge: Merge):
    assert codes(PIECES, merge) == set()


@pytest.mark.parametrize("merge", Merge)
@pytest.mark.parametrize("start", ["tj * BN + BN0 - 1", "tj * BN + BN0 + 8", "tj * BN"])
def test_pieces_that_overlap_each_other_or_the_next_tile_are_refused(start: str, merge: Merge):
    text = edited(PIECES, (SECOND, SECOND.replace("tj * BN + BN0", start)))
    assert "SK07" in codes(text, merge)


def test_pieces_that_leave_a_gap_are_refused_where_the_output_is_zeroed():
    text = edited(PIECES, ("BN = BN0 + BN1", "BN = BN0 + BN1 + 8"))
    assert codes(text, Merge.ATOMIC) == {"SK07"}
    assert codes(text, Merge.WORKSPACE) == set()


# --- accesses side by side

SIZES = {"BM": 32, "BN": 16}


def piece(rows: str, columns: str, height: int = 8, width: int = 8, masked: bool = True) -> Access:
    """Rows and columns of C; a side of height 0 is a single index."""
    spans = (("m", rows, height), ("n", columns, width))
    axes = tuple(TileAxis(n, parse_expr(s), parse_expr(str(size))) for n, s, size in spans if size)
    index = tuple(parse_expr(n if size else s) for n, s, size in spans)
    return Access("C", index, axes, masked)


def whole(*pieces: Access) -> list[list[int | None]]:
    """The sizes of what is left."""
    found = joined(pieces, lambda e: try_evaluate(e, SIZES))
    return [sorted(try_evaluate(axis.size, SIZES) or 0 for axis in a.axes) for a in found]


def test_pieces_of_a_row_and_of_a_column_are_one():
    assert whole(piece("ti * BM", "tj"), piece("ti * BM", "tj + 8")) == [[8, 16]]
    assert whole(piece("ti * BM + 8", "tj"), piece("ti * BM", "tj")) == [[8, 16]]
    four = [piece(f"ti + {m}", f"tj + {n}") for m, n in itertools.product((0, 8), (0, 8))]
    for order in itertools.permutations(four):
        assert whole(*order) == [[16, 16]]


def test_single_rows_are_pieces():
    assert whole(*(piece(f"ti * 4 + {i}", "tj", 0) for i in range(4))) == [[4, 8]]


@pytest.mark.parametrize(
    "other",
    [
        piece("ti * BM", "tj + 9"),
        piece("ti * BM", "tj + 7"),
        piece("ti * BM + 1", "tj + 8"),
        piece("ti * BM", "tj + 8", height=4),
        piece("ti * BM", "tj + 8", masked=False),
        piece("ti * BM", "2 * tj + 8"),
    ],
    ids=["gap", "overlap", "another row", "lower", "unmasked", "another step"],
)
def test_others_stay_apart(other: Access):
    assert len(whole(piece("ti * BM", "tj"), other)) == 2
