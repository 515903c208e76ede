"""Accesses whose element tells the tile, and such whose does not."""

import pytest

from loopir.deps.telling import untold
from loopir.nodes import Access, GridAxis, TileAxis
from loopir.parser import parse_expr
from loopir.symbols import sym, try_evaluate

VARYING = frozenset({"x"})  # a scalar that memory gives, say
GRID = (GridAxis("ti", sym("TM")), GridAxis("tj", sym("TN")))


def missing(*index: str, rows: str = "ti * BM", cols: str = "tj * BN", grid=GRID) -> list[str]:
    axes = (
        TileAxis("m", parse_expr(rows), sym("BM")),
        TileAxis("n", parse_expr(cols), sym("BN")),
    )
    access = Access("C", tuple(map(parse_expr, index)), axes)
    return list(untold(access, grid, lambda e: try_evaluate(e, {"BM": 32, "BN": 16}), VARYING))


@pytest.mark.parametrize(
    "index",
    [
        ("m", "n"),
        ("n", "m"),
        ("m + 3", "n"),
        ("m // W", "m % W", "n"),
        ("m // (H * W)", "m // W % H", "m % W", "n"),
        ("m // W // H", "m // W % H", "m % W", "n"),
    ],
)
def test_index_that_tells_both_axes(index):
    assert missing(*index) == []


@pytest.mark.parametrize(
    ("index", "untold"),
    [
        (("m",), ["n", "tj"]),
        (("n", "n"), ["m", "ti"]),
        (("m // W", "m % H", "n"), ["m", "ti"]),
        (("m // W", "n"), ["m", "ti"]),
        (("m + n",), ["m", "n", "ti", "tj"]),
        (("m * 2 // 2", "n"), ["m", "ti"]),
    ],
)
def test_index_that_loses_an_axis(index, untold):
    assert missing(*index) == untold


@pytest.mark.parametrize("start", ["ti * BM", "ti * 32", "ti * 40", "ti * BM + 7"])
def test_tiles_side_by_side(start):
    assert missing("m", "n", rows=start) == []


@pytest.mark.parametrize("start", ["ti * 31", "ti + tj", "tj * BM", "ti * BM + tj", "ti * x", "0"])
def test_tiles_that_overlap_or_cannot_be_told(start):
    assert "ti" in missing("m", "n", rows=start)


def test_axis_of_extent_one_needs_no_telling():
    one = (*GRID, GridAxis("s", parse_expr("1")))
    assert missing("m", "n", grid=one) == []
    assert missing("m", "n", grid=(*GRID, GridAxis("s", parse_expr("2")))) == ["s"]
