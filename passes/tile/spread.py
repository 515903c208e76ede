"""Element-wise expressions over scalars, as expressions over tiles of different axes."""

from collections.abc import Mapping

from loopir.nodes import Apply, Cast, Ewise_, Expand, Literal, TileRef
from passes.tile.groups import Axes, union


def spread(
    expr: Ewise_, reads: Mapping[str, Axes], tiles: Mapping[tuple[str, Axes], str]
) -> tuple[Ewise_, Axes]:
    """`expr` over tiles, with its axes: operands that lack an axis of others are brought to it by
    `expand`. `reads`: the axes of each scalar; `tiles`: the name of its tile."""
    match expr:
        case TileRef(name):
            return TileRef(tiles[name, reads[name]]), reads[name]
        case Cast(dtype, arg):
            inner, axes = spread(arg, reads, tiles)
            return Cast(dtype, inner), axes
        case Apply(fn, args):
            parts = [spread(arg, reads, tiles) for arg in args]
            axes = union(*(own for _, own in parts))
            return Apply(fn, tuple(expanded(part, own, axes) for part, own in parts)), axes
    assert isinstance(expr, Literal)
    return expr, ()


def expanded(expr: Ewise_, axes: Axes, target: Axes) -> Ewise_:
    """`expr`, over `axes`, with an axis of size one for each that `target` has besides. A single
    element broadcasts as it is."""
    missing = [] if not axes else [i for i, kind in enumerate(target) if kind not in axes]
    for position in missing:
        expr = Expand(expr, position)
    return expr
