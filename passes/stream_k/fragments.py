"""How many equal slices a tile gets whose accumulators are MMA fragments."""

import sympy

from loopir.scope import allocs
from loopir.types import Space
from passes.decomposition import Bounds, Direction
from passes.stream_k.dataflow import panel_count
from passes.stream_k.nest import Nest, tile_count
from passes.stream_k.options import Decomposition, Merge, Options

#: panels that pay for storing and folding a part
_LEAST_PANELS = 2


def splits_of_fragments(options: Options, nest: Nest) -> int | None:
    """The divisor S >= 2 of the panels nearest to units / tiles, the smallest where no units are
    said; None unless the options leave the choice, and the sizes are known, and there is one."""
    if not _is_left_open(options) or not _has_fragments(nest):
        return None
    tiles, panels = nest.constant(tile_count(nest.axes)), nest.constant(panel_count(nest))
    if not tiles or not panels:
        return None
    least = max(_LEAST_PANELS, options.min_panels)
    found = [s for s in sympy.divisors(panels) if s >= 2 and panels // s >= least]
    wanted = 0 if options.units is None else options.units / tiles
    return min(found, key=lambda s: (abs(s - wanted), s), default=None)


def _is_left_open(options: Options) -> bool:
    """Whether nothing is said of the merge, nor of how a walk of ranges is cut."""
    is_walk = options.bounds is not Bounds.FLOOR or options.direction is not Direction.FORWARD
    asked = (options.merge, options.decomposition, options.splits, is_walk)
    return asked == (Merge.AUTO, Decomposition.AUTO, None, False)


def _has_fragments(nest: Nest) -> bool:
    made = allocs(nest.kernel)
    return any(made[tile].space is Space.FRAGMENT for tile in nest.accumulators)
