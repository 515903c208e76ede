"""Whether the places of stores tell the tile they belong to, so that two tiles share no element."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import sympy

from loopir.deps import scalar_values
from loopir.deps.accesses import Scope
from loopir.deps.digits import terms
from loopir.deps.telling import flat
from loopir.nodes import Access, Kernel
from loopir.symbols import Expr, FloorDiv, Min, Mod, floordiv, imin, mod, names_of, operands, sym
from loopir.walk import substitute_node


@dataclass(frozen=True)
class Cells:
    """Of a persistent kernel."""

    kernel: Kernel
    scope: Scope

    def are_apart(self, a: Access, b: Access, tile: str, other: str) -> bool:
        """Whether tile numbers that differ, `tile` at `a` and `other` at `b`, name disjoint
        elements: in some dimensions both lie in one cell of a raster, and these tell the number."""
        if a.buffer != b.buffer:
            return False
        sides = (self._sides(a, tile, tile), self._sides(b, other, tile))
        pairs = zip(*sides, strict=True)
        told = {side.cell for side, peer in pairs if side and peer and self._is_shared(side, peer)}
        return self._tells(told, sym(tile))

    def _sides(self, access: Access, number: str, name: str) -> "list[_Side | None]":
        """One for each dimension; tile `number` is called `name` there."""
        values = scalar_values(self.kernel.body, kept=(number,)) | {number: sym(name)}
        values = {n: v.subs(sym(number), sym(name)) for n, v in values.items()}
        resolved = substitute_node(access, values)
        return [self._side(index, resolved) for index in resolved.index]

    def _side(self, index: Expr, access: Access) -> "_Side | None":
        axis = next((x for x in access.axes if sym(x.name) == index), None)
        start, size = (axis.start, axis.size) if axis else (index, sympy.Integer(1))
        if not names_of(start).isdisjoint(x.name for x in access.axes):
            return None
        found = terms(start, self.scope.moving)
        steps = [n for n in map(self.scope.constant, found.values()) if n]
        length = self.scope.constant(size)
        if not steps or len(steps) != len(found) or length is None:
            return None
        step = gcd(*steps)
        cell = sympy.Add(*(v * (n // step) for v, n in zip(found, steps, strict=True)))
        moved = sympy.Add(*(v * s for v, s in found.items()))
        return _Side(cell, step, sympy.expand(start - moved), length)

    def _is_shared(self, a: "_Side", b: "_Side") -> bool:
        """Whether equal cells follow from an element that both have."""
        distance = self.scope.constant(sympy.expand(b.offset - a.offset))
        if distance is None or (a.cell, a.step) != (b.cell, b.step):
            return False
        return max(a.size, distance + b.size) - min(0, distance) <= a.step

    def _tells(self, told: set[Expr], tile: Expr) -> bool:
        """Whether values that are known determine `tile`, as quotient and remainder do."""
        known, size = {flat(value) for value in told}, -1
        while size != len(known):
            size = len(known)
            known |= {x for a in known for b in known for x in self._joined(a, b)}
        return tile in known

    def _joined(self, a: Expr, b: Expr) -> Iterator[Expr]:
        """What `a` and `b` are the quotient and the remainder of; or the column and the row, in the
        grouped order of `loopir.tile_order`."""
        if isinstance(b, Mod):
            whole, width = operands(b)
            if self._is_steady(width) and a == flat(floordiv(whole, width)):
                yield whole
        if isinstance(a, FloorDiv) and isinstance(operands(a)[0], Mod):
            rest, height = operands(a)
            whole, band = operands(rest)
            groups = operands(height) if isinstance(height, Min) else ()
            for group in (g for g in groups if g.is_Integer):
                first = floordiv(whole, band) * group
                rows = sympy.expand(groups[0] + first)  # pyright: ignore[reportGeneralTypeIssues]
                is_height = self._is_steady(rows, band) and height == imin(rows - first, group)
                if is_height and b == first + mod(rest, height):
                    yield whole

    def _is_steady(self, *values: Expr) -> bool:
        return all(names_of(value).isdisjoint(self.scope.moving) for value in values)


@dataclass(frozen=True)
class _Side:
    """In one dimension the `size` elements from `cell * step + offset` on."""

    cell: Expr
    step: int
    offset: Expr
    size: int
