"""Index arithmetic on sympy: one factory of symbols, integer division with floor semantics, evaluation.

sympy's own `//`, `Mod`, `Min` and `Max` re-associate, reorder or print as floating point, so the IR has functions of
its own. Values are integers throughout; `FloorDiv` and `Mod` round to minus infinity and want a positive divisor.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import TypeAlias

import sympy

Expr: TypeAlias = sympy.Expr
IntLike: TypeAlias = sympy.Expr | int

RESERVED = frozenset({"min", "max", "ceildiv"})


@lru_cache(maxsize=None)
def sym(name: str) -> sympy.Symbol:
    """The symbol of that name: integer and nonnegative. The only way to make one, so that equal names are equal."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


class _IndexFunction(sympy.Function):
    """Base of the integer functions: real, integer, and commutative in sympy's sense (not in their arguments)."""

    is_integer = True
    is_real = True
    is_commutative = True


class FloorDiv(_IndexFunction):
    """`a // b`, rounding to minus infinity."""

    nargs = 2

    @classmethod
    def eval(cls, a, b):
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) // int(b))

    def _eval_is_nonnegative(self):
        return _all_nonnegative(self.args)


class Mod(_IndexFunction):
    """`a % b`, with the sign of b."""

    nargs = 2

    @classmethod
    def eval(cls, a, b):
        if b == 1:
            return sympy.Integer(0)
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) % int(b))

    def _eval_is_nonnegative(self):
        return True if self.args[1].is_nonnegative else None


class CeilDiv(_IndexFunction):
    """`ceildiv(a, b)`: a / b, rounding to plus infinity."""

    nargs = 2

    @classmethod
    def eval(cls, a, b):
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(-(-int(a) // int(b)))

    def _eval_is_nonnegative(self):
        return _all_nonnegative(self.args)


class Min(_IndexFunction):
    """`min(a, b, ...)`, arguments kept in the order written."""

    @classmethod
    def eval(cls, *args):
        if len(args) == 1:
            return args[0]
        if all(a.is_Integer for a in args):
            return sympy.Integer(min(int(a) for a in args))

    def _eval_is_nonnegative(self):
        return _all_nonnegative(self.args)


class Max(_IndexFunction):
    """`max(a, b, ...)`, arguments kept in the order written."""

    @classmethod
    def eval(cls, *args):
        if len(args) == 1:
            return args[0]
        if all(a.is_Integer for a in args):
            return sympy.Integer(max(int(a) for a in args))

    def _eval_is_nonnegative(self):
        return True if any(a.is_nonnegative for a in self.args) else None


def _all_nonnegative(args: Iterable[Expr]) -> bool | None:
    return True if all(a.is_nonnegative for a in args) else None


def to_expr(value: IntLike | str) -> Expr:
    """An int, a symbol's name or an expression, as an expression. Names are never evaluated as code."""
    if isinstance(value, str):
        return sym(value)
    return sympy.Integer(value) if isinstance(value, int) else value


def ceildiv(a: IntLike, b: IntLike) -> Expr:
    return CeilDiv(to_expr(a), to_expr(b))


def floordiv(a: IntLike, b: IntLike) -> Expr:
    return FloorDiv(to_expr(a), to_expr(b))


def mod(a: IntLike, b: IntLike) -> Expr:
    return Mod(to_expr(a), to_expr(b))


def imin(*args: IntLike) -> Expr:
    return Min(*map(to_expr, args))


def imax(*args: IntLike) -> Expr:
    return Max(*map(to_expr, args))


def names_of(expr: Expr) -> frozenset[str]:
    """The names of the symbols that occur in `expr`."""
    return frozenset(s.name for s in expr.free_symbols)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each named symbol replaced, all at once."""
    hit = {sym(n): v for n, v in values.items() if sym(n) in expr.free_symbols}
    return expr.xreplace(hit) if hit else expr


_EVALUATE = {
    FloorDiv: lambda a, b: a // b,
    Mod: lambda a, b: a % b,
    CeilDiv: lambda a, b: -(-a // b),
    Min: min,
    Max: max,
    sympy.Add: lambda *a: sum(a),
    sympy.Mul: lambda *a: prod(a),
    sympy.Pow: lambda a, b: a**b,
}


def evaluate(expr: Expr, env: Mapping[str, int]) -> int:
    """The integer value of `expr`; KeyError names a symbol that `env` lacks, ZeroDivisionError a zero divisor."""
    if expr.is_Integer:
        return int(expr)
    if isinstance(expr, sympy.Symbol):
        return env[expr.name]
    return _EVALUATE[expr.func](*(evaluate(a, env) for a in expr.args))


def try_evaluate(expr: Expr, env: Mapping[str, int]) -> int | None:
    """`evaluate`, or None where a symbol has no value or a divisor is zero."""
    try:
        return evaluate(expr, env)
    except (KeyError, ZeroDivisionError):
        return None
