"""Types of element-wise expressions: shapes against numpy's rule, dtypes, numbers."""

from itertools import product
from math import inf, nan

import numpy as np
import pytest

from loopir.nodes import (
    EWISE_FUNCTIONS,
    Apply,
    AxisReduce,
    Cast,
    Expand,
    Literal,
    Mask,
    Part,
    TileRef,
)
from loopir.parser import parse
from loopir.symbols import sym
from loopir.tile_types import (
    DOT_ACCUMULATORS,
    TileType,
    dtype_mistakes,
    ewise_dtype,
    ewise_shape,
    is_defined,
    number_mistake,
    tile_types,
    typed_nodes,
)
from loopir.types import DType, Kind, ReduceOp
from tests.support.texts import GEMM, edited

TILES = {
    "m": TileType((4, 8), DType.F32),
    "row": TileType((8,), DType.F32),
    "h": TileType((4, 8), DType.F16),
    "i": TileType((4, 8), DType.I32),
    "flag": TileType((4, 8), DType.BOOL),
}


def add(*args):
    return Apply("add", args)


def test_tiles_have_the_numbers_of_their_constant_shapes():
    types = tile_types(parse(GEMM).kernels[0])
    assert {n: str(t) for n, t in types.items()} == {
        "acc": "f32[32, 32]",
        "a": "f16[32, 16]",
        "b": "f16[16, 32]",
    }


@pytest.mark.parametrize("size", ["Q", "BK - 16", "BK - 17", "BK // (BK - 16)"])
def test_a_tile_of_no_constant_shape_has_no_type(size):
    text = edited(GEMM, ("alloc a: shared f16[BM, BK]", f"alloc a: shared f16[BM, {size}]"))
    assert set(tile_types(parse(text).kernels[0])) == {"acc", "b"}


def test_shapes_of_one_rank_broadcast_as_in_numpy():
    sizes = (1, 2, 3)
    shapes = [*product(sizes), *product(sizes, sizes)]
    for a, b in product(shapes, shapes):
        tiles = {"a": TileType(a, DType.F32), "b": TileType(b, DType.F32)}
        mistakes: list[str] = []
        found = ewise_shape(add(TileRef("a"), TileRef("b")), tiles, mistakes)
        try:
            wanted = np.broadcast_shapes(a, b) if len(a) == len(b) else None
        except ValueError:
            wanted = None
        assert found == wanted
        assert len(mistakes) == (wanted is None)


@pytest.mark.parametrize("axis", range(-1, 4))
def test_an_axis_is_made_and_removed_where_it_can_be(axis):
    array = np.zeros((4, 8))
    expanded = ewise_shape(Expand(TileRef("m"), axis), TILES)
    assert expanded == (np.expand_dims(array, axis).shape if 0 <= axis <= 2 else None)
    reduced = ewise_shape(AxisReduce(ReduceOp.ADD, TileRef("m"), axis), TILES)
    assert reduced == (array.sum(axis).shape if 0 <= axis <= 1 else None)
    masked = ewise_shape(Mask(TileRef("m"), axis, sym("k"), sym("K"), Literal(0)), TILES)
    assert masked == (array.shape if 0 <= axis <= 1 else None)
    part = ewise_shape(Part(TileRef("m"), axis, 1, 2), TILES)
    assert part == (np.split(array, 2, axis)[1].shape if 0 <= axis <= 1 else None)


