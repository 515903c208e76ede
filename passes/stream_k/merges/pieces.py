"""Into which pieces the second kernel of `fixup` cuts a tile: a block folds and finishes one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from loopir.fragment_order import SIDE
from loopir.nodes import Stmt
from loopir.tile_types import Tiles, tile_types
from loopir.types import ElementOrder
from loopir.walk import Path, is_wave_loop
from passes.pieces import Dim, Tie, memory_ties, obstacles, reached, statement_ties
from passes.stream_k.merges.slot_orders import slot_orders
from passes.stream_k.nest import Nest
from passes.stream_k.options import Options

#: of the second kernel, where the sizes let it: two for each multiprocessor of an H100
WANTED_BLOCKS = 264
#: of a piece, where the choice is left: a block of fragments; no more than keeps registers
LEAST_ELEMENTS = 256
MOST_ELEMENTS = 8192
#: rows and columns of such a piece; of any piece of slots in fragment order
LEAST_SIDES = (4, 64)
BLOCK = (SIDE, SIDE)


@dataclass(frozen=True)
class Cut:
    """`count` pieces of `size` elements along axis `axis` of the accumulators. `axes`: of each tile
    that lies along it, which of its axes does."""

    axis: int
    count: int
    size: int
    axes: Mapping[str, int]


@dataclass(frozen=True)
class Pieces:
    """Cuts along one axis or two; without any, one block a tile, and `why`."""

    cuts: tuple[Cut, ...]
    why: str = ""

    @property
    def count(self) -> int:
        """Of a tile."""
        return prod(cut.count for cut in self.cuts)


def pieces_of(nest: Nest, options: Options, split_tiles: int | None) -> Pieces:
    """The pieces of what follows the reduce of `nest`: as many as are asked for, or as make blocks
    enough of `split_tiles`, where that is known."""
    asked = options.pieces
    if asked == 1:
        return Pieces((), "asked for")
    if any(map(is_wave_loop, (*nest.loops_around(nest.reduce_path), *(s for _, s in nest.after)))):
        return Pieces((), "waves share the tile")
    orders = slot_orders(nest, options.slot_layout).values()
    search = _Search(nest, ElementOrder.FRAGMENTS in orders)
    if not search.axes:
        return Pieces((), "; ".join(search.obstacles.values()) or "the accumulators have no axis")
    if asked is not None:
        return search.exactly(asked)
    return search.at_least(1 if split_tiles is None else -(-WANTED_BLOCKS // max(1, split_tiles)))


@dataclass(frozen=True)
class _Search:
    """`in_blocks`: only whole blocks of a slot can be loaded."""

    nest: Nest
    in_blocks: bool

    @cached_property
    def tiles(self) -> Tiles:
        return tile_types(self.nest.kernel)

    @cached_property
    def placed(self) -> dict[Path, Stmt]:
        """The statements outside the reduce, by path from the kernel."""
        return {path[2:]: s for path, s in (*self.nest.before, *self.nest.after)}

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        nest, tiles = self.nest, self.tiles
        own = (tie for s in self.placed.values() for tie in statement_ties(s, tiles))
        return *own, *memory_ties(nest.dependences, self.placed, nest.body_path[2:], tiles)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        return [self.tiles[a.tile].shape for a in self.nest.reduce.accumulators]

    # --- which axes

    @property
    def axes(self) -> tuple[int, ...]:
        """Those that can be cut; two at most."""
        return tuple(a for a in range(min(map(len, self.shapes))) if a not in self.obstacles)[:2]

    @cached_property
    def obstacles(self) -> dict[int, str]:
        """What keeps pieces along an axis from being finished apart."""
        found = ((a, next(self._obstacles(a), "")) for a in range(min(map(len, self.shapes))))
        return {axis: f"axis {axis}: {why}" for axis, why in found if why}

    def _obstacles(self, axis: int) -> Iterator[str]:
        if len({shape[axis] for shape in self.shapes}) > 1:
            yield "the accumulators differ in it"
        found = obstacles(self._along(axis), self.ties, self.placed.values())
        yield from (obstacle.why for obstacle in found)

    def _along(self, axis: int) -> frozenset[Dim]:
        """The axes of tiles that lie along `axis` of the accumulators."""
        return reached((Dim(a.tile, axis) for a in self.nest.reduce.accumulators), self.ties)

    # --- how many pieces

    def exactly(self, count: int) -> Pieces:
        """`count` pieces, smaller than others are only where they must be."""
        for least in (BLOCK,) if self.in_blocks else (LEAST_SIDES, (1, 1)):
            counts, rest = {}, count
            for axis in self.axes:
                fit = [n for n in self._powers(axis, least) if rest % n == 0]
                counts[axis] = max(fit, default=1)
                rest //= counts[axis]
            if rest == 1:
                return self._pieces(counts)
        return Pieces((), self._why_not(count))

    def _why_not(self, count: int) -> str:
        if count & (count - 1):
            return f"{count} is no power of two"
        least = BLOCK if self.in_blocks else (1, 1)
        most = prod(max(self._powers(axis, least), default=1) for axis in self.axes)
        of_what = f", of whole {SIDE} x {SIDE} blocks of fragments" if self.in_blocks else ""
        return f"at most {most}{of_what}"

    def at_least(self, blocks: int) -> Pieces:
        """As many pieces as `blocks`, and as leave no piece too large, if none gets too small."""
        elements = sum(map(prod, self.shapes))
        wanted = max(blocks, elements / MOST_ELEMENTS)
        counts, room = {}, elements // LEAST_ELEMENTS
        least = BLOCK if self.in_blocks else LEAST_SIDES
        for axis in self.axes:
            fit = [n for n in self._powers(axis, least) if n <= room]
            counts[axis] = next((n for n in fit if n >= wanted), max(fit, default=1))
            wanted, room = wanted / counts[axis], room // counts[axis]
        if prod(counts.values()) == 1:
            return Pieces((), "the tile is small, or the tiles are many")
        return self._pieces(counts)

    def _powers(self, axis: int, least: tuple[int, int]) -> Iterator[int]:
        """Numbers of pieces that leave each its least side."""
        side, at_least = self.shapes[0][axis], least[min(axis, 1)]
        powers = (2**i for i in range(side.bit_length()))
        return (n for n in powers if side % n == 0 and side // n >= at_least)

    def _pieces(self, counts: Mapping[int, int]) -> Pieces:
        return Pieces(tuple(self._cut(axis, n) for axis, n in counts.items() if n > 1))

    def _cut(self, axis: int, count: int) -> Cut:
        axes = {dim.tile: dim.axis for dim in self._along(axis)}
        return Cut(axis, count, self.shapes[0][axis] // count, axes)
