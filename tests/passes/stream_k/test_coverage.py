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


@pytest.mark.parametrize(
    ("rows", "reached"),
    [
        ("(3 - ti) * BM", True),
        ("96 - ti * 32", True),
        ("(TM - 1 - ti) * BM", False),
        ("(4 - ti) * BM", False),
        ("(2 - ti) * BM", False),
        ("128 - ti * 64", False),
    ],
)
def test_tiles_from_the_last_to_the_first(rows: str, reached: bool):
    assert covered("m", "n", rows=rows, shape="128, 32", grid=numbers()) is reached


def test_tiles_of_open_number_from_the_last_to_the_first():
    assert covered("m", "n", rows="(TM - 1 - ti) * BM")
    assert not covered("m", "n", rows="(TM - ti) * BM")


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


def test_first_of_three_digits_may_be_missing():
    grid = {"ti": "ceildiv(H * W, BM)", "tj": "ceildiv(N, BN)"}
    assert covered("m // W % H", "m % W", "n", shape="H, W, N", grid=grid)
    assert not covered("m // W % H", "m % W", "n", shape="H + 1, W, N", grid=grid)
    assert not covered("m // W % H", "m % H", "n", shape="H, H, N", grid=grid)


GROUPS = {"g": "G", "ti": "ceildiv(OCG, BM)", "tj": "ceildiv(N, BN)"}


@pytest.mark.parametrize(
    ("index", "shape", "limit", "reached"),
    [
        ("g * OCG + m", "G * OCG, N", "OCG", True),
        ("OCG * G - 1 - g * OCG - m", "G * OCG, N", "OCG", True),
        ("g * OCG + m", "(G + 1) * OCG, N", "OCG", False),
        ("g * OCG + m", "OC, N", "OCG", False),
        ("g * OCG + m", "G * OCG, N", "OCG - 1", False),
        ("g * OCG + m + 1", "G * OCG, N", "OCG", False),
        ("g * 2 * OCG + m", "2 * G * OCG, N", "OCG", False),
        ("g * OCG + m * 2", "G * OCG, N", "OCG", False),
        ("g * OCG - m", "G * OCG, N", "OCG", False),
    ],
)
def test_groups_of_open_size_lie_side_by_side(index: str, shape: str, limit: str, reached: bool):
    assert covered(index, "n", shape=shape, limit=limit, grid=GROUPS) is reached


@pytest.mark.parametrize(
    ("step", "rows", "reached"),
    [(17, 51, True), (17, 52, False), (16, 48, True), (18, 54, False), (17, 34, True)],
)
def test_groups_of_known_size_lie_side_by_side(step: int, rows: int, reached: bool):
    grid = {"g": "3", "ti": "1", "tj": "2"}
    found = covered(f"g * {step} + m", "n", shape=f"{rows}, 32", limit="17", grid=grid)
    assert found is reached


@pytest.mark.parametrize(("height", "reached"), [("2 * H", True), ("2 * H + 1", False)])
def test_pixels_shuffled_from_channels_reach_a_larger_image(height: str, reached: bool):
    grid = {"ti": "ceildiv(H * W, BM)", "tj": "ceildiv(4 * C, BN)"}
    index = ("n // 4", "m // W * 2 + n // 2 % 2", "m % W * 2 + n % 2")
    assert covered(*index, shape=f"C, {height}, 2 * W", grid=grid) is reached
    assert not covered(
        "n // 4", "m // W * 2 + n % 2", "m % W * 2 + n % 2", shape="C, 2 * H, 2 * W", grid=grid
    )


def test_dimensions_of_one_element_may_have_the_same_index():
    assert covered("0", "m", "0", "n", shape="1, M, 1, N")
    assert not covered("0", "m", "0", "n", shape="1, M, 2, N")


@pytest.mark.parametrize(("limit", "reached"), [("1", True), ("2", False), ("M", False)])
def test_axis_of_one_element_moves_nothing(limit: str, reached: bool):
    """Beside `g`, `m` is a second digit of step one unless it is 0: a group of one channel."""
    grid = numbers(tiles=1, g="3")
    assert covered("g + m", "n", shape="3, 32", limit=limit, grid=grid) is reached
    assert not covered("g + m", "n", shape="4, 32", limit=limit, grid=grid)


@pytest.mark.parametrize("rows", ["ti * BM + 1", "ti * BM + x"])
def test_axis_of_one_element_that_no_tile_has_reaches_nothing(rows: str):
    grid = numbers(tiles=1, g="3")
    assert not covered("g + m", "n", shape="3, 32", limit="1", rows=rows, grid=grid)


@pytest.mark.parametrize("tiles", [0, 1])
def test_axis_of_one_element_needs_a_tile(tiles: int):
    grid = numbers(tiles=tiles, g="3")
    assert covered("g + m", "n", shape="3, 32", limit="1", grid=grid) is bool(tiles)


def test_sizes_are_compared_multiplied_out():
    """sympy makes 2 * (W + 1) a sum, and leaves 2 * (W + 1) * (H + 1) a product."""
    index = ("m // ((H + 1) * (W + 1))", "m // (W + 1) % (H + 1)", "m % (W + 1)")
    rows = "2 * (H + 1) * (W + 1)"
    grid = {"ti": f"ceildiv({rows}, BM)"}
    assert covered(*index, shape="2, H + 1, W + 1", limit=rows, grid=grid)
    assert not covered(*index, shape="3, H + 1, W + 1", limit=rows, grid=grid)


@pytest.mark.parametrize("shape", ["0, 32", "128, 0"])
def test_buffer_without_elements_is_reached(shape: str):
    assert covered("m", "0", shape=shape, rows="ti * 64", grid=numbers())
