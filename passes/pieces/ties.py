"""Which axes of the tiles of a kernel go together.

An element-wise statement ties each axis of what it computes to that axis of what it reads: element
i of one needs element i of the other. A sum along an axis, or a part, needs all that lies along it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from loopir.effects import access_of
from loopir.nodes import (
    Apply,
    Atomic,
    AxisReduce,
    Cast,
    Dot,
    Ewise,
    Ewise_,
    Expand,
    Mask,
    Part,
    Set,
    Stmt,
    Store,
    TileRef,
)
from loopir.printer import stmt_text
from loopir.tile_types import Tiles
from loopir.walk import Path, symbol_names

if TYPE_CHECKING:
    import networkx as nx


class Dim(NamedTuple):
    """An axis of a tile."""

    tile: str
    axis: int


#: by position, the axis of a tile that an expression has there; None where it is none's
Dims: TypeAlias = tuple[Dim | None, ...]


@dataclass(frozen=True)
class Tie:
    """What `stmt` says of an axis: that it goes with `other`, or, None, that an element needs
    others along it."""

    dim: Dim
    other: Dim | None
    stmt: Stmt


def dims_of(expr: Ewise_, tiles: Tiles, stmt: Stmt, found: list[Tie]) -> Dims:
    """The axes of an expression; `found` gets the ties within it."""
    match expr:
        case TileRef(name):
            return _dims(name, tiles)
        case Cast(_, arg) | Mask(arg):
            return dims_of(arg, tiles, stmt, found)
        case Expand(arg, axis):
            inner = dims_of(arg, tiles, stmt, found)
            return *inner[:axis], None, *inner[axis:]
        case AxisReduce(_, arg, axis):
            inner = dims_of(arg, tiles, stmt, found)
            found += _mixed(inner[axis : axis + 1], stmt)
            return *inner[:axis], *inner[axis + 1 :]
        case Part(arg, axis):
            inner = dims_of(arg, tiles, stmt, found)
            found += _mixed(inner[axis : axis + 1], stmt)
            return inner
        case Apply(_, args):
            return _together([dims_of(a, tiles, stmt, found) for a in args], stmt, found)
    return ()


def _dims(tile: str, tiles: Tiles) -> Dims:
    shape = tiles[tile].shape
    return tuple(Dim(tile, i) if n > 1 else None for i, n in enumerate(shape))


def _together(parts: list[Dims], stmt: Stmt, found: list[Tie]) -> Dims:
    """The axes of what `parts` broadcast to."""
    full = [dims for dims in parts if dims]
    for one, two in combinations(full, 2):
        found += _tied(one, two, stmt)
    met = zip(*full, strict=True)
    return tuple(next((d for d in dims if d is not None), None) for dims in met)


def _tied(one: Dims, two: Dims, stmt: Stmt) -> Iterator[Tie]:
    pairs = zip(one, two, strict=True)
    return (Tie(a, b, stmt) for a, b in pairs if a is not None and b is not None)


def _mixed(dims: Iterable[Dim | None], stmt: Stmt) -> Iterator[Tie]:
    return (Tie(dim, None, stmt) for dim in dims if dim is not None)


def statement_ties(stmt: Stmt, tiles: Tiles) -> list[Tie]:
    """The ties of one statement, those nested in it apart."""
    found: list[Tie] = []
    match stmt:
        case Ewise(tile, expr):
            _together([_dims(tile, tiles), dims_of(expr, tiles, stmt, found)], stmt, found)
        case Dot(acc, a, b):
            found += (tie for t in (acc, a, b) for tie in _mixed(_dims(t, tiles), stmt))
    return found


def memory_ties(
    graph: "nx.MultiDiGraph", placed: Mapping[Path, Stmt], around: Path, tiles: Tiles
) -> Iterator[Tie]:
    """Of statements of which one writes an element that the other touches: each piece of a tile may
    do so only with its own elements. `graph`: dependences of the kernel that the paths lead from;
    `placed`: the statements that are done piece by piece; `around`: the body that has them."""
    changing = frozenset(s.name for s in placed.values() if isinstance(s, Set))
    for a, b, edge in graph.edges(data=True):
        if edge["in_memory"] and {a, b} <= placed.keys() and not _is_of_tiles(edge, around):
            yield from _met(placed[a], placed[b], edge, changing, tiles)


def _is_of_tiles(edge: Mapping[str, Any], around: Path) -> bool:
    """Whether two tiles meet in memory: that is nothing to the pieces of one."""
    carrier = edge["carried_by"]
    return carrier is not None and len(carrier) < len(around)


def _met(
    a: Stmt, b: Stmt, edge: Mapping[str, Any], changing: frozenset[str], tiles: Tiles
) -> Iterator[Tie]:
    one, two = access_of(a), access_of(b)
    is_steady = edge["carried_by"] is None and changing.isdisjoint(symbol_names((one, two)))
    if a is b and is_steady and one is not None:
        axes = (i for i, axis in enumerate(one.axes) if axis.name in edge["untold"])
        yield from _mixed((_accessed(a, tiles)[i] for i in axes), a)
    elif is_steady and one and two and (one.index, one.axes) == (two.index, two.axes):
        yield from _tied(_accessed(a, tiles), _accessed(b, tiles), b)
    else:
        yield from _mixed((*_accessed(a, tiles), *_accessed(b, tiles)), b)


def _accessed(stmt: Stmt, tiles: Tiles) -> Dims:
    """The axes of the tile that a load, a store or an atomic moves."""
    return _dims(stmt.tile, tiles) if access_of(stmt) else ()  # pyright: ignore


def reached(starts: Iterable[Dim], ties: Iterable[Tie]) -> frozenset[Dim]:
    """The axes that go with `starts`."""
    pairs = [{tie.dim, tie.other} for tie in ties if tie.other is not None]
    found, size = {*starts}, -1
    while size != len(found):
        size = len(found)
        for pair in pairs:
            found |= pair if pair & found else set()
    return frozenset(found)  # pyright: ignore[reportReturnType]


class Obstacle(NamedTuple):
    """What keeps pieces from being done apart, and the statement that says so."""

    why: str
    stmt: Stmt | None = None


def obstacles(
    along: frozenset[Dim], ties: Iterable[Tie], statements: Iterable[Stmt]
) -> Iterator[Obstacle]:
    """Of pieces of the axes `along`, for which `statements` are done one after the other."""
    for tie in ties:
        if tie.other is None and tie.dim in along:
            yield Obstacle(f"`{stmt_text(tie.stmt)}` needs all of it", tie.stmt)
    tiles = [dim.tile for dim in along]
    twice = sorted({tile for tile in tiles if tiles.count(tile) > 1})
    yield from (Obstacle(f"two axes of {tile} lie along it") for tile in twice)
    for stmt in statements:
        if isinstance(stmt, Store | Atomic) and stmt.tile not in tiles:
            yield Obstacle(f"every piece would do `{stmt_text(stmt)}`", stmt)
