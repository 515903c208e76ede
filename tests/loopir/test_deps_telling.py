"""Accesses whose element tells the tile, and such whose does not."""

import pytest

from loopir.deps import dependences
from loopir.deps.telling import untold
from loopir.interp import RaceError, random_inputs, run
from loopir.nodes import Access, GridAxis, Kernel, Program, TileAxis
from loopir.parser import parse, parse_expr
from loopir.symbols import sym, try_evaluate
from loopir.verifier import verify

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


# --- sums whose terms are digits

GROUPS = (GridAxis("g", sym("G")), GridAxis("tj", sym("TN")))


def grouped(
    index: str, limit: str = "OCG", *, masked: bool = True, start: str = "tj * BN"
) -> set[str]:
    """What is lost by `Y[index]`, n an axis of tiles of 16 below a limit, in groups of OCG."""
    axis = TileAxis("n", parse_expr(start), sym("BN"), parse_expr(limit) if limit else None)
    access = Access("Y", (parse_expr(index),), (axis,), masked)
    constants = {"BN": 16, "C17": 17, "C32": 32, "ONE": 1}
    return set(untold(access, GROUPS, lambda e: try_evaluate(e, constants), VARYING))


@pytest.mark.parametrize(
    ("index", "limit"),
    [
        ("g * OCG + n", "OCG"),
        ("n + OCG * (g + 2) + 5", "OCG"),
        ("g * C17 + n", "C17"),
        ("g * 40 + n", "C17"),
        ("n * G + g", ""),
        ("n * 2 + 1 + g * 2 * C17", "C17"),
        ("Z - g * OCG - n", "OCG"),
        ("g * 2 * OCG + n // OCG % 2 * OCG + n % OCG", "2 * OCG"),
    ],
)
def test_digits_of_an_index_are_told(index: str, limit: str):
    assert grouped(index, limit) == set()


@pytest.mark.parametrize(
    ("index", "limit"),
    [
        ("g * OCG + n", ""),
        ("g * OCG + n", "OCG + 1"),
        ("g * OCG + n", "G * OCG"),
        ("g * OCG - g + n", "OCG"),
        ("g * 16 + n", "C17"),
        ("g + n", "OCG"),
        ("g * x + n", "x"),
        ("(n + g * OCG) // 2", "OCG"),
        ("g * OCG + n % OCH", "OCG"),
    ],
)
def test_digits_that_overlap_are_not_told(index: str, limit: str):
    assert {"n", "g"} <= grouped(index, limit)


def test_quotient_that_is_always_zero_need_not_be_told():
    assert grouped("n % OCG + g * OCG") == set()
    assert "n" in grouped("n % OCG + g * OCG", "OCG + 1")


def test_limit_bounds_a_tile_only_if_masked_and_not_from_below():
    assert grouped("g * OCG + n") == set()
    assert "g" in grouped("g * OCG + n", masked=False)
    assert "g" in grouped("g * OCG + n", start="tj * BN - 16")
    assert "g" in grouped("g * OCG + n", start="tj * BN + x")
    assert grouped("g * OCG + n", start="tj * BN + 3") == set()


# --- loops that do not start at 0


def kernel(bounds: str, place: str) -> Kernel:
    """A kernel of four blocks that store two elements of Y in each iteration of a loop."""
    program = parse(f"""\
kernel @k(X: f32[8], out Y: f32[64]) {{
  grid (ti) in [4] {{
    for w in {bounds} {{
      alloc t: register f32[2]
      load t, X[ti * 2 +: 2]
      store Y[{place} +: 2], t
    }}
  }}
}}
""")
    verify(program)
    return program.kernels[0]


def carried(bounds: str, place: str) -> set[str]:
    graph = dependences(kernel(bounds, place))
    edges = (e for _, _, e in graph.edges(data=True) if e["in_memory"])
    return {name for e in edges for name in e["untold"]}


@pytest.mark.parametrize("bounds", ["0 .. 4", "4 .. 8", "0 - 4 .. 0"])
def test_loop_with_a_fixed_start_counts_as_from_zero(bounds: str):
    assert carried(bounds, "8 + w * 2 + ti * 8") == set()


@pytest.mark.parametrize(
    ("bounds", "place"),
    [("16 - 4 * ti .. 20 - 4 * ti", "2 * w + 8 * ti"), ("10 - ti .. 11 - ti", "2 * w + 2 * ti")],
)
def test_loop_that_starts_elsewhere_in_every_block_is_no_digit(bounds: str, place: str):
    program = Program((kernel(bounds, place),))
    assert "ti" in carried(bounds, place)
    with pytest.raises(RaceError):
        run(program, random_inputs(program, 1))


def test_names_of_the_where_clause_are_what_they_stand_for():
    text = """\
kernel @k(X: f32[NB * PIX], out Y: f32[NB, OH, OW])
    where PIX = OH * OW, BM = 8 {
  grid (ti) in [ceildiv(NB * PIX, BM)] {
    alloc t: register f32[BM]
    load t, X[ti * BM +: BM] masked
    store Y[m // PIX, m // OW % OH, m % OW] over (m = ti * BM +: BM < NB * PIX), t masked
  }
}
"""
    graph = dependences(parse(text).kernels[0])
    assert not any(e["in_memory"] for _, _, e in graph.edges(data=True))
