"""What an element-wise expression is where its operands are known numbers."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from loopir.nodes import Apply, Cast, Ewise_, Literal, TileRef
from loopir.types import DType

Number: TypeAlias = int | float

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
}
#: integers up to here are values of every type but bool, and so is what the functions make of two
_EXACT = 8


def fold(expr: Ewise_, known: Mapping[str, Number | None]) -> Number | None:
    """The value of `expr` where each tile has its `known` value; None if it has none that this
    module can tell. Only small integers and infinities are reckoned with, so that the number is the
    same in every type."""
    match expr:
        case TileRef(name):
            return known.get(name)
        case Literal(value):
            return value
        case Cast(dtype, arg):
            return _cast(fold(arg, known), dtype)
        case Apply(fn, args) if fn in _FUNCTIONS:
            values = [fold(a, known) for a in args]
            return _applied(fn, [v for v in values if v is not None and _is_exact(v)], len(args))
    return None


def _is_exact(value: Number) -> bool:
    return math.isinf(value) or (value == int(value) and abs(value) <= _EXACT)


def _applied(fn: str, values: list[Number], arity: int) -> Number | None:
    if len(values) < arity:
        return None
    result = _FUNCTIONS[fn](*values)
    return None if math.isnan(result) else result


def _cast(value: Number | None, dtype: DType) -> Number | None:
    """A value that the cast keeps."""
    if value is None or not _is_exact(value) or dtype is DType.BOOL:
        return None
    keeps = dtype.is_float and dtype is not DType.F8E4M3 if math.isinf(value) else True
    return value if keeps else None
