"""Arithmetic on whole tiles.

f32 and f64 operations are IEEE; functions such as `exp`, and a `sum` or `prod` along an axis, are
computed in f64 and rounded once. max and min propagate NaN. Integers wrap.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from loopir.interp.formats import STORAGE, number, rounded, tf32
from loopir.nodes import Apply, AxisReduce, Cast, Ewise_, Expand, Literal, Mask, Part, TileRef
from loopir.symbols import Expr
from loopir.tile_types import Tiles, ewise_dtype
from loopir.types import DType, Precision, ReduceOp

_NATIVE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "abs": np.abs,
}
_erf = np.vectorize(math.erf, otypes=[np.float64])
_IN_F64: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": _erf,
}


def ewise(
    expr: Ewise_,
    expected: DType,
    types: Tiles,
    tile: Callable[[str], np.ndarray],
    scalar: Callable[[Expr], int],
) -> np.ndarray:
    """The value of `expr`; numbers take the dtype of what they meet, or `expected`. `tile` and
    `scalar` give the values of names and index expressions."""

    def of(expr: Ewise_, expected: DType) -> np.ndarray:
        dtype = ewise_dtype(expr, types) or expected
        match expr:
            case TileRef(name):
                return tile(name)
            case Literal(value):
                return number(value, dtype)
            case Cast(_, arg):
                return rounded(of(arg, dtype), dtype)
            case Expand(arg, axis):
                return np.expand_dims(of(arg, dtype), axis)
            case AxisReduce(op, arg, axis):
                return _along_axis(op, of(arg, dtype), axis, dtype)
            case Mask(arg, axis, start, limit, otherwise):
                values = of(arg, dtype)
                keeps = scalar(start) + np.arange(values.shape[axis]) < scalar(limit)
                placed = keeps.reshape([-1 if d == axis else 1 for d in range(values.ndim)])
                return np.where(placed, values, number(otherwise.value, dtype))
            case Part(arg, axis, index, count):
                return np.split(of(arg, dtype), count, axis)[index]
            case Apply(fn, args):
                return _applied(fn, [of(arg, dtype) for arg in args], dtype)

    return of(expr, expected)


def _applied(fn: str, args: list[np.ndarray], dtype: DType) -> np.ndarray:
    if fn in _NATIVE:
        return _NATIVE[fn](*args)
    return rounded(_IN_F64[fn](args[0].astype(np.float64)), dtype)


def _along_axis(op: ReduceOp, values: np.ndarray, axis: int, dtype: DType) -> np.ndarray:
    if op in (ReduceOp.ADD, ReduceOp.MUL) and dtype.is_float:
        return rounded(_COMBINE[op].reduce(values, axis, dtype=np.float64), dtype)
    return _COMBINE[op].reduce(values, axis, dtype=values.dtype)


def dot(
    acc: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: DType, precision: Precision
) -> np.ndarray:
    """acc[m, n] + a[m, k] @ b[k, n] in the accumulator's `dtype`.

    Floats: products and their sum over k are computed in f64 (products are exact but for f64
    operands), added to the accumulator in f64 and rounded once. Integers: exact, then wrapped.
    """
    if dtype.is_int:
        total = acc.astype(np.int64) + np.matmul(a.astype(np.int64), b.astype(np.int64))
        return total.astype(STORAGE[dtype])
    return rounded(acc.astype(np.float64) + _product(a, b, precision), dtype)


def _product(a: np.ndarray, b: np.ndarray, precision: Precision) -> np.ndarray:
    """TF32 rounds the operands to 11 significant bits; TF32X3 splits each in two such parts, and
    leaves out the product of the small ones."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if precision is Precision.IEEE:
        return np.matmul(a, b)
    a_high, b_high = tf32(a), tf32(b)
    high = np.matmul(a_high, b_high)
    if precision is Precision.TF32:
        return high
    a_low, b_low = tf32(a - a_high), tf32(b - b_high)
    return high + (np.matmul(a_high, b_low) + np.matmul(a_low, b_high))


_COMBINE: Mapping[ReduceOp, np.ufunc] = {
    ReduceOp.ADD: np.add,
    ReduceOp.MUL: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.AND: np.bitwise_and,
    ReduceOp.OR: np.bitwise_or,
}


def combine(op: ReduceOp, old: np.ndarray, new: np.ndarray, dtype: DType) -> np.ndarray:
    """`op(old, new)` in `dtype`, rounded once: what an atomic leaves in memory."""
    if dtype.computes:
        return _COMBINE[op](old, new)
    return rounded(_COMBINE[op](old.astype(np.float64), new.astype(np.float64)), dtype)
