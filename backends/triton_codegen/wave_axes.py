"""Along which axis the waves of a loop split each tile.

Accesses tell it of the tiles that they move; `dot` and `ewise` pass it on. A tile that no wave has
a part of is the same in every wave. What does not fit together is refused.
"""

from collections.abc import Iterator
from typing import TypeAlias

from backends.triton_codegen.wave_loop import Wave
from loopir.effects import tiles_read, tiles_written
from loopir.nodes import (
    Apply,
    Atomic,
    AxisReduce,
    Cast,
    Dot,
    Ewise,
    Ewise_,
    Expand,
    Load,
    Mask,
    Part,
    Stmt,
    Store,
    TileRef,
)
from loopir.tile_types import Tiles
from loopir.walk import Path

#: tile -> the axis that the waves split, or None: the same in every wave
Splits: TypeAlias = dict[str, int | None]

#: of acc, a and b: rows, columns, nothing
_DOT_SPLITS = ((0, 0, None), (1, None, 1), (None, None, None))


def tile_splits(wave: Wave) -> Splits:
    """The axis of every tile that the loop uses. CodegenError: a statement that fits no choice."""
    used = (t for _, s in wave.statements for t in tiles_read(s) | tiles_written(s))
    splits: Splits = {name: None for name in used if name not in wave.own}
    # What is loaded decides, then what is stored: of a misfit the store is shown.
    for kind in (Load, Store, Atomic):
        _add_told(wave, kind, splits)
        _spread(wave, splits)
    splits |= {name: None for name in wave.own if name not in splits}
    for path, stmt in wave.statements:
        _check(wave, path, stmt, splits)
    return splits


def _add_told(wave: Wave, kind: type[Load | Store | Atomic], splits: Splits) -> None:
    """Add the tiles that accesses of a kind move."""
    for path, stmt in wave.statements:
        if isinstance(stmt, kind):
            splits.setdefault(stmt.tile, _access_split(wave, path, stmt))


def _spread(wave: Wave, splits: Splits) -> None:
    """Add all that follows from `splits` for other tiles."""
    size = -1
    while size < len(splits):
        size = len(splits)
        for _, stmt in wave.statements:
            _pass_on(stmt, splits, wave.types)


def _access_split(wave: Wave, path: Path, stmt: Load | Store | Atomic) -> int | None:
    access = wave.access(stmt)
    assert access is not None
    return wave.split_axis(path, access)


# --- passing it on


def _pass_on(stmt: Stmt, splits: Splits, types: Tiles) -> None:
    """Add to `splits` what follows from it for the other tiles of `stmt`."""
    match stmt:
        case Dot(acc, a, b):
            names = (acc, a, b)
            fits = [s for s in _DOT_SPLITS if _agrees(names, s, splits)]
            if len(fits) == 1:
                for name, axis in zip(names, fits[0], strict=True):
                    splits.setdefault(name, axis)
        case Ewise(tile, expr):
            leaves = tuple(_leaves(expr, types))
            if tile in splits:
                _to_operands(tile, leaves, splits, types)
            else:
                _to_result(tile, leaves, splits)


def _agrees(names: tuple[str, ...], axes: tuple[int | None, ...], splits: Splits) -> bool:
    return all(splits.get(n, axis) == axis for n, axis in zip(names, axes, strict=True))


#: a tile in an expression, and to which axis of the result each of its axes goes; None: to none
_Leaf: TypeAlias = tuple[str, tuple[int | None, ...]]


def _leaves(expr: Ewise_, types: Tiles) -> Iterator[_Leaf]:
    match expr:
        case TileRef(name) if rank := len(types[name].shape):
            yield name, tuple(range(rank))
        case Apply(_, args):
            for arg in args:
                yield from _leaves(arg, types)
        case Cast(_, arg) | Mask(arg) | Part(arg):  # of a part, sizes tell what does not fit
            yield from _leaves(arg, types)
        case Expand(arg, axis):
            for name, axes in _leaves(arg, types):
                yield name, tuple(None if j is None else j + (j >= axis) for j in axes)
        case AxisReduce(_, arg, axis):
            for name, axes in _leaves(arg, types):
                yield name, tuple(None if j in (None, axis) else j - (j > axis) for j in axes)


