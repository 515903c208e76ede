"""The criteria SK03 .. SK17 over a matched nest: each a pure function that yields its refusals."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from passes.base import Refusal
from passes.stream_k.criteria import accumulators, output, sizes
from passes.stream_k.nest import Nest
from passes.stream_k.options import Options

Criterion: TypeAlias = Callable[[Nest, Options], Iterator[Refusal]]

CRITERIA: tuple[Criterion, ...] = (
    accumulators.associative_add,
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
    accumulators.starts_at_identity,
    output.no_side_effects,
    sizes.aligned_split,
    accumulators.determinism,
    accumulators.no_fragments,
)
