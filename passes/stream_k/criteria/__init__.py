"""The criteria SK03 .. SK21 over a matched nest: each a pure function that yields its refusals."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from passes.base import Refusal
from passes.stream_k.criteria import accumulators, output, sizes, slots
from passes.stream_k.nest import Nest
from passes.stream_k.options import Merge, Options, adds_atomically, merge_of, splits_tiles

Criterion: TypeAlias = Callable[[Nest, Options], Iterator[Refusal]]

CRITERIA: tuple[Criterion, ...] = (
    accumulators.associative_operators,
    accumulators.atomic_dtype,
    sizes.constant_panels,
    sizes.constant_tiles,
    sizes.countable,
    sizes.masked_edges,
    output.writeback_to_output,
    output.no_epilogue,
    output.no_alias,
    output.injective_writeback,
    accumulators.nothing_carried,
    accumulators.nothing_left_to_waves,
    accumulators.starts_at_identity,
    output.no_side_effects,
    output.zeroed_once,
    sizes.aligned_split,
    accumulators.determinism,
    accumulators.no_fragments,
    sizes.compile_time_schedule,
    output.no_descriptor,
    slots.cut_as_asked,
    slots.laid_out_as_asked,
)

#: asked of every decomposition; the others only where tiles are split
_OF_EVERY_WALK = (
    sizes.constant_panels,
    sizes.constant_tiles,
    sizes.countable,
    output.no_descriptor,
)

#: asked only where an atomic add is all that follows the panels of a part, and where it is not
_OF_ADDS, _OF_ENDS = (output.no_epilogue,), (accumulators.nothing_left_to_waves,)

#: asked only where the order of arrival is the order of the additions
_OF_ATOMICS = (
    accumulators.atomic_dtype,
    accumulators.determinism,
    accumulators.no_fragments,
)


def is_asked(criterion: Criterion, options: Options) -> bool:
    """Whether a decomposition depends on a criterion: whole tiles are computed as they were."""
    if not splits_tiles(options):
        return criterion in _OF_EVERY_WALK
    if criterion in (*_OF_ADDS, *_OF_ENDS):
        return (criterion in _OF_ADDS) == (merge_of(options) is Merge.ATOMIC)
    return criterion not in _OF_ATOMICS or adds_atomically(options)
