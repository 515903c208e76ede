"""Bounds of an index expression, from what is known of each scalar in it.

Sound, not complete: what cannot be shown is infinite. Interval arithmetic comes first; where
it is too weak, `upper` and `lower` also try rewritten forms of the expression:

- definitions put in: `tile * P + k1`, where k1 = min(it_end - tile * P, P), is
  min(it_end, tile * P + P), which cannot be negative;
- symbolic bounds put in: as unit <= UNITS - 1, `(unit + 1) * TOTAL // UNITS` is at most
  UNITS * TOTAL // UNITS, which is TOTAL.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

import sympy

from loopir.intervals import UNKNOWN, Bound, Interval, maximum, minimum
from loopir.symbols import (
    CeilDiv,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    floordiv,
    imax,
    imin,
    names_of,
    substitute,
    to_expr,
)

_SEARCH_DEPTH = 3
_MOST_CHOICES = 4
_MOST_TERMS = 64


@dataclass(frozen=True)
class Fact:
    """What is known of one scalar: numeric bounds, an inclusive symbolic upper bound (`limit`) and
    the expression that it equals. The last two name no scalar that a `set` changes."""

    interval: Interval = UNKNOWN
    limit: Expr | None = None
    value: Expr | None = None


Env: TypeAlias = Mapping[str, Fact]


def interval(expr: Expr, env: Env) -> Interval:
    """Plain interval arithmetic; a symbol that `env` lacks can have any value."""
    if expr.is_Integer:
        return Interval(int(expr), int(expr))
    if isinstance(expr, sympy.Symbol):
        return env[expr.name].interval if expr.name in env else UNKNOWN
    return _combined(expr, [interval(a, env) for a in _arguments(expr)])


def _arguments(expr: Expr) -> tuple[Expr, ...]:
    return expr.args  # pyright: ignore[reportReturnType]


def _combined(expr: Expr, parts: list[Interval]) -> Interval:
    match expr:
        case sympy.Add():
            return sum(parts, start=Interval(0, 0))
        case sympy.Mul():
            product = Interval(1, 1)
            for part in parts:
                product *= part
            return product
        case FloorDiv():
            return parts[0] // _divisor(parts[1])
        case CeilDiv():
            return parts[0].ceildiv(_divisor(parts[1]))
        case Mod():
            return parts[0] % _divisor(parts[1])
        case Min():
            return minimum(parts)
        case Max():
            return maximum(parts)
        case sympy.Pow() if _is_power(expr):
            return parts[0] ** int(_arguments(expr)[1])
    return UNKNOWN


def _divisor(known: Interval) -> Interval:
    """Nothing divides by zero: a divisor that is not negative is positive where it divides. One
    that is zero stands where nothing runs, and tells nothing."""
    if known.lo >= 0 and known.hi < 1:
        return UNKNOWN
    return known.meet(Interval(1)) if known.lo == 0 else known


def bounds(expr: Expr, env: Env) -> Interval:
    """The interval of `expr`; forms are searched only where plain arithmetic is too weak."""
    plain = interval(expr, env)
    lo = plain.lo if plain.lo >= 0 else lower(expr, env)
    hi = plain.hi if plain.hi < inf and not _has_open_remainder(expr) else upper(expr, env)
    return Interval(lo, hi)


def _has_open_remainder(expr: Expr) -> bool:
    """Whether a remainder may depend on another term, as in start + x % min(end - start, 8)."""
    return expr.is_Add and any(not m.args[1].is_Integer for m in expr.atoms(Mod))


def upper(expr: Expr, env: Env) -> Bound:
    """A number that `expr` never exceeds; inf if none is found."""
    return min(interval(form, env).hi for form in _forms(expr, env))


def lower(expr: Expr, env: Env) -> Bound:
    """A number that `expr` never falls below; -inf if none is found."""
    return max(interval(expr, env).lo, -upper(-expr, env))


def is_at_most(expr: Expr, bound: int, env: Env) -> bool:
    """Whether `expr <= bound` is certain."""
    return any(interval(form, env).hi <= bound for form in _forms(expr, env))


def is_nonnegative(expr: Expr, env: Env) -> bool:
    """Whether `expr >= 0` is certain: a division that truncates then equals the floor division."""
    return interval(expr, env).lo >= 0 or is_at_most(-expr, 0, env)


# --- forms: expressions that are nowhere smaller than the one asked about


def _forms(expr: Expr, env: Env) -> Iterator[Expr]:
    """`expr` and rewritten forms of it, the cheapest first."""
    yield expr
    frontier = [_numbered(expr, env)]
    seen = set(frontier)
    for _ in range(_SEARCH_DEPTH):
        yield from (_spread(form) for form in frontier)
        frontier = [n for form in frontier for n in _next_forms(form, env) if n not in seen]
        seen.update(frontier)
    yield from (_spread(form) for form in frontier)


def _numbered(expr: Expr, env: Env) -> Expr:
    """`expr` with the numbers of its constant scalars."""
    known = {n: env[n].interval for n in names_of(expr) if n in env}
    return substitute(expr, {n: to_expr(int(i.lo)) for n, i in known.items() if i.is_constant})


def _next_forms(expr: Expr, env: Env) -> tuple[Expr, ...]:
    values = {n: env[n].value for n in names_of(expr) if n in env}
    inlined = substitute(expr, {n: v for n, v in values.items() if v is not None})
    forms = (_numbered(form, env) for form in (_raised(expr, env), inlined))
    return tuple(dict.fromkeys(_cancel(_expand(form)) for form in forms))


def _expand(expr: Expr) -> Expr:
    """Products of sums multiplied out, unless there would be very many terms."""
    return sympy.expand(expr) if _terms_in(expr) <= _MOST_TERMS else expr


def _terms_in(expr: Expr) -> int:
    """The number of terms of `expr` multiplied out, those of its functions' arguments included."""
    if not expr.args:
        return 1
    counts = [_terms_in(a) for a in _arguments(expr)]
    if expr.is_Mul:
        return prod(counts)
    return counts[0] ** int(_arguments(expr)[1]) if _is_power(expr) else sum(counts)


