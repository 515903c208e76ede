"""Index arithmetic on sympy: one factory of symbols, integer division with floor semantics,
evaluation.

sympy's own `//`, `Mod`, `Min` and `Max` re-associate, reorder or print as floating point, so the IR
has functions of its own. Values are integers throughout; `FloorDiv` and `Mod` round to minus
infinity and want a positive divisor.
"""

import operator
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import prod
from typing import Any, ClassVar, TypeAlias, cast

import sympy

Expr: TypeAlias = sympy.Expr
IntLike: TypeAlias = sympy.Expr | int

RESERVED = frozenset({"min", "max", "ceildiv"})


@cache
def sym(name: str) -> sympy.Symbol:
    """The symbol of that name: integer and nonnegative. The only way to make one, so that equal
    names are equal."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


class _IndexFunction(sympy.Function):
    """Base of the integer functions; `of` is the function on Python ints."""

    is_integer = True
    is_real = True
    is_commutative = True  # among the factors of a product; its own arguments keep their order
    of: ClassVar[Callable[..., int]]

    @classmethod
    def eval(cls, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        divides_by_zero = cls.nargs == {2} and args[1] == 0
        if all(a.is_Integer for a in args) and not divides_by_zero:
            return sympy.Integer(cls.of(*map(int, args)))
        return cls.simplified(*args)

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        """A simpler equal expression, or None. Little is done, so that dumps keep the names."""
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(a.is_nonnegative for a in operands(self)) else None


class FloorDiv(_IndexFunction):
    """`a // b`, rounding to minus infinity."""

    nargs = 2
    of = operator.floordiv

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        return args[0] if args[1] == 1 else None


class Mod(_IndexFunction):
    """`a % b`, with the sign of b."""

    nargs = 2
    of = operator.mod

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        return sympy.Integer(0) if args[1] == 1 else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if operands(self)[1].is_nonnegative else None


class CeilDiv(_IndexFunction):
    """`ceildiv(a, b)`: a / b, rounding to plus infinity."""

    nargs = 2

    @staticmethod
    def of(a: int, b: int) -> int:
        return -(-a // b)

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        return args[0] if args[1] == 1 else None


class Min(_IndexFunction):
    """`min(a, b, ...)`, arguments kept in the order written."""

    @staticmethod
    def of(*values: int) -> int:
        return min(values)

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        return args[0] if len(args) == 1 else None


class Max(_IndexFunction):
    """`max(a, b, ...)`, arguments kept in the order written."""

    @staticmethod
    def of(*values: int) -> int:
        return max(values)

    @classmethod
    def simplified(cls, *args: Any) -> Any:
        return args[0] if len(args) == 1 else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(a.is_nonnegative for a in operands(self)) else None


def to_expr(value: IntLike | str) -> Expr:
    """An int, a symbol's name or an expression, as an expression. Names are never evaluated as
    code."""
    if isinstance(value, str):
        return sym(value)
    return sympy.Integer(value) if isinstance(value, int) else value


def _call(function: Any, *args: IntLike) -> Expr:
    return function(*map(to_expr, args))


def ceildiv(a: IntLike, b: IntLike) -> Expr:
    return _call(CeilDiv, a, b)


def floordiv(a: IntLike, b: IntLike) -> Expr:
    return _call(FloorDiv, a, b)


def mod(a: IntLike, b: IntLike) -> Expr:
    return _call(Mod, a, b)


def imin(*args: IntLike) -> Expr:
    return _call(Min, *args)


def imax(*args: IntLike) -> Expr:
    return _call(Max, *args)


def count(extent: Expr) -> Expr:
    """How many iterations or blocks there are: none where the extent is negative."""
    return extent if extent.is_nonnegative else imax(0, extent)


def operands(expr: sympy.Basic) -> tuple[Expr, ...]:
    """The direct parts of an expression; every part of an index expression is one."""
    return expr.args  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=1 << 16)
def names_of(expr: Expr) -> frozenset[str]:
    """The names of the symbols that occur in `expr`."""
    return frozenset(str(s) for s in expr.free_symbols)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each named symbol replaced, all at once."""
    hit: Any = {sym(n): v for n, v in values.items() if sym(n) in expr.free_symbols}
    return cast(Expr, expr.xreplace(hit)) if hit else expr


_SYMPY_OWN: dict[Any, Callable[..., int]] = {
    sympy.Add: lambda *terms: sum(terms),
    sympy.Mul: lambda *factors: prod(factors),
    sympy.Pow: operator.pow,
}


def evaluate(expr: Expr, env: Mapping[str, int]) -> int:
    """The integer value of `expr`; KeyError names a symbol that `env` lacks, ZeroDivisionError a
    zero divisor."""
    if expr.is_Integer:
        return int(expr)
    if isinstance(expr, sympy.Symbol):
        return env[expr.name]
    function = expr.of if isinstance(expr, _IndexFunction) else _SYMPY_OWN[expr.func]
    return function(*(evaluate(a, env) for a in operands(expr)))


def try_evaluate(expr: Expr, env: Mapping[str, int]) -> int | None:
    """`evaluate`, or None where a symbol has no value or a divisor is zero."""
    try:
        return evaluate(expr, env)
    except (KeyError, ZeroDivisionError):
        return None