def _to_result(tile: str, leaves: tuple[_Leaf, ...], splits: Splits) -> None:
    goals = [axes[axis] for n, axes in leaves if (axis := splits.get(n)) is not None]
    if told := [axis for axis in goals if axis is not None]:
        splits[tile] = told[0]
    elif leaves and all(name in splits for name, _ in leaves):
        splits[tile] = None


def _to_operands(tile: str, leaves: tuple[_Leaf, ...], splits: Splits, types: Tiles) -> None:
    goal = splits[tile]
    for name, axes in leaves:
        if name in splits:
            continue
        if goal is None:
            splits[name] = None
        elif goal in axes and types[name].shape[axes.index(goal)] == types[tile].shape[goal]:
            splits[name] = axes.index(goal)


# --- checking


def _check(wave: Wave, path: Path, stmt: Stmt, splits: Splits) -> None:
    match stmt:
        case Load(tile) | Store(_, tile) | Atomic(_, _, tile):
            if _access_split(wave, path, stmt) != splits[tile]:
                wave.refuse(path, _misfit(wave, tile, splits), tile)
        case Dot(acc, a, b):
            if (splits[acc], splits[a], splits[b]) not in _DOT_SPLITS:
                wave.refuse(path, _dot_misfit(wave, stmt, splits), "dot")
        case Ewise(tile, expr):
            leaves = tuple(_leaves(expr, wave.types))
            for leaf in leaves:
                _check_leaf(wave, path, tile, leaf, splits)
            for mask in _masks(expr):
                _check_mask(wave, path, mask, splits)
            if splits[tile] is not None and leaves and all(splits[n] is None for n, _ in leaves):
                wave.refuse(path, _misfit(wave, tile, splits), tile)


def _check_leaf(wave: Wave, path: Path, tile: str, leaf: _Leaf, splits: Splits) -> None:
    """A part goes to a part; what is the same in every wave may be broadcast into one."""
    (name, axes), goal = leaf, splits[tile]
    axis, shape = splits[name], wave.types[name].shape
    if axis is not None and axes[axis] is None:
        wave.refuse(path, f"it combines along axis {axis} of {name}, which the waves split", name)
    if axis is not None:
        whole = wave.types[tile].shape
        if goal is None or axes[axis] != goal or shape[axis] != whole[goal]:
            wave.refuse(path, _misfit(wave, tile, splits), tile)
    if axis is None and goal in axes and goal is not None and shape[axes.index(goal)] != 1:
        wave.refuse(path, _misfit(wave, name, splits), name)


def _masks(expr: Ewise_) -> Iterator[Mask]:
    match expr:
        case Mask(arg):
            yield expr
            yield from _masks(arg)
        case Apply(_, args):
            for arg in args:
                yield from _masks(arg)
        case Cast(_, arg) | Expand(arg) | AxisReduce(_, arg) | Part(arg):
            yield from _masks(arg)


def _check_mask(wave: Wave, path: Path, mask: Mask, splits: Splits) -> None:
    """A mask counts positions from where each part starts, a whole tile from its own start."""
    for name, axes in _leaves(mask.arg, wave.types):
        axis = splits[name]
        if axis is not None and axes[axis] == mask.axis:
            wave.refuse(path, f"it masks along axis {axis} of {name}, which the waves split", name)


def _misfit(wave: Wave, tile: str, splits: Splits) -> str:
    axis = splits[tile]
    if axis is not None:
        return f"every wave has its own part of {tile}, along axis {axis}, which does not fit"
    if tile in wave.own:
        return f"{tile} is the same in every wave, and a part for each wave is needed"
    return f"{tile} is allocated outside the loop, and no wave can have a part of it"


def _dot_misfit(wave: Wave, dot: Dot, splits: Splits) -> str:
    if splits[dot.a] == 1 or splits[dot.b] == 0:
        return "the dot sums along the axis that the waves split"
    if splits[dot.a] is not None and splits[dot.b] is not None:
        return "the waves split both operands of the dot"
    return _misfit(wave, dot.acc, splits)
