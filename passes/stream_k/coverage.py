"""Does a writeback reach every element of its buffer? What it does not reach, an atomic merge would
change, since the launcher zeroes the buffer first."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import sympy

from loopir.deps.telling import digits, flat
from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, ceildiv, floordiv, mod, operands, sym


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
        return self.spelled(a) == self.spelled(b)


def covers(
    access: Access, shape: tuple[Expr, ...], variables: tuple[GridAxis, ...], sizes: Sizes
) -> bool:
    """Whether a writeback that tells its tile stores every element of a buffer of this shape.

    It does if each dimension counts up from 0 to its end or beyond: by a loop variable, by a tile
    axis whose tiles lie side by side, or by a quotient or remainder of one, as in
    `m // W, m % W`; and if no two dimensions count by the same variable. `variables`: of the grid
    and the loops around, each from 0 to its extent.
    """
    dims = dict(zip(map(flat, access.index), shape, strict=True))
    if len(dims) < len(shape):
        return False
    counted = [d for d in dims if d == 0 and sizes.at_least(sympy.Integer(1), dims[d])]
    used: list[str] = []
    for name, count in _counters(access, variables, sizes):
        need = _needed(sym(name), dims, sizes)
        if need is not None and count.reaches(need.count, sizes):
            counted += need.dims
            used += count.variables
    return set(counted) == dims.keys() and len(used) == len(set(used))


@dataclass(frozen=True)
class _Count:
    """A value that takes every number from 0 below `step * extent`. `limit`: what it is cut to."""

    step: Expr
    extent: Expr
    variables: tuple[str, ...]
    limit: Expr | None = None

    def reaches(self, end: Expr, sizes: Sizes) -> bool:
        if self.limit is not None and not sizes.at_least(self.limit, end):
            return False
        rounded_up = ceildiv(sizes.spelled(end), sizes.spelled(self.step))
        in_whole_steps = sizes.spelled(self.extent) == rounded_up
        return in_whole_steps or sizes.at_least(self.step * self.extent, end)


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
    start = sympy.expand(axis.start)
    found = digits(axis, variables, sizes.constant, frozenset())
    steps = [start.coeff(sym(v.iv)) for v in found]
    values = [v.extent for v in found]
    widths = [axis.size, *(step * n for step, n in zip(steps, values, strict=True))]
    moved = sum(step * sym(v.iv) for v, step in zip(found, steps, strict=True))
    side_by_side = all(
        sizes.at_least(width, step) for width, step in zip(widths, steps, strict=False)
    )
    if sympy.expand(start - moved) != 0 or not side_by_side:
        return None
    names = tuple(v.iv for v in found)
    return _Count(
        steps[-1] if steps else axis.size, values[-1] if values else sympy.Integer(1), names
    )


@dataclass(frozen=True)
class _Need:
    """How far a value must count to give every index of these dimensions."""

    count: Expr
    dims: tuple[Expr, ...]


def _needed(value: Expr, dims: dict[Expr, Expr], sizes: Sizes, depth: int = 4) -> _Need | None:
    if value in dims:
        return _Need(dims[value], (value,))
    for width in _widths(dims) if depth else ():
        low = mod(value, width)
        if low in dims and sizes.at_least(width, dims[low]):
            high = _needed(flat(floordiv(value, width)), dims, sizes, depth - 1)
            if high is not None:
                return _Need(high.count * width, (*high.dims, low))
    return None


def _widths(dims: dict[Expr, Expr]) -> set[Expr]:
    return {operands(e)[1] for d in dims for e in d.atoms(FloorDiv, Mod)}
