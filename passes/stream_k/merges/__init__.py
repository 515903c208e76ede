"""How the partial tiles of a split output tile meet."""

from passes.decomposition import ClosedForm
from passes.stream_k.dataflow import Writeback
from passes.stream_k.merges.arrivals import Arrivals
from passes.stream_k.merges.atomic import AtomicAdds
from passes.stream_k.merges.base import Alone, Meeting
from passes.stream_k.names import Names
from passes.stream_k.nest import Nest
from passes.stream_k.options import Merge, Options, merge_of

__all__ = ["Alone", "Meeting", "meeting"]


def meeting(
    options: Options,
    nest: Nest,
    writebacks: tuple[Writeback, ...],
    names: Names,
    form: ClosedForm,
    taken: frozenset[str],
    is_split_known: bool,
) -> Meeting:
    """What the options ask for. `form`: the part of the schedule that splits tiles, or may, where
    the launch completes it; `is_split_known`: it is known that it does."""
    merge = merge_of(options)
    if merge is Merge.ATOMIC:
        return AtomicAdds(nest, writebacks)
    return Arrivals(nest, names, merge, form, taken, is_split_known)
