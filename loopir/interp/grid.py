"""The blocks that a kernel's grid launches; each iteration of a parallel band is one too."""

from collections.abc import Iterator, Mapping
from math import prod

from loopir.interp.block import Block
from loopir.interp.indices import value
from loopir.interp.memory import Memory, View
from loopir.interp.races import Clock
from loopir.nodes import Alloc, Body, For, Grid, Grid1D, Kernel
from loopir.rename import fresh_name
from loopir.symbols import sym
from loopir.tile_order import decode
from loopir.tile_types import Tiles, TileType
from loopir.types import ForKind
from loopir.walk import Path, walk

Point = tuple[Body, Path, dict[str, int]]


def blocks(
    kernel: Kernel, path: Path, values: Mapping[str, int], memory: Memory
) -> Iterator[Block]:
    """The blocks of the kernel at `path` in the order of their numbers, made one by one."""
    types = _tile_types(kernel, values)
    points = _points(kernel.body, (*path, "body"), dict(values))
    for number, (body, place, scalars) in enumerate(points):
        yield Block(body, place, scalars, types, memory, View(Clock(number)))


def _points(body: Body, path: Path, scalars: dict[str, int]) -> Iterator[Point]:
    """The body that each block runs, with the grid variables among its scalars."""
    root = body[0] if len(body) == 1 else None
    inner = (*path, 0, "body")
    match root:
        case Grid1D(iv, extent, nested):
            for unit in range(value(extent, scalars)):
                yield nested, inner, {**scalars, iv: unit}
        case For(iv, lo, hi, step, nested, ForKind.PARALLEL):
            for i in range(*(value(e, scalars) for e in (lo, hi, step))):
                yield from _points(nested, inner, {**scalars, iv: i})
        case Grid():
            for axes in _axis_values(root, scalars):
                yield from _points(root.body, inner, {**scalars, **axes})
        case _:
            yield body, path, dict(scalars)


def _axis_values(grid: Grid, scalars: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The values of a grid's variables, tile number after tile number."""
    axes = [axis.iv for axis in grid.axes]
    linear = fresh_name("tile", {*scalars, *axes})
    lets = decode(grid.axes, grid.order, sym(linear), {*scalars, *axes, linear})
    for tile in range(prod(value(axis.extent, scalars) for axis in grid.axes)):
        env = {**scalars, linear: tile}
        for let in lets:
            env[let.name] = value(let.expr, env)  # pyright: ignore[reportArgumentType]
        yield {iv: env[iv] for iv in axes}


def _tile_types(kernel: Kernel, values: Mapping[str, int]) -> Tiles:
    allocs = (s for _, s in walk(kernel.body) if isinstance(s, Alloc))
    return {a.name: TileType(tuple(value(e, values) for e in a.shape), a.dtype) for a in allocs}