@pytest.mark.parametrize("size", [1, 2, 6, 8])
@pytest.mark.parametrize("count", range(-1, 10))
def test_there_are_parts_where_a_power_of_two_divides_the_axis(count: int, size: int):
    tiles = {"t": TileType((3, size), DType.F32)}
    exist = count in (1, 2, 4, 8) and size % count == 0
    for index in range(-1, 10):
        mistakes: list[str] = []
        found = ewise_shape(Part(TileRef("t"), 1, index, count), tiles, mistakes)
        assert found == ((3, size // count) if exist and 0 <= index < count else None)
        assert len(mistakes) == (found is None)


def test_a_number_meets_any_shape():
    assert ewise_shape(Literal(2), TILES) == ()
    assert ewise_shape(add(Literal(2), TileRef("m")), TILES) == (4, 8)
    assert ewise_shape(add(TileRef("row"), Literal(2)), TILES) == (8,)


def test_an_unknown_tile_is_no_second_mistake():
    mistakes: list[str] = []
    assert ewise_shape(add(TileRef("nothing"), TileRef("m")), TILES, mistakes) is None
    assert mistakes == []
    assert ewise_dtype(TileRef("nothing"), TILES) is None


def test_numbers_take_the_dtype_of_what_they_meet():
    expr = add(Literal(1), Cast(DType.F32, add(TileRef("i"), Literal(2))))
    dtypes = [(type(node), dtype) for node, dtype in typed_nodes(expr, DType.F64, TILES)]
    assert dtypes == [
        (Apply, DType.F32),
        (Literal, DType.F32),
        (Cast, DType.F32),
        (Apply, DType.I32),
        (TileRef, DType.I32),
        (Literal, DType.I32),
    ]


def test_bare_numbers_take_the_expected_dtype_and_a_cast_number_its_own():
    (_, whole), *_ = typed_nodes(add(Literal(1), Literal(2)), DType.I64, TILES)
    assert whole is DType.I64
    *_, (_, inner) = typed_nodes(Cast(DType.BF16, Literal(1)), DType.I64, TILES)
    assert inner is DType.BF16


def test_operands_of_two_dtypes_are_a_mistake_wherever_they_stand():
    for expr in (add(TileRef("m"), TileRef("i")), add(Literal(1), add(TileRef("i"), TileRef("m")))):
        assert any("f32, i32" in m for m in dtype_mistakes(expr, DType.F32, TILES))
    fine = add(TileRef("m"), Cast(DType.F32, TileRef("i")))
    assert list(dtype_mistakes(fine, DType.F32, TILES)) == []


@pytest.mark.parametrize("fn", EWISE_FUNCTIONS)
def test_functions_are_defined_on_what_computes(fn):
    defined = {d for d in DType if is_defined(fn, d)}
    ints = {DType.I8, DType.I16, DType.I32, DType.I64}
    floats = {DType.F32, DType.F64}
    if fn in ("and", "or"):
        assert defined == {*ints, DType.BOOL}
    elif fn in ("add", "sub", "mul", "neg", "max", "min", "abs"):
        assert defined == ints | floats
    else:
        assert defined == floats


def test_a_reduction_along_an_axis_computes():
    of_half = AxisReduce(ReduceOp.MAX, TileRef("h"), 0)
    assert list(dtype_mistakes(of_half, DType.F16, TILES))
    of_flags = AxisReduce(ReduceOp.ADD, TileRef("flag"), 0)
    assert list(dtype_mistakes(of_flags, DType.BOOL, TILES))
    of_ints = AxisReduce(ReduceOp.ADD, TileRef("i"), 0)
    assert list(dtype_mistakes(of_ints, DType.I32, TILES)) == []


def test_a_tile_of_any_dtype_is_copied_and_cast():
    for dtype, wanted in product(DType, DType):
        tiles = {"x": TileType((4,), dtype)}
        assert list(dtype_mistakes(TileRef("x"), dtype, tiles)) == []
        assert list(dtype_mistakes(Cast(wanted, TileRef("x")), wanted, tiles)) == []


NUMPY_FLOATS = {DType.F16: np.float16, DType.F32: np.float32, DType.F64: np.float64}


@pytest.mark.parametrize("dtype", NUMPY_FLOATS)
def test_the_largest_float_fits_and_the_next_does_not(dtype):
    largest = int(np.finfo(NUMPY_FLOATS[dtype]).max)
    for value in (largest, -largest, 0.1, inf, -inf, nan):
        assert number_mistake(value, dtype) == ""
    assert number_mistake(2 * largest, dtype)
    assert number_mistake(-2 * largest, dtype)


def test_eight_bit_floats_have_their_own_limits():
    assert number_mistake(448, DType.F8E4M3) == ""
    assert number_mistake(449, DType.F8E4M3)
    assert number_mistake(inf, DType.F8E4M3)
    assert number_mistake(57344, DType.F8E5M2) == ""
    assert number_mistake(-57345, DType.F8E5M2)
    assert number_mistake(-inf, DType.F8E5M2) == ""
    assert number_mistake(3.3e38, DType.BF16) == ""
    assert number_mistake(3.4e38, DType.BF16)


@pytest.mark.parametrize("dtype", [d for d in DType if d.kind is Kind.INT])
def test_an_integer_has_the_range_of_its_bits(dtype):
    half = 2 ** (dtype.bits - 1)
    assert number_mistake(half - 1, dtype) == number_mistake(-half, dtype) == ""
    for value in (half, -half - 1, 0.0, inf, nan):
        assert number_mistake(value, dtype)


def test_a_bool_is_zero_or_one():
    assert number_mistake(0, DType.BOOL) == number_mistake(1, DType.BOOL) == ""
    assert number_mistake(2, DType.BOOL)
    assert number_mistake(1.0, DType.BOOL)


def test_accumulators_are_no_narrower_than_their_operands():
    for operand, accumulators in DOT_ACCUMULATORS.items():
        assert all(a.bits >= operand.bits and a.kind is operand.kind for a in accumulators)
