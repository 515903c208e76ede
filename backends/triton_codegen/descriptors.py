"""Loads and stores through tensor descriptors: the descriptor is an argument of the kernel, made by
the launcher; the line says the box and, where a tile has its axes in another order or the box has
sides of one element, how the tile lies in it."""

from typing import NamedTuple

from backends.triton_codegen.writer import KernelWriter
from loopir.bounds import bounds, is_at_most
from loopir.boxes import Box, Side, access_moved, box
from loopir.nodes import Access, Load, Param, Program, Store
from loopir.symbols import Expr, evaluate
from loopir.types import Via
from loopir.walk import map_leaves

#: first indices are 32 bits wide, and so are those of the last elements
LEAST_INDEX = -(2**31)
MOST_INDEX = 2**31 - 256


class DescriptorWriter(KernelWriter):
    """One method for each way through a descriptor."""

    def load_box(self, load: Load) -> None:
        self.write_ir(load)
        found, name, coordinates = self._described(load)
        self.evict_first[name] = load.evict_first and self.evict_first.get(name, True)
        sizes = self._sizes(load.source, found)
        reshaped = f".reshape({', '.join(s for s in sizes if s)})" if "" in sizes else ""
        order = tuple(found.axes.index(i) for i in range(len(found.axes)))
        head = f"{self.tiles[load.tile].name} = {name}.load(["
        self.write_items(head, coordinates, f"]){reshaped}{_permuted(order)}")

    def store_box(self, store: Store) -> None:
        self.write_ir(store)
        found, name, coordinates = self._described(store)
        sizes = self._sizes(store.target, found)
        reshaped = f".reshape({', '.join(s or '1' for s in sizes)})" if "" in sizes else ""
        value = f"{self.tiles[store.tile].name}{_permuted(found.axes)}{reshaped}"
        self.write_items(f"{name}.store([", coordinates, f"], {value})")

    def _described(self, move: Load | Store) -> "_Described":
        access = access_moved(move)
        buffer = self.buffers[access.buffer].source
        assert isinstance(buffer, Param)
        found = box(access, buffer, self.constants)
        coordinates = [self._coordinate(side, buffer) for side in found.sides]
        return _Described(found, self.descriptor(access.buffer, found), coordinates)

    def _sizes(self, access: Access, found: Box) -> list[str]:
        """The size of each side as text; empty for a single index."""
        return [
            "" if side.axis is None else self.scalars.text(access.axes[side.axis].size)
            for side in found.sides
        ]

    def _coordinate(self, side: Side, buffer: Param) -> str:
        if self.scalars.is_constant(side.start):
            value = evaluate(side.start, self.constants)
            return str(min(max(value, LEAST_INDEX), MOST_INDEX))
        text = self.scalars.text(side.start)
        if not self._fits(side.start, buffer.shape[side.dim]):
            text = f"tl.minimum(tl.maximum({text}, {LEAST_INDEX}), {MOST_INDEX})"
        return f"tl.cast({text}, tl.int32)"

    def _fits(self, start: Expr, extent: Expr) -> bool:
        """Whether `start` has 32 bits, given that the launcher wants as much of the extent."""
        known = bounds(start, self.env)
        is_low = known.hi <= MOST_INDEX or is_at_most(start - extent, 0, self.env)
        return known.lo >= LEAST_INDEX and is_low


def without_descriptors(program: Program) -> Program:
    """`program`, with every access by pointers."""
    return map_leaves(program, lambda leaf: Via.POINTER if isinstance(leaf, Via) else leaf)


class _Described(NamedTuple):
    box: Box
    name: str
    coordinates: list[str]


def _permuted(order: tuple[int, ...]) -> str:
    """Text that puts axis `order[i]` of a tile at place i."""
    if order == tuple(range(len(order))):
        return ""
    return ".T" if len(order) == 2 else f".permute({', '.join(map(str, order))})"
