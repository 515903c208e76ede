"""A matched nest as the rules of decomposition see it: a batched matrix product in tiles."""

from dataclasses import dataclass
from math import prod

from loopir.nodes import Alloc
from loopir.symbols import Expr, sym
from passes.stream_k.dataflow import panel_count, writebacks
from passes.stream_k.nest import Nest
from passes.stream_k.side_by_side import joined


@dataclass(frozen=True)
class Problem:
    """`batch` times an output of m x n elements, its tiles and their panels.

    tile: elements of an output tile along m and n. part_bytes: one partial tile of each
    accumulator.
    """

    m: int
    n: int
    batch: int
    panels: int
    tile: tuple[int, int]
    part_bytes: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tiles along m, n and the batch."""
        return -(-self.m // self.tile[0]), -(-self.n // self.tile[1]), self.batch

    @property
    def tiles(self) -> int:
        return prod(self.grid)


def problem_of(nest: Nest) -> Problem | None:
    """The problem; None where one of its sizes is known at launch only.

    The last two axes of the grid are m and n, those before are the batch; of one axis, n is one
    tile. m and n are those of the output where it has as many tiles, else whole tiles.
    """
    extents = _constants(nest, tuple(axis.extent for axis in nest.axes))
    panels = nest.constant(panel_count(nest))
    shapes = [_shape(nest, accumulator.tile) for accumulator in nest.reduce.accumulators]
    if extents is None or panels is None or None in shapes:
        return None
    *batch, rows, columns = extents if len(extents) > 1 else (*extents, 1)
    (*tile, _), *_ = known = [shape for shape in shapes if shape is not None]
    height, width = _stored_tile(nest) or tile
    m, n = _output(nest, (rows, columns), (height, width)) or (rows * height, columns * width)
    part_bytes = tuple(h * w * element for h, w, element in known)
    return Problem(m, n, prod(batch), panels, (height, width), part_bytes)


def _shape(nest: Nest, accumulator: str) -> tuple[int, int, int] | None:
    """Rows and columns of the tile that a block accumulates, and bytes of an element: the waves
    have a slab of rows each."""
    for path, stmt in nest.before:
        if isinstance(stmt, Alloc) and stmt.name == accumulator:
            shape = _constants(nest, stmt.shape)
            waves = [nest.trips(loop) for loop in nest.loops_around(path)]
            if shape is None:
                return None
            *rows, columns = shape if len(shape) > 1 else (*shape, 1)
            return prod(waves) * prod(rows), columns, stmt.dtype.bytes
    return None


def _stored_tile(nest: Nest) -> tuple[int, ...] | None:
    """Rows and columns of the first output that a block stores, all pieces of its tile together.
    None if an index is more than an axis, or the waves store a part each."""
    targets = [back.store.target for back in writebacks(nest)]
    stored = joined((t for t in targets if t.buffer == targets[0].buffer), nest.constant)
    if nest.loops_around(nest.reduce_path) or len(stored) != 1 or len(stored[0].index) < 2:
        return None
    sizes: dict[Expr, Expr] = {sym(axis.name): axis.size for axis in stored[0].axes}
    last = stored[0].index[-2:]
    if not sizes.keys() >= set(last):
        return None
    return _constants(nest, tuple(sizes[index] for index in last))


def _output(nest: Nest, tiles: tuple[int, int], tile: tuple[int, int]) -> tuple[int, int] | None:
    """The last two extents of the first output, if they make just these tiles."""
    for back in writebacks(nest):
        param = nest.param(back.store.target.buffer)
        shape = None if param is None else _constants(nest, param.shape)
        if shape is None:
            return None
        m, n = (1, 1, *shape)[-2:] if len(shape) != 1 else (*shape, 1)
        counts = -(-m // tile[0]), -(-n // tile[1])
        return (m, n) if counts == tiles else None
    return None


def _constants(nest: Nest, exprs: tuple[Expr, ...]) -> tuple[int, ...] | None:
    found = [nest.constant(expr) for expr in exprs]
    return None if None in found else tuple(v for v in found if v is not None)