def _is_power(expr: Expr) -> bool:
    exponent = _arguments(expr)[1] if expr.is_Pow else sympy.Integer(-1)
    return exponent.is_Integer and 0 <= int(exponent) <= _MOST_TERMS


def _raised(expr: Expr, env: Env) -> Expr:
    """`expr` with scalars and remainders put at symbolic bounds where that cannot lower it."""
    parts = _arguments(expr)
    match expr:
        case sympy.Symbol():
            limit = env[expr.name].limit if expr.name in env else None
            return expr if limit is None else limit
        case sympy.Add() | Min() | Max():
            return _rebuilt(expr, *(_raised(a, env) for a in parts))
        case sympy.Mul() if (whole := _raised_multiple(expr, env)) is not None:
            return whole
        case sympy.Mul() if all(interval(a, env).lo >= 0 for a in parts):
            return _rebuilt(expr, *(_raised(a, env) for a in parts))
        case FloorDiv() | CeilDiv() if interval(parts[1], env).lo >= 0:
            return _rebuilt(expr, _raised(parts[0], env), parts[1])
        case Mod() if interval(parts[1], env).lo >= 0 and not parts[1].is_Integer:
            return parts[1] - 1
    return expr


def _raised_multiple(expr: Expr, env: Env) -> Expr | None:
    """Of a product with a positive number: `d * ceildiv(x, d)` as `x + d - 1`, `n * max(a, b)` as
    the maximum of products. None of another one."""
    number, rest = expr.as_coeff_Mul()
    match rest:
        case CeilDiv() if number == _arguments(rest)[1]:
            return _raised(_arguments(rest)[0], env) + number - 1
        case Min() | Max() if number > 0:
            return _rebuilt(rest, *(_raised(number * a, env) for a in _arguments(rest)))
    return None


def _rebuilt(expr: Expr, *parts: Expr) -> Expr:
    return expr.func(*parts)  # pyright: ignore[reportReturnType]


def _spread(expr: Expr) -> Expr:
    """`x + min(a, b)` as `min(x + a, x + b)`, and the like for max and for negative factors."""
    expr = _cancel(_expand(expr))
    if not expr.is_Add or len(expr.atoms(Min, Max)) > _MOST_CHOICES:
        return expr
    for term in _arguments(expr):
        factor, choice = term.as_coeff_Mul()
        if isinstance(choice, Min | Max):
            cases = [_spread(expr - term + factor * a) for a in _arguments(choice)]
            return imin(*cases) if isinstance(choice, Min) == (factor > 0) else imax(*cases)
    return expr


def _cancel(expr: Expr) -> Expr:
    """Quotients without the multiples of their divisor, and `d * (a // d) + a % d` as `a`."""
    if not expr.args:
        return expr
    expr = _rebuilt(expr, *map(_cancel, _arguments(expr)))
    if isinstance(expr, FloorDiv) and not expr.args[1].is_zero:
        return _divided(*_arguments(expr))
    return _rejoined(expr) if expr.is_Add else expr


def _divided(numerator: Expr, divisor: Expr) -> Expr:
    """`(p * d + r) // d` as `p + r // d`."""
    shares = [(term, term / divisor) for term in sympy.Add.make_args(numerator)]
    quotient = sympy.Add(*(share for _, share in shares if share.is_integer))
    rest = sympy.Add(*(term for term, share in shares if not share.is_integer))
    return quotient + floordiv(rest, divisor)


def _rejoined(total: Expr) -> Expr:
    terms = dict.fromkeys(_arguments(total))
    for term in terms:
        if isinstance(term, Mod):
            value, divisor = _arguments(term)
            whole = divisor * floordiv(value, divisor)
            if whole in terms:
                return _expand(total - term - whole + value)
    return total
