"""Which elements of a buffer an access touches, and where in the tile each of them goes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy

from loopir.interp.errors import OutOfBoundsError
from loopir.interp.indices import Env, value
from loopir.nodes import Access
from loopir.symbols import names_of

Index: TypeAlias = tuple[Any, ...]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """`tile[where]` and `buffer[index]` are the elements that take part, in one order.

    Slices of both for a rectangular access; else index arrays, and a mask of the tile where not
    every element takes part. `distinct`: no buffer element occurs twice, by the form of the access.
    """

    index: Index
    where: Any
    shape: Shape
    distinct: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether every element of the tile takes part."""
        return self.where is Ellipsis


class _Form(NamedTuple):
    """The form of an access: for each dimension the axis that is its whole index, or None."""

    axis_of: tuple[int | None, ...]
    is_rectangular: bool
    is_distinct: bool


def region(access: Access, env: Env, extents: Shape) -> Region:
    """The region of `access` to a buffer of sizes `extents`.

    Masked: an element takes part iff every axis is below its limit and every index lies in
    [0, extent). Unmasked, OutOfBoundsError: an index outside.
    """
    form = _form(access)
    if form.is_rectangular and (found := _rectangle(access, form, env, extents)) is not None:
        return found
    try:
        return _general(access, form, env, extents)
    except OverflowError:
        message = f"an index of {access.buffer} is beyond 64 bits"
        raise OutOfBoundsError(message) from None


def element(indices: tuple[int, ...], extents: Shape, name: str) -> Index:
    """The index of one element. OutOfBoundsError: there is no such element."""
    if not all(0 <= i < n for i, n in zip(indices, extents, strict=True)):
        raise OutOfBoundsError(f"{name}{list(indices)} of {name}{list(extents)}")
    return tuple(slice(i, i + 1) for i in indices)


def coordinates(index: Index, position: Shape) -> list[int]:
    """Where in the buffer the element at `position` of `buffer[index]` lies."""
    if not any(isinstance(i, slice) for i in index):
        arrays = np.broadcast_arrays(*index)
        return [int(a[position]) for a in arrays]
    left = iter(position)
    return [int(i.start + next(left) if isinstance(i, slice) else i) for i in index]


@lru_cache(maxsize=4096)
def _form(access: Access) -> _Form:
    symbols = {axis.name: n for n, axis in enumerate(access.axes)}
    axis_of = tuple(
        symbols.get(i.name) if isinstance(i, sympy.Symbol) else None for i in access.index
    )
    bare = [n for n in axis_of if n is not None]
    others = {
        name
        for i, n in zip(access.index, axis_of, strict=True)
        if n is None
        for name in names_of(i)
    }
    ordered = bare == list(range(len(access.axes))) and others.isdisjoint(symbols)
    return _Form(axis_of, ordered, set(bare) == set(symbols.values()))


def _rectangle(access: Access, form: _Form, env: Env, extents: Shape) -> Region | None:
    """Slices; None where a scalar index lies outside, so that no slice says it."""
    index: list[Any] = []
    where: list[slice] = []
    for expr, axis, extent in zip(access.index, form.axis_of, extents, strict=True):
        if axis is None:
            scalar = value(expr, env)
            if not 0 <= scalar < extent:
                return None
            index.append(scalar)
            continue
        start, size, stop = _span(access, axis, env, extent)
        first = min(max(0, -start), stop)
        if not access.masked and (first, stop) != (0, size):
            return None
        index.append(slice(start + first, start + stop) if first < stop else slice(0, 0))
        where.append(slice(first, stop))
    shape = tuple(value(axis.size, env) for axis in access.axes)
    is_whole = all(w.stop - w.start == n for w, n in zip(where, shape, strict=True))
    return Region(tuple(index), Ellipsis if is_whole else tuple(where), shape)


def _span(access: Access, axis: int, env: Env, extent: int) -> tuple[int, int, int]:
    """Start and size of an axis, and one past the last of its positions that can take part."""
    tile_axis = access.axes[axis]
    start, size = value(tile_axis.start, env), value(tile_axis.size, env)
    end = extent
    if access.masked and tile_axis.limit is not None:
        end = min(end, value(tile_axis.limit, env))
    return start, size, max(0, min(size, end - start))


def _general(access: Access, form: _Form, env: Env, extents: Shape) -> Region:
    shape = tuple(value(axis.size, env) for axis in access.axes)
    axes = {
        axis.name: value(axis.start, env) + _iota(n, i, len(shape))
        for i, (axis, n) in enumerate(zip(access.axes, shape, strict=True))
    }
    inner = {**env, **axes}
    index = [np.asarray(value(e, inner)) for e in access.index]
    inside = np.ones((1,) * len(shape), bool)
    for i, extent in zip(index, extents, strict=True):
        inside = inside & (i >= 0) & (i < extent)
    if access.masked:
        for axis in access.axes:
            if axis.limit is not None:
                inside = inside & (axes[axis.name] < value(axis.limit, env))
    if inside.all():
        return Region(tuple(index), Ellipsis, shape, form.is_distinct)
    mask = np.broadcast_to(inside, shape)
    if not access.masked:
        raise _outside(access.buffer, index, mask, extents)
    chosen = tuple(np.broadcast_to(i, shape)[mask] for i in index)
    return Region(chosen, mask, shape, form.is_distinct)


def _outside(name: str, index: list[np.ndarray], mask: np.ndarray, extents: Shape):
    first = tuple(np.argwhere(~mask)[0])
    where = [int(np.broadcast_to(i, mask.shape)[first]) for i in index]
    return OutOfBoundsError(f"{name}{where} of {name}{list(extents)}, in an access without a mask")


@lru_cache(maxsize=1024)
def _iota(size: int, axis: int, rank: int) -> np.ndarray:
    shape = tuple(size if i == axis else 1 for i in range(rank))
    return np.arange(size, dtype=np.int64).reshape(shape)
