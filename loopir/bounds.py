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
from math import inf
from typing import TypeAlias

import sympy

from loopir.intervals import UNKNOWN, Bound, Interval, maximum, minimum
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, names_of, substitute, to_expr

_SEARCH_DEPTH = 3
_MOST_CHOICES = 4


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
    return _combined(expr, [interval(a, env) for a in expr.args])


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
            return parts[0] // parts[1]
        case CeilDiv():
            return parts[0].ceildiv(parts[1])
        case Mod():
            return parts[0] % parts[1]
        case Min():
            return minimum(parts)
        case Max():
            return maximum(parts)
        case sympy.Pow() if expr.exp.is_Integer and expr.exp >= 0:
            return parts[0] ** int(expr.exp)
    return UNKNOWN


def bounds(expr: Expr, env: Env) -> Interval:
    """The interval of `expr`; forms are searched only where plain arithmetic is too weak."""
    plain = interval(expr, env)
    lo = plain.lo if plain.lo >= 0 else lower(expr, env)
    hi = plain.hi if plain.hi < inf and not _has_open_remainder(expr) else upper(expr, env)
    return Interval(lo, hi)


def _has_open_remainder(expr: Expr) -> bool:
    """Whether a remainder depends on another term: `start + x % rows` with rows = min(end - start, 8)."""
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
    return substitute(expr, {n: to_expr(i.lo) for n, i in known.items() if i.is_constant})


def _next_forms(expr: Expr, env: Env) -> tuple[Expr, ...]:
    values = {n: env[n].value for n in names_of(expr) if n in env}
    inlined = substitute(expr, {n: v for n, v in values.items() if v is not None})
    forms = (_numbered(form, env) for form in (_raised(expr, env), inlined))
    return tuple(dict.fromkeys(_cancel(sympy.expand(form)) for form in forms))


def _raised(expr: Expr, env: Env) -> Expr:
    """`expr` with scalars and remainders put at symbolic bounds where that cannot lower it."""
    match expr:
        case sympy.Symbol():
            limit = env[expr.name].limit if expr.name in env else None
            return expr if limit is None else limit
        case sympy.Add() | Min() | Max():
            return expr.func(*(_raised(a, env) for a in expr.args))
        case sympy.Mul() if all(interval(a, env).lo >= 0 for a in expr.args):
            return expr.func(*(_raised(a, env) for a in expr.args))
        case FloorDiv() | CeilDiv() if interval(expr.args[1], env).lo >= 1:
            return expr.func(_raised(expr.args[0], env), expr.args[1])
        case Mod() if interval(expr.args[1], env).lo >= 1 and not expr.args[1].is_Integer:
            return expr.args[1] - 1
    return expr


def _spread(expr: Expr) -> Expr:
    """`x + min(a, b)` as `min(x + a, x + b)`, and the like for max and for negative factors."""
    expr = _cancel(sympy.expand(expr))
    if not expr.is_Add or len(expr.atoms(Min, Max)) > _MOST_CHOICES:
        return expr
    for term in expr.args:
        factor, choice = term.as_coeff_Mul()
        if isinstance(choice, Min | Max):
            rest = expr - term
            function = choice.func if factor > 0 else {Min: Max, Max: Min}[choice.func]
            return function(*(_spread(rest + factor * a) for a in choice.args))
    return expr


def _cancel(expr: Expr) -> Expr:
    """Quotients without the multiples of their divisor, and `d * (a // d) + a % d` as `a`."""
    if not expr.args:
        return expr
    expr = expr.func(*map(_cancel, expr.args))
    if isinstance(expr, FloorDiv) and not expr.args[1].is_zero:
        return _divided(*expr.args)
    return _rejoined(expr) if expr.is_Add else expr


def _divided(numerator: Expr, divisor: Expr) -> Expr:
    """`(p * d + r) // d` as `p + r // d`."""
    quotient, rest = sympy.Integer(0), sympy.Integer(0)
    for term in sympy.Add.make_args(numerator):
        share = term / divisor
        if share.is_integer:
            quotient += share
        else:
            rest += term
    return quotient + FloorDiv(rest, divisor)


def _rejoined(total: Expr) -> Expr:
    terms = set(total.args)
    for term in total.args:
        if isinstance(term, Mod):
            whole = term.args[1] * FloorDiv(*term.args)
            if whole in terms:
                return sympy.expand(total - term - whole + term.args[0])
    return total
