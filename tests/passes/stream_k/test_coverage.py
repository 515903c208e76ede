"""Writebacks that reach every element of their buffer, and such that may not."""

import pytest

from loopir.nodes import Access, GridAxis, TileAxis
from loopir.parser import parse_expr
from loopir.symbols import substitute, sym, try_evaluate
from passes.stream_k.coverage import Sizes, covers

CONSTANTS = {"BM": 32, "BN": 16}
WHERE = {"TM": parse_expr("ceildiv(M, BM)"), "BM": parse_expr("32"), "BN": parse_expr("16")}
SIZES = Sizes(
    lambda e: try_evaluate(e, CONSTANTS), lambda e: substitute(substitute(e, WHERE), WHERE)
)
GRID = {"ti": "TM", "tj": "ceildiv(N, BN)"}


def covered(
    *index: str,
    shape: str = "M, N",
    rows: str = "ti * BM",
    limit: str = "",
    grid: dict[str, str] = GRID,
    masked: bool = True,
) -> bool:
    axes = (
        TileAxis("m", parse_expr(rows), sym("BM"), parse_expr(limit) if limit else None),
        TileAxis("n", parse_expr("tj * BN"), sym("BN")),
    )
    access = Access("C", tuple(map(parse_expr, index)), axes, masked)
    sizes = tuple(map(parse_expr, shape.split(", ")))
    variables = tuple(GridAxis(iv, parse_expr(extent)) for iv, extent in grid.items())
    return covers(access, sizes, variables, SIZES)


def numbers(tiles: int = 4, **extra: str) -> dict[str, str]:
    """A grid of known sizes: `tiles` rows of them, two columns."""
    return {"ti": str(tiles), "tj": "2", **extra}


def test_sizes_known_at_launch_are_compared_as_they_are_spelled():
    assert covered("m", "n")
    assert covered("n", "m", shape="N, M")
    assert not covered("m", "n", shape="M + 1, N")
    assert not covered("m", "n", shape="N, M")


@pytest.mark.parametrize(("rows", "reached"), [(127, True), (128, True), (129, False)])
def test_known_sizes_are_compared_as_numbers(rows: int, reached: bool):
    assert covered("m", "n", shape=f"{rows}, 32", grid=numbers()) is reached


@pytest.mark.parametrize(("limit", "reached"), [("M", True), ("M - 1", False), ("N", False)])
def test_limit_cuts_what_is_reached(limit: str, reached: bool):
    assert covered("m", "n", limit=limit) is reached
    assert covered("m", "n", limit=limit, masked=False)


@pytest.mark.parametrize("start", ["ti * BM + 1", "ti * 33", "ti * 64", "ti * BM + x", "0"])
def test_tiles_with_gaps_or_a_late_start_do_not_reach_all(start: str):
    assert not covered("m", "n", rows=start)


def test_loop_variables_count_as_digits():
    grid = numbers(2, w="2")
    shape = "128, 32"
    assert covered("m", "n", shape=shape, rows="w * 32 + ti * 64", grid=grid)
    assert covered("m", "n", shape=shape, rows="w * 64 + ti * 32", grid=grid)
    assert not covered("m", "n", shape=shape, rows="w * 32 + ti * 96", grid=grid)
    assert not covered("m", "n", shape="129, 32", rows="w * 32 + ti * 64", grid=grid)


def test_loop_variable_is_a_dimension_of_its_own():
    grid = GRID | {"s": "S"}
    assert covered("s", "m", "n", shape="S, M, N", grid=grid)
    assert not covered("s", "m", "n", shape="S + 1, M, N", grid=grid)
    assert covered("0", "m", "n", shape="1, M, N")
    assert not covered("0", "m", "n", shape="2, M, N")
    assert not covered("1", "m", "n", shape="2, M, N")


def test_dimensions_that_share_a_variable_are_no_rectangle():
    assert not covered("m", "n", shape="128, 32", rows="tj * 64 + ti * 32", grid=numbers(2))
    assert not covered("m", "m", shape="M, M")


@pytest.mark.parametrize(
    ("shape", "reached"),
    [
        ("8, 16, 32", True),
        ("7, 16, 32", True),
        ("9, 16, 32", False),
        ("8, 15, 32", True),
        ("8, 17, 32", False),
    ],
)
def test_quotient_and_remainder_reach_a_rectangle(shape: str, reached: bool):
    found = covered("m // 16", "m % 16", "n", shape=shape, grid=numbers())
    assert found is reached


def test_image_of_open_size_is_reached_by_its_pixels():
    grid = {"ti": "ceildiv(H * W * L, BM)", "tj": "ceildiv(N, BN)"}
    index = ("m // (H * W)", "m // W % H", "m % W", "n")
    assert covered(*index, shape="L, H, W, N", grid=grid)
    assert covered("m // W // H", *index[1:], shape="L, H, W, N", grid=grid)
    assert not covered(*index, shape="L + 1, H, W, N", grid=grid)
    assert not covered(*index, shape="L, W, H, N", grid=grid)
