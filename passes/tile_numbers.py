"""Which scalar of a loop over tiles is the tile's number, one that no other turn has."""

from collections.abc import Iterator, Mapping

import sympy

from loopir.nodes import Cmp, For, Let, Set, Stmt, While
from loopir.symbols import Expr, FloorDiv, Max, Min, imax, imin, names_of, operands, substitute, sym
from loopir.walk import walk


def numbers(loop: Stmt) -> Iterator[str]:
    """Scalars that have another value in every turn of a loop.

    Shown of the variable of a `for`, and of a `while` that goes from a range's start, or its end,
    to the next multiple of a tile's panels. Trusted of the walk of k-aligned, whose tiles lie
    UNITS apart in whole waves and then fall one by one: it is known by its shape alone.
    """
    lets = {s.name: s.expr for s in _body(loop) if isinstance(s, Let) and isinstance(s.expr, Expr)}
    match loop:
        case For(iv, hi=hi):
            yield iv
            yield from (n for n, e in lets.items() if _rises_then_falls(e, sym(iv), hi))
        case While(Cmp("<", lo, hi), (*_, Set(name, after))) if _is_alone(loop, name, lo, hi):
            yield from (t for t in lets if _goes_on(lets, t, name, after, lo, hi))


def _body(loop: Stmt) -> tuple[Stmt, ...]:
    return loop.body if isinstance(loop, For | While) else ()


def _is_alone(loop: While, name: str, lo: Expr, hi: Expr) -> bool:
    """Whether `name` is one end of a range, is set once a turn, and the other end stays."""
    inside = [s for _, s in walk(loop.body)]
    return sym(name) in (lo, hi) and [s.name for s in inside if isinstance(s, Set)] == [name]


def _goes_on(
    lets: Mapping[str, Expr], tile: str, name: str, after: Expr, lo: Expr, hi: Expr
) -> bool:
    """Whether `name`, an end of lo .. hi, is moved `after` each turn past its tile."""
    at = sym(name)
    whole, panels = operands(lets[tile]) if isinstance(lets[tile], FloorDiv) else (at, at)
    start, other = sym(tile) * panels, {n: e for n, e in lets.items() if n != tile}
    if not names_of(panels).isdisjoint((*lets, name)):
        return False
    if at == lo:
        is_inside, past = whole == at, start + imin(hi - start, panels)
    else:
        is_inside, past = whole == at - 1, start + imax(lo - start, 0)
    return is_inside and sympy.expand(_resolved(after, other)) == sympy.expand(past)


def _resolved(expr: Expr, lets: Mapping[str, Expr]) -> Expr:
    """`expr` with the lets put in that it reads, and those that these read."""
    for _ in lets:
        expr = substitute(expr, lets)
    return expr


def _rises_then_falls(expr: Expr, turn: Expr, turns: Expr) -> bool:
    """`max(min(turn * UNITS + unit, .. top - turn, last), 0)`, in `top + 1 - ..` turns and more."""
    if not isinstance(expr, Max) or len(operands(expr)) != 2 or operands(expr)[1] != 0:
        return False
    inner = operands(expr)[0]
    bounds = operands(inner) if isinstance(inner, Min) else ()
    slopes = [sympy.expand(b).coeff(turn) for b in bounds]
    if len(bounds) not in (2, 3) or slopes[-2:] != [-1, 0]:
        return False
    is_rising = len(bounds) == 2 or bool(names_of(slopes[0])) or slopes[0].is_positive
    return is_rising and bool(names_of(bounds[-2] + turn) & names_of(turns))  # pyright: ignore[reportGeneralTypeIssues]
