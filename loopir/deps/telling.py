"""Which loop variables the element that an access touches tells: where it tells all, no two
iterations touch one element."""

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass

import sympy

from loopir.deps.digits import Constant, Digit, Ends, ascending, terms
from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, floordiv, mod, names_of, operands, sym


def untold(
    access: Access, variables: tuple[GridAxis, ...], constant: Constant, varying: Set[str]
) -> Iterator[str]:
    """Names of the tile axes and `variables` whose value cannot be told from the element; none
    means that no two (iteration, tile element) pairs touch one element.

    An index tells what it is a shift of, and the terms of a sum that are as the digits of a number:
    `g * 8 + n` with n below 8. A tile axis is told by an index, or by the pair `axis // w`,
    `axis % w` (each told in turn, or always 0). A variable is told likewise, or by a told tile axis
    that it starts apart (`digits`). A variable with one value needs no telling. `variables`: of
    grids and loops, each from 0, with the number of values it can have at most. `constant` gives
    compile-time values; `varying` are the scalars that a launch does not fix.
    """
    moving = {*varying, *(v.iv for v in variables), *(a.name for a in access.axes)}
    ends = Ends(access, variables, constant)
    values = {e for index in access.index for e in _told_by(flat(index), ends, moving)}
    told = _Told(values, {w for w in _widths(values) if not names_of(w) & moving}, ends)
    lost = [a for a in access.axes if not told.has(sym(a.name))]
    yield from (a.name for a in lost if constant(a.size) != 1)
    by_axes = {
        digit.iv
        for axis in access.axes
        if axis not in lost
        for digit in digits(axis, variables, constant, moving)
    }
    for v in variables:
        is_told = v.iv in by_axes or told.has(sym(v.iv))
        if not is_told and constant(v.extent) != 1:
            yield v.iv


def _widths(told: Collection[Expr]) -> set[Expr]:
    return {operands(e)[1] for t in told for e in t.atoms(FloorDiv, Mod)}


@dataclass(frozen=True)
class _Told:
    """Values that an element tells, and the divisors in them."""

    values: Set[Expr]
    widths: Set[Expr]
    ends: Ends

    def has(self, value: Expr, depth: int = 4) -> bool:
        """Whether the element tells `value`, by itself or by quotient and remainder."""
        if value in self.values or self.ends(value) == 1:
            return True
        return depth > 0 and any(
            mod(value, width) in self.values and self.has(flat(floordiv(value, width)), depth - 1)
            for width in self.widths
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


def _told_by(index: Expr, ends: Ends, moving: Set[str]) -> Iterator[Expr]:
    """`index`, and the terms that it tells."""
    yield index
    found = [Digit(value, step, ends(value)) for value, step in terms(index, moving).items()]
    yield from (d.value for d in ascending(found, ends.constant))


def digits(
    axis: TileAxis, variables: tuple[GridAxis, ...], constant: Constant, moving: Set[str]
) -> tuple[GridAxis, ...]:
    """The variables that start a tile axis apart, as digits of a number do: `w * 8 + ti * 32 +: 8`
    with w below 4. The least first. Each step of one is no smaller than the tile and all that the
    smaller ones can add; none if this is not shown, or if anything else moves the start."""
    named: dict[Expr, GridAxis] = {sym(v.iv): v for v in variables}
    steps = terms(axis.start, {*moving, *(v.iv for v in variables)})
    if not steps.keys() <= named.keys():
        return ()
    offset = Digit(sym(axis.name), sympy.Integer(1), axis.size)
    starts = (Digit(value, step, named[value].extent) for value, step in steps.items())
    found = ascending((offset, *starts), constant)
    return tuple(named[d.value] for d in found if d is not offset)
