"""A group as one axis of tiles: its names, its start and limit, what its indices are along it, and
accesses over it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import sympy

from loopir.expr_text import expr_text
from loopir.nodes import Access, TileAxis
from loopir.scope import constants
from loopir.symbols import (
    Expr,
    ceildiv,
    count,
    floordiv,
    imax,
    mod,
    names_of,
    substitute,
    sym,
    to_expr,
    try_evaluate,
)
from passes.tile.groups import Axes, Group, GroupKind
from passes.tile.nest import Nest


@dataclass(frozen=True)
class Axis:
    """`name = tile * size +: size < limit`: `name` is its name in accesses, `tile` the variable of
    the loop over its tiles, `size` what `where` binds to `width`. `values`: of the group's indices,
    over `name`."""

    group: Group
    width: int
    name: str
    size: str
    tile: str
    limit: Expr
    values: Mapping[str, Expr]

    @property
    def start(self) -> Expr:
        return sym(self.tile) * sym(self.size)

    @property
    def tiles(self) -> Expr:
        return ceildiv(self.limit, sym(self.size))

    def named(self, name: str, limit: Expr | None) -> TileAxis:
        return TileAxis(name, self.start, sym(self.size), limit)

    def summary(self) -> str:
        """The indices, with their extents, and the width of a tile."""
        pairs = zip(self.group.indices, self.group.extents, strict=True)
        indices = ", ".join(f"{name} < {expr_text(extent)}" for name, extent in pairs)
        return f"{indices} in tiles of {self.width}"


AxisOf: TypeAlias = Mapping[GroupKind, Axis]


def make_axis(nest: Nest, group: Group, width: int, name: str, size: str, tile: str) -> Axis:
    extents = group.extents
    if len(extents) > 1:  # a product of two negative extents would be positive
        extents = tuple(map(count, extents))
    values = _digits(nest, group, extents, sym(name))
    return Axis(group, width, name, size, tile, _product(extents), values)


def _product(extents: Sequence[Expr]) -> Expr:
    return prod(extents, start=sympy.Integer(1))


def _digits(nest: Nest, group: Group, extents: tuple[Expr, ...], flat: Expr) -> dict[str, Expr]:
    """The indices of a group, as digits of the flattened one."""
    values: dict[str, Expr] = {}
    for i, index in enumerate(group.indices):
        inner = _divisor(nest, group.kind, _product(extents[i + 1 :]))
        own = _divisor(nest, group.kind, extents[i])
        values[index] = floordiv(flat, inner) if i == 0 else mod(floordiv(flat, inner), own)
    return values


def _divisor(nest: Nest, kind: GroupKind, value: Expr) -> Expr:
    """`value`, or one in place of a zero. Where an extent of the output is zero nothing runs; the
    one panel of an empty sum does."""
    if value == 0:
        return to_expr(2)  # x % 1 would be 0, and an access without its axis
    constant = try_evaluate(value, constants(nest.kernel))
    may_be_zero = kind is GroupKind.K if constant is None else constant == 0
    return imax(1, value) if may_be_zero else value


def tiled_access(nest: Nest, access: Access, used: Axes, axes: AxisOf) -> Access:
    """`access` of one element, with an axis in place of every group in `used`; masked if there is
    one."""
    units = {u: to_expr(0) for axis in axes.values() for u in axis.group.units}
    index = tuple(substitute(nest.resolved(e), units) for e in access.index)
    if not used:
        return replace(access, index=index)
    of_group = [axes[kind] for kind in used]
    if _is_rectangular(nest, access.buffer, index, of_group):
        names = {axis.group.indices[0]: f"_{i}" for i, axis in enumerate(of_group)}
        short = tuple(substitute(e, {n: sym(s) for n, s in names.items()}) for e in index)
        slices = tuple(axis.named(f"_{i}", None) for i, axis in enumerate(of_group))
        return Access(access.buffer, short, slices, masked=True)
    values = {name: value for axis in of_group for name, value in axis.values.items()}
    named = tuple(axis.named(axis.name, axis.limit) for axis in of_group)
    return Access(access.buffer, tuple(substitute(e, values) for e in index), named, masked=True)


def _is_rectangular(nest: Nest, buffer: str, index: tuple[Expr, ...], used: list[Axis]) -> bool:
    """Whether every axis is of one index, which is by itself that of one dimension, in order, and
    ends where the dimension does."""
    if any(len(axis.group.indices) > 1 for axis in used):
        return False
    wanted = [sym(axis.group.indices[0]) for axis in used]
    shape = nest.shapes[buffer]
    bare = [(e, extent) for e, extent in zip(index, shape, strict=True) if e in wanted]
    others = frozenset().union(*(names_of(e) for e in index if e not in wanted))
    in_order = bare == [(e, axis.limit) for e, axis in zip(wanted, used, strict=True)]
    return in_order and others.isdisjoint(map(str, wanted))
