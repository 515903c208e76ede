"""How the partial tiles of a split output tile meet."""

from passes.decomposition import ClosedForm, Schedule
from passes.stream_k.dataflow import Writeback
from passes.stream_k.merges.arrivals import Arrivals, SummedArrivals
from passes.stream_k.merges.atomic import AtomicAdds
from passes.stream_k.merges.base import Alone, Meeting
from passes.stream_k.merges.fixup import Fixup
from passes.stream_k.merges.pieces import Pieces, pieces_of
from passes.stream_k.merges.slot_orders import slot_orders, why_rows
from passes.stream_k.names import Names
from passes.stream_k.nest import Nest
from passes.stream_k.options import Merge, Options, merge_of

__all__ = ["Alone", "Meeting", "Pieces", "meeting", "pieces_of", "split_count", "why_rows"]


def meeting(
    options: Options,
    nest: Nest,
    writebacks: tuple[Writeback, ...],
    names: Names,
    form: ClosedForm,
    taken: frozenset[str],
    schedule: Schedule | None,
) -> Meeting:
    """What the options ask for. `form`: the part of the schedule that splits tiles, or may, where
    the launch completes it."""
    orders = slot_orders(nest, options.slot_layout)
    of_partials = nest, names, form, taken, schedule is not None, orders
    match merge_of(options):
        case Merge.ATOMIC:
            return AtomicAdds(nest, writebacks)
        case Merge.FIXUP:
            return Fixup(*of_partials, pieces_of(nest, options, split_count(schedule)))
        case Merge.ATOMIC_WORKSPACE:
            return SummedArrivals(*of_partials)
    return Arrivals(*of_partials)


def split_count(schedule: Schedule | None) -> int | None:
    """How many tiles are split; None where the launch completes the schedule."""
    return None if schedule is None else len(schedule.split_tiles())
