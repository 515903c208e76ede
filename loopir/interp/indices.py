"""Index expressions and conditions, evaluated over Python ints and numpy arrays alike.

Scalars are exact Python integers, the variables of a tile's axes are int64 arrays.
"""

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
import sympy

from loopir.interp.errors import DivisorError
from loopir.nodes import AllOf, AnyOf, Cmp, Cond, Flag, Negate
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod

Env: TypeAlias = Mapping[str, Any]
Evaluator: TypeAlias = Callable[[Env], Any]

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@lru_cache(maxsize=16384)
def compiled(expr: Expr) -> Evaluator:
    """`expr` as a function of the values of its symbols. DivisorError: a divisor below one."""
    if expr.is_Integer:
        value = int(expr)
        return lambda env: value
    if isinstance(expr, sympy.Symbol):
        return operator.itemgetter(expr.name)
    combine, parts = _COMBINE[expr.func], [compiled(a) for a in expr.args]
    if len(parts) == 2:
        left, right = parts
        return lambda env: combine(left(env), right(env))
    return lambda env: reduce(combine, [part(env) for part in parts])


def value(expr: Expr, env: Env) -> Any:
    return compiled(expr)(env)


def holds(cond: Cond, env: Env) -> bool:
    """Whether a condition is true of scalars and flags."""
    match cond:
        case Cmp(op, lhs, rhs):
            return _COMPARE[op](value(lhs, env), value(rhs, env))
        case Flag(name):
            return env[name]
        case AllOf(terms):
            return all(holds(t, env) for t in terms)
        case AnyOf(terms):
            return any(holds(t, env) for t in terms)
        case Negate(term):
            return not holds(term, env)


def _floordiv(a, b):
    return a // _divisor(b)


def _mod(a, b):
    return a % _divisor(b)


def _ceildiv(a, b):
    return -(-a // _divisor(b))


def _divisor(b):
    least = b.min() if isinstance(b, np.ndarray) else b
    if least < 1:
        raise DivisorError(f"a divisor is {least}; it must be positive")
    return b


def _min(a, b):
    is_array = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.minimum(a, b) if is_array else min(a, b)


def _max(a, b):
    is_array = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.maximum(a, b) if is_array else max(a, b)


_COMBINE: dict[Any, Callable[[Any, Any], Any]] = {
    FloorDiv: _floordiv,
    Mod: _mod,
    CeilDiv: _ceildiv,
    Min: _min,
    Max: _max,
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Pow: operator.pow,
}
