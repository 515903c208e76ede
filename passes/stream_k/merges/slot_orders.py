"""Where the elements of a partial tile lie in its slot: as fragments of an MMA, where they can."""

from loopir.boxes import meanings
from loopir.fragment_order import unfit
from loopir.nodes import Dot, Workspace
from loopir.scope import allocs
from loopir.types import ElementOrder
from passes.stream_k.nest import Nest
from passes.stream_k.options import SlotLayout


def slot_orders(nest: Nest, layout: SlotLayout) -> dict[str, ElementOrder]:
    """Of each accumulator."""
    why = why_rows(nest, layout)
    return {
        tile: ElementOrder.ROWS if reason else ElementOrder.FRAGMENTS
        for tile, reason in why.items()
    }


def why_rows(nest: Nest, layout: SlotLayout) -> dict[str, str]:
    """What keeps the slots of each accumulator from fragment order; nothing of one that has it."""
    return {a.tile: _why_rows(nest, a.tile, layout) for a in nest.reduce.accumulators}


def _why_rows(nest: Nest, tile: str, layout: SlotLayout) -> str:
    if layout is SlotLayout.ROW:
        return "as asked for"
    if nest.loops_around(nest.reduce_path):
        return "waves share the tile"
    alloc = allocs(nest.kernel)[tile]
    if why := unfit(Workspace(tile, alloc.dtype, alloc.shape), meanings(nest.kernel)):
        return why
    dots = {s.acc for _, s in nest.inside if isinstance(s, Dot)}
    return "no dot makes it" if layout is SlotLayout.AUTO and tile not in dots else ""
