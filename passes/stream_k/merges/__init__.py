"""How the partial tiles of a split output tile meet."""

from dataclasses import replace

from loopir.nodes import Body
from passes.decomposition import ClosedForm
from passes.stream_k.dataflow import Writeback
from passes.stream_k.merges.arrivals import Arrivals
from passes.stream_k.merges.atomic import AtomicAdds
from passes.stream_k.merges.produced import split_body
from passes.stream_k.names import Names
from passes.stream_k.nest import Nest
from passes.stream_k.options import Merge, Options, merge_of
from passes.stream_k.walk import Extent, Segment

__all__ = ["Meeting", "meeting", "whole_tile"]

Meeting = Arrivals | AtomicAdds


def meeting(
    options: Options,
    nest: Nest,
    writebacks: tuple[Writeback, ...],
    names: Names,
    form: ClosedForm,
    taken: frozenset[str],
    is_known: bool,
) -> Meeting:
    """What the options ask for; `form` is the part of the schedule that splits tiles, which
    `is_known` in numbers or completed by the launch."""
    merge = merge_of(options)
    if merge is Merge.ATOMIC:
        return AtomicAdds(nest, writebacks)
    return Arrivals(nest, names, merge, form, taken, is_known)


def whole_tile(nest: Nest, segment: Segment) -> Body:
    """The tile's body as it was, of a schedule that splits no tile."""
    path = nest.reduce_path[len(nest.body_path) :]
    return split_body(nest.body, path, replace(segment, extent=Extent.WHOLE), (), ())
