"""Which loop variables the element that an access touches tells: where it tells all, no two
iterations touch one element."""

from collections.abc import Callable, Collection, Iterator, Set
from typing import TypeAlias

import sympy

from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, floordiv, mod, names_of, operands, sym

Constant: TypeAlias = Callable[[Expr], int | None]


def untold(
    access: Access, variables: tuple[GridAxis, ...], constant: Constant, varying: Set[str]
) -> Iterator[str]:
    """Names of the tile axes and `variables` whose value cannot be told from the element; none
    means that no two (iteration, tile element) pairs touch one element.

    A tile axis is told by an index `axis`, or by the pair `axis // w`, `axis % w` (each told in
    turn). A variable is told by an index that is the variable itself, or by a told tile axis that
    it starts apart (`digits`). A variable with one value needs no telling. `variables`: of grids
    and loops, each with the number of values it can have at most. `constant` gives compile-time
    values; `varying` are the scalars that a launch does not fix.
    """
    moving = {*varying, *(v.iv for v in variables), *(a.name for a in access.axes)}
    told = {e for index in access.index for e in _shifts(flat(index))}
    widths = {w for w in _widths(told) if not names_of(w) & moving}
    lost = [a for a in access.axes if not _is_told(sym(a.name), told, widths)]
    yield from (a.name for a in lost if constant(a.size) != 1)
    by_axes = {
        digit.iv
        for axis in access.axes
        if axis not in lost
        for digit in digits(axis, variables, constant, moving)
    }
    for v in variables:
        is_told = v.iv in by_axes or _is_told(sym(v.iv), told, widths)
        if not is_told and constant(v.extent) != 1:
            yield v.iv


def _shifts(index: Expr) -> Iterator[Expr]:
    """`index`, and `index` less its constant: a shift tells as much."""
    yield index
    constant, rest = index.as_coeff_Add()
    if constant != 0:
        yield rest


def _widths(told: Collection[Expr]) -> set[Expr]:
    return {operands(e)[1] for t in told for e in t.atoms(FloorDiv, Mod)}


def _is_told(value: Expr, told: Set[Expr], widths: Set[Expr], depth: int = 4) -> bool:
    if value in told:
        return True
    return depth > 0 and any(
        mod(value, width) in told
        and _is_told(flat(floordiv(value, width)), told, widths, depth - 1)
        for width in widths
    )


def flat(expr: Expr) -> Expr:
    """(a // b) // c as a // (b * c), so that both spellings are one expression."""
    if not expr.args:
        return expr
    expr = expr.func(*map(flat, operands(expr)))
    if not isinstance(expr, FloorDiv):
        return expr
    numerator, outer = operands(expr)
    if not isinstance(numerator, FloorDiv):
        return expr
    value, inner = operands(numerator)
    return floordiv(value, inner * outer)


def digits(
    axis: TileAxis, variables: tuple[GridAxis, ...], constant: Constant, moving: Set[str]
) -> tuple[GridAxis, ...]:
    """The variables that start a tile axis apart, as digits of a number do: `w * 8 + ti * 32 +: 8`
    with w below 4. The least first. Each step of one is no smaller than the tile and all that the
    smaller ones can add; none if this is not shown, or if anything else moves the start."""
    start = sympy.expand(axis.start)
    steps = {v: start.coeff(sym(v.iv)) for v in variables if sym(v.iv) in start.free_symbols}
    rest = sympy.expand(start - sum(step * sym(v.iv) for v, step in steps.items()))
    if names_of(rest) & moving:
        return ()
    if list(steps.values()) == [axis.size]:
        return tuple(steps)
    return _ascending({v: constant(step) for v, step in steps.items()}, axis, constant)


def _ascending(
    steps: dict[GridAxis, int | None], axis: TileAxis, constant: Constant
) -> tuple[GridAxis, ...]:
    known = {v: step for v, step in steps.items() if step is not None and step > 0}
    reach = constant(axis.size)
    found = tuple(sorted(known, key=known.__getitem__))
    if len(known) < len(steps) or reach is None:
        return ()
    for v in found:
        if reach is None or known[v] < reach:
            return ()
        extent = constant(v.extent)
        reach = None if extent is None else reach + known[v] * max(0, extent - 1)
    return found
