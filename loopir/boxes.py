"""Tiles as boxes of tensors: what one tensor descriptor (TMA) can move, and from where.

A box has one side for each dimension of the tensor, the contiguous one last; dimensions with an
index of their own are sides of one element. What lies outside the tensor is loaded as 0 and never
stored, so a box needs no mask for the edges of the tensor, and can have no other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import NamedTuple

import sympy

from loopir.deps import scalar_values
from loopir.nodes import Access, Kernel, Literal, Load, Param, Store, TileAxis, Workspace
from loopir.scope import spelled
from loopir.symbols import Expr, Max, Min, Mod, names_of, operands, substitute, sym, to_expr
from loopir.types import DType

#: what the hardware can: bytes that a row starts and ends on, elements of a side, dimensions
ROW_BYTES = 16
MOST_ELEMENTS = 256
MOST_DIMENSIONS = 5
LEAST_AXES = 2


class Need(Enum):
    """What an access needs to be a box; the value says it as a rule."""

    TENSOR = "the buffer is a parameter of two to five dimensions, one of which is contiguous"
    AXES = "each of two axes or more is the index of one dimension, plus what it starts at"
    SIDES = (
        f"the contiguous side has {ROW_BYTES} bytes or more, no side over {MOST_ELEMENTS} elements"
    )
    START = f"the contiguous side starts at a multiple of {ROW_BYTES} bytes"
    MASK = "only the edges of the tensor bound the tile, and what lies beyond is 0"


class Misfit(NamedTuple):
    """Why an access is no box: the need, what was found, and a text on the line to mark."""

    need: Need
    found: str
    focus: str


@dataclass(frozen=True)
class Side:
    """One dimension of a box: `dim` of the tensor, its first index, its size, and the axis of the
    tile that it is (None: a single index)."""

    dim: int
    start: Expr
    size: int
    axis: int | None


@dataclass(frozen=True)
class Box:
    """A tile as a box; `sides` in the order of the tensor's dimensions, the contiguous one last."""

    sides: tuple[Side, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions of the tensor, as the box has them."""
        return tuple(s.dim for s in self.sides)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s.size for s in self.sides)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the tile, as the box has them."""
        return tuple(s.axis for s in self.sides if s.axis is not None)


def meanings(kernel: Kernel) -> dict[str, Expr]:
    """Names of the `where` clause, and scalars that are one expression, over what a launch decides
    and what changes."""
    known = spelled(kernel)
    return known | {n: substitute(e, known) for n, e in scalar_values(kernel.body).items()}


def access_moved(move: Load | Store) -> Access:
    return move.source if isinstance(move, Load) else move.target


def misfits(
    move: Load | Store, buffer: Param | Workspace | None, values: Mapping[str, Expr]
) -> Iterator[Misfit]:
    """Every reason why a load or a store is no box of `buffer`. `values`: `meanings` of its
    kernel."""
    access = access_moved(move)
    if why := _no_tensor(buffer):
        yield Misfit(Need.TENSOR, f"`{access.buffer}` is {why}", access.buffer)
        return
    assert isinstance(buffer, Param)
    if len(access.index) != len(buffer.shape):  # a mistake that has a rule of its own
        return
    if why := _no_sides(access):
        yield Misfit(Need.AXES, why, access.buffer)
        return
    yield from _size_misfits(access, buffer, values)
    yield from _start_misfits(access, buffer, values)
    yield from _mask_misfits(move, access, buffer, values)


def box(access: Access, buffer: Param, sizes: Mapping[str, int]) -> Box:
    """The box of an access that has no misfits; `sizes`: the compile-time constants."""
    contiguous = _contiguous(buffer)
    dims = [d for d in range(len(access.index)) if d != contiguous]
    known = {n: to_expr(v) for n, v in sizes.items()}
    return Box(tuple(_side(access, dim, known) for dim in (*dims, contiguous)))


def _contiguous(buffer: Param) -> int:
    assert buffer.contiguous is not None
    return buffer.contiguous


def _side(access: Access, dim: int, known: Mapping[str, Expr]) -> Side:
    index = access.index[dim]
    position = _axis_of(access, index)
    if position is None:
        return Side(dim, index, 1, None)
    axis = access.axes[position]
    size = int(substitute(axis.size, known))
    return Side(dim, _offset(index, axis) + axis.start, size, position)


# --- needs


def _no_tensor(buffer: Param | Workspace | None) -> str:
    if not isinstance(buffer, Param):
        return "no parameter"
    if not LEAST_AXES <= len(buffer.shape) <= MOST_DIMENSIONS:
        return f"of {len(buffer.shape)} dimension(s)"
    if buffer.contiguous is None:
        return "of open strides"
    return "of bool" if buffer.dtype is DType.BOOL else ""


def _no_sides(access: Access) -> str:
    """What keeps the axes from being sides, each of one dimension."""
    if len(access.axes) < LEAST_AXES:
        return f"a tile of {len(access.axes)} axis"
    used = [names for e in access.index if (names := _axes_in(access, e))]
    if any(len(names) > 1 for names in used):
        return "an index of two axes"
    if sorted(name for names in used for name in names) != sorted(a.name for a in access.axes):
        return "an axis in two indices"
    steps = (
        _offset(e, access.axes[p])
        for e in access.index
        for p in [_axis_of(access, e)]
        if p is not None
    )
    if any(_axes_in(access, step) for step in steps):
        return "an axis that moves by another step than one"
    return ""


def _axes_in(access: Access, index: Expr) -> frozenset[str]:
    return names_of(index) & {a.name for a in access.axes}


def _axis_of(access: Access, index: Expr) -> int | None:
    names = _axes_in(access, index)
    return next((i for i, a in enumerate(access.axes) if a.name in names), None)


def _offset(index: Expr, axis: TileAxis) -> Expr:
    """`index` less the axis in it."""
    return index - sym(axis.name)


def _size_misfits(access: Access, buffer: Param, values: Mapping[str, Expr]) -> Iterator[Misfit]:
    contiguous, bytes_each = _contiguous(buffer), buffer.dtype.bytes
    if _axis_of(access, access.index[contiguous]) is None:
        yield Misfit(Need.SIDES, f"one element along dimension {contiguous}", access.buffer)
    for index in access.index:
        position = _axis_of(access, index)
        if position is None:
            continue
        size = _constant(access.axes[position].size, values)
        is_row = index == access.index[contiguous]
        if size is not None and size > MOST_ELEMENTS:
            yield Misfit(Need.SIDES, f"a side of {size} elements", access.buffer)
        if size is None or (is_row and size * bytes_each < ROW_BYTES):
            found = "a side of unknown size" if size is None else f"{size * bytes_each} bytes a row"
            yield Misfit(Need.SIDES, found, access.buffer)


def _start_misfits(access: Access, buffer: Param, values: Mapping[str, Expr]) -> Iterator[Misfit]:
    index = access.index[_contiguous(buffer)]
    position, each = _axis_of(access, index), ROW_BYTES // gcd(ROW_BYTES, buffer.dtype.bytes)
    if position is None:
        return
    axis = access.axes[position]
    start = _spelled(_offset(index, axis) + axis.start, values)
    if not is_multiple(start, each):
        yield Misfit(Need.START, f"no start that is surely a multiple of {each}", access.buffer)


def _mask_misfits(
    move: Load | Store, access: Access, buffer: Param, values: Mapping[str, Expr]
) -> Iterator[Misfit]:
    if isinstance(move, Load) and move.otherwise != Literal(0):
        yield Misfit(Need.MASK, "another value than 0 beyond the edge", access.buffer)
    for index, extent in zip(access.index, buffer.shape, strict=True):
        position = _axis_of(access, index)
        if position is None or not access.masked:
            continue
        axis = access.axes[position]
        if axis.limit is not None and not _is_beyond(axis, index, extent, values):
            found = f"a limit on `{axis.name}` that may lie inside `{access.buffer}`"
            yield Misfit(Need.MASK, found, access.buffer)


def _is_beyond(axis: TileAxis, index: Expr, extent: Expr, values: Mapping[str, Expr]) -> bool:
    """Whether what the limit of an axis leaves out lies beyond the tensor anyway."""
    assert axis.limit is not None
    room = _constant(_offset(index, axis) + axis.limit - extent, values)
    return room is not None and room >= 0


# --- arithmetic


def _spelled(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    return sympy.expand(substitute(expr, values))


def _constant(expr: Expr, values: Mapping[str, Expr]) -> int | None:
    found = _spelled(expr, values)
    return int(found) if found.is_Integer else None


def is_multiple(expr: Expr, number: int) -> bool:
    """Whether `expr` is surely a multiple of `number`."""
    match expr:
        case sympy.Integer():
            return int(expr) % number == 0
        case sympy.Mul():
            factor, rest = expr.as_coeff_Mul()
            left = number // gcd(number, int(factor))
            return left == 1 or any(is_multiple(f, left) for f in sympy.Mul.make_args(rest))
        case sympy.Add() | Min() | Max() | Mod():
            return all(is_multiple(part, number) for part in operands(expr))
    return number == 1
