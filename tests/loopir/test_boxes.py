"""Tiles as boxes of tensors: the sides, their order and their starts; and which starts are surely
multiples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopir.boxes import Need, access_moved, box, is_multiple, meanings, misfits
from loopir.errors import ParseError
from loopir.nodes import Load, Store
from loopir.parser import parse, parse_expr
from loopir.symbols import evaluate
from loopir.walk import walk

KERNEL = """\
kernel @k({params}, out Y: f32[64, 64])
    where BM = 16, BN = 32, H = R + 2 {{
  grid (t, u) in [4, 4] {{
    let base = u * BN
    alloc x: register {dtype}[{tile}]
    load x, {access}
  }}
}}
"""


def load_of(params: str, tile: str, access: str, dtype: str = "f16"):
    text = KERNEL.format(params=params, tile=tile, access=access, dtype=dtype)
    kernel = parse(text).kernels[0]
    load = next(s for _, s in walk(kernel.body) if isinstance(s, Load))
    return kernel, kernel.params[0], load


def needs(params: str, tile: str, access: str, dtype: str = "f16") -> list[Need]:
    kernel, param, load = load_of(params, tile, access, dtype)
    return [m.need for m in misfits(load, param, meanings(kernel))]


BOXES = [
    # params, tile, access -> order of dimensions, shape of the box, axes of the tile
    ("X: f16[M, K]", "BM, BN", "X[t * BM +: BM, base +: BN] masked", (0, 1), (16, 32), (0, 1)),
    ("X: f16[M, K] contiguous(0)", "BM, BN", "X[t * BM +: BM, u +: BN] masked",
     (1, 0), (32, 16), (1, 0)),
    ("X: f16[M, K]", "BN, BM", "X[m, n] over (n = base +: BN, m = t +: BM) masked",
     (0, 1), (16, 32), (1, 0)),
    ("X: f16[L, M, K]", "BM, BN", "X[t, u +: BM, base +: BN]", (0, 1, 2), (1, 16, 32), (0, 1)),
    ("X: f16[L, M, K] contiguous(1)", "BM, BN", "X[u, t * BM +: BM, t +: BN] masked",
     (0, 2, 1), (1, 32, 16), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("params", "tile", "access", "order", "shape", "axes"), BOXES)
def test_a_box_has_a_side_for_each_dimension_and_the_contiguous_one_last(
    params, tile, access, order, shape, axes
):
    assert needs(params, tile, access) == []
    _, param, load = load_of(params, tile, access)
    found = box(access_moved(load), param, {"BM": 16, "BN": 32})
    assert (found.order, found.shape, found.axes) == (order, shape, axes)


def test_a_side_starts_where_the_index_does_for_the_first_element():
    params, access = "X: f16[R, 64]", "X[m - 3, n] over (m = t * BM +: BM, n = 2 * base +: BN)"
    _, param, load = load_of(params, "BM, BN", access)
    found = box(access_moved(load), param, {"BM": 16, "BN": 32})
    assert [s.start for s in found.sides] == [parse_expr("t * BM - 3"), parse_expr("2 * base")]


NEEDS = [
    ("X: f16[64]", "BN", "X[base +: BN]", Need.TENSOR),
    ("X: f16[M, K, 2, 2, 2, 2]", "BM, BN", "X[t +: BM, base +: BN, 0, 0, 0, 0]", Need.TENSOR),
    ("X: f16[M, K] contiguous(none)", "BM, BN", "X[t +: BM, base +: BN]", Need.TENSOR),
    ("X: bool[M, K]", "BM, BN", "X[t +: BM, base +: BN]", Need.TENSOR),
    ("X: f16[M, K]", "BN", "X[t, base +: BN]", Need.AXES),
    ("X: f16[M, K]", "BM, BN", "X[m // 2, n] over (m = t +: BM, n = base +: BN)", Need.AXES),
    ("X: f16[M, K, K]", "BM, BN", "X[m, m, n] over (m = t +: BM, n = base +: BN)", Need.AXES),
    ("X: f16[M, K, K]", "BM, BN", "X[t +: BM, base +: BN, u]", Need.SIDES),
    ("X: f16[M, K]", "BM, 4", "X[t +: BM, 4 * u +: 4]", Need.SIDES),
    ("X: f16[M, K]", "512, BN", "X[t +: 512, base +: BN]", Need.SIDES),
    ("X: f16[M, K]", "BM, BN", "X[t +: BM, base + 4 +: BN]", Need.START),
    ("X: f16[M, K]", "BM, BN", "X[t +: BM, u +: BN]", Need.START),
    ("X: f16[M, K]", "BM, BN", "X[t +: BM, base +: BN] masked else 1", Need.MASK),
    ("X: f16[H, K]", "BM, BN", "X[m + 1, n] over (m = t +: BM < R, n = base +: BN) masked",
     Need.MASK),
]  # fmt: skip


@pytest.mark.parametrize(("params", "tile", "access", "need"), NEEDS)
def test_an_access_that_is_no_box_says_which_need_it_fails(params, tile, access, need):
    dtype = "bool" if "bool" in params else "f16"
    assert need in needs(params, tile, access, dtype)


FITTING = [
    ("X: f32[M, K]", "BM, 4", "X[t +: BM, 4 * u +: 4]"),
    ("X: f16[M, K]", "BM, BN", "X[t +: BM, base + 8 +: BN]"),
    ("X: f16[H, K]", "BM, BN", "X[m + 2, n] over (m = t +: BM < R, n = base +: BN) masked"),
    ("X: f16[M, K]", "BM, BN", "X[m, n] over (m = t +: BM < M, n = base +: BN < K + 1) masked"),
    ("X: f16[M, K, 2, 2, 2]", "BM, 8", "X[t, m, 0, 1, n] over (m = u +: BM, n = 8 * t +: 8)"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "tile", "access"), FITTING)
def test_the_neighbours_fit(params, tile, access):
    assert needs(params, tile, access, "f32" if "f32" in params else "f16") == []


TERMS = st.recursive(
    st.sampled_from(["x", "y", "4", "6", "8", "16"]),
    lambda part: (
        st.builds("({} {} {})".format, part, st.sampled_from(["+", "-", "*", "//", "%"]), part)
        | st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceildiv"]), part, part)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(TERMS, st.sampled_from([2, 4, 8]))
def test_what_is_surely_a_multiple_is_one_for_every_value(text: str, number: int):
    try:
        expr = parse_expr(text)
    except ParseError:  # it divides by zero
        return
    if is_multiple(expr, number):
        for x in range(7):
            for y in range(1, 8):
                try:
                    assert evaluate(expr, {"x": x, "y": y}) % number == 0
                except ZeroDivisionError:
                    continue


def test_control_some_are_multiples_and_most_are_not():
    assert is_multiple(parse_expr("4 * (x // 8) * 2 + min(8, 16 * y)"), 8)
    assert not is_multiple(parse_expr("4 * (x // 8) + 8"), 8)
    assert not is_multiple(parse_expr("x"), 2)


def test_a_store_is_asked_like_a_load():
    kernel, param, load = load_of("X: f16[M, K]", "BM, BN", "X[t +: BM, u +: BN]")
    found = [m.need for m in misfits(Store(load.source, "x"), param, meanings(kernel))]
    assert found == [Need.START]
