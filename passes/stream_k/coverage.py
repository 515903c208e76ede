"""Does a writeback reach every element of its buffer? What it does not reach, an atomic merge would
change, since the launcher zeroes the buffer first."""

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import sympy

from loopir.deps.digits import ceil_quotient, terms
from loopir.deps.telling import digits, flat
from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, ceildiv, floordiv, mod, operands, substitute, sym


class Sizes(NamedTuple):
    """`constant` gives compile-time values, `spelled` an expression with the names of the `where`
    clause put in: sizes that are known at launch only are compared as they are spelled."""

    constant: Callable[[Expr], int | None]
    spelled: Callable[[Expr], Expr]

    def at_least(self, a: Expr, b: Expr) -> bool:
        """Whether a >= b is certain."""
        known_a, known_b = self.constant(a), self.constant(b)
        if known_a is not None and known_b is not None:
            return known_a >= known_b
        return self.same(a, b)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether a and b are equal once multiplied out: sympy spells 2 * (x + 1) as 2*x + 2 unless
        a third factor stands there."""
        return sympy.expand(self.spelled(a)) == sympy.expand(self.spelled(b))


def covers(
    access: Access, shape: tuple[Expr, ...], variables: tuple[GridAxis, ...], sizes: Sizes
) -> bool:
    """Whether a writeback that tells its tile stores every element of a buffer of this shape.

    It does if each dimension counts up from 0 to its end or beyond, or down from its end to 0: by a
    loop variable, by a tile axis whose tiles lie side by side, by a quotient or remainder of one,
    as in `m // W, m % W`, or by several of these as digits, as in `g * 8 + n`; and if no two
    dimensions count by the same variable. `variables`: of the grid and the loops around, each from
    0 to its extent.
    """
    if any(sizes.constant(extent) == 0 for extent in shape):
        return True
    moving = {*(v.iv for v in variables), *(a.name for a in access.axes)}
    counters = _counters(access, variables, sizes)
    still = {name: sympy.Integer(0) for name, count in counters if count.is_zero(sizes)}
    dims: dict[Expr, Expr] = {}
    for index, extent in zip(access.index, shape, strict=True):
        moved = flat(substitute(sizes.spelled(index), still))
        parts = _parts(moved, sizes.spelled(extent), moving, sizes)
        if parts is None or parts.keys() & dims.keys():
            return False
        dims |= parts
    counted: list[Expr] = []
    used: list[str] = []
    for name, count in counters:
        need = _needed(sym(name), dims, sizes)
        if need is not None and count.reaches(need.count, sizes):
            counted += need.dims
            used += count.variables
    return set(counted) == dims.keys() and len(used) == len(set(used))


def _parts(index: Expr, extent: Expr, moving: Set[str], sizes: Sizes) -> dict[Expr, Expr] | None:
    """The values that count as the digits of an index, each with how far it must; None if it skips
    numbers."""
    if index == 0 and sizes.at_least(sympy.Integer(1), extent):
        return {}
    steps = terms(index, moving)
    if any(map(_is_negative, steps.values())):
        index = sympy.expand(extent - 1 - index)
        steps = terms(index, moving)
    rest = index - sympy.Add(*(value * step for value, step in steps.items()))
    ordered = sorted(steps.items(), key=lambda item: _order(item[1]))
    counts_up = bool(ordered) and ordered[0][1] == 1 and not any(map(_is_negative, steps.values()))
    if sympy.expand(rest) != 0 or not counts_up:
        return None
    ends = [*(step for _, step in ordered[1:]), extent]
    return {
        value: ceil_quotient(end, step, sizes.constant)
        for (value, step), end in zip(ordered, ends, strict=True)
    }


def _is_negative(step: Expr) -> bool:
    return step.could_extract_minus_sign()


def _order(step: Expr) -> tuple[int, int]:
    """Numbers by size, then products by their factors."""
    number, sizes = step.as_coeff_Mul()
    return (0 if sizes == 1 else len(sympy.Mul.make_args(sizes)), int(number))


@dataclass(frozen=True)
class _Count:
    """A value that takes every number from 0 below `step * extent`. `limit`: what it is cut to."""

    step: Expr
    extent: Expr
    variables: tuple[str, ...]
    limit: Expr | None = None

    def is_zero(self, sizes: Sizes) -> bool:
        """Whether it takes no other number, as the one channel of a group does."""
        end = self.step * self.extent
        least = end if self.limit is None else self.limit
        return sizes.constant(least) == 1 and sizes.at_least(end, sympy.Integer(1))

    def reaches(self, end: Expr, sizes: Sizes) -> bool:
        if self.limit is not None and not sizes.at_least(self.limit, end):
            return False
        rounded_up = ceildiv(sizes.spelled(end), sizes.spelled(self.step))
        return sizes.same(self.extent, rounded_up) or sizes.at_least(self.step * self.extent, end)


def _counters(
    access: Access, variables: tuple[GridAxis, ...], sizes: Sizes
) -> list[tuple[str, _Count]]:
    """The loop variables and tile axes that count from 0 without a gap."""
    one = sympy.Integer(1)
    found = [(v.iv, _Count(one, v.extent, (v.iv,))) for v in variables]
    for axis in access.axes:
        count = _axis_count(axis, variables, sizes)
        limit = axis.limit if access.masked else None
        found += [] if count is None else [(axis.name, replace(count, limit=limit))]
    return found


def _axis_count(axis: TileAxis, variables: tuple[GridAxis, ...], sizes: Sizes) -> _Count | None:
    found = digits(axis, variables, sizes.constant, frozenset())
    start = _rising(sizes.spelled(axis.start), found, sizes)
    by_value = terms(start, {v.iv for v in found})
    steps = [by_value.get(sym(v.iv), sympy.Integer(0)) for v in found]
    ends = [step * v.extent for v, step in zip(found, steps, strict=True)]
    moved = sum(step * sym(v.iv) for v, step in zip(found, steps, strict=True))
    side_by_side = all(map(sizes.at_least, (axis.size, *ends), steps))
    if sympy.expand(start - moved) != 0 or not side_by_side:
        return None
    if not found:
        return _Count(axis.size, sympy.Integer(1), ())
    return _Count(steps[-1], found[-1].extent, tuple(v.iv for v in found))


def _rising(start: Expr, found: tuple[GridAxis, ...], sizes: Sizes) -> Expr:
    """`start` with the variables that count down, as in `(T - 1 - t) * 8`, counted from the end."""
    steps = terms(start, {v.iv for v in found})
    falling = [v for v in found if _is_negative(steps.get(sym(v.iv), sympy.Integer(0)))]
    turned = {v.iv: sizes.spelled(v.extent) - 1 - sym(v.iv) for v in falling}
    return sympy.expand(substitute(start, turned))


@dataclass(frozen=True)
class _Need:
    """How far a value must count to give every index of these dimensions."""

    count: Expr
    dims: tuple[Expr, ...]


def _needed(value: Expr, dims: dict[Expr, Expr], sizes: Sizes, depth: int = 4) -> _Need | None:
    if value in dims:
        return _Need(dims[value], (value,))
    found = (_needed_by_parts(value, w, dims, sizes, depth) for w in _widths(dims) if depth)
    return max((n for n in found if n is not None), key=lambda n: len(n.dims), default=None)


def _needed_by_parts(
    value: Expr, width: Expr, dims: dict[Expr, Expr], sizes: Sizes, depth: int
) -> _Need | None:
    """By remainder and, unless no dimension has any of it, quotient."""
    low = mod(value, width)
    if low not in dims or not sizes.at_least(width, dims[low]):
        return None
    high = _needed(flat(floordiv(value, width)), dims, sizes, depth - 1)
    if high is None:
        return _Need(width, (low,))
    return _Need(high.count * width, (*high.dims, low))


def _widths(dims: dict[Expr, Expr]) -> set[Expr]:
    return {operands(e)[1] for d in dims for e in d.atoms(FloorDiv, Mod)}
