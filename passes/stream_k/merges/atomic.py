"""Partial tiles meet by atomic adds into the zeroed output."""

from collections.abc import Collection
from dataclasses import dataclass

from loopir.nodes import (
    Atomic,
    Body,
    If,
    Reduce,
    Requirement,
    Stmt,
    Store,
    Zeroed,
)
from loopir.types import ReduceOp
from loopir.walk import map_bodies
from passes.stream_k.dataflow import Writeback
from passes.stream_k.merges.base import Meeting
from passes.stream_k.merges.produced import is_whole, panels_cut
from passes.stream_k.walk import Extent, Segment


@dataclass(frozen=True)
class AtomicAdds(Meeting):
    """Each writeback of a part is an atomic add; a whole tile is stored."""

    writebacks: tuple[Writeback, ...]

    def requirements(self) -> tuple[Requirement, ...]:
        outputs = dict.fromkeys(b.store.target.buffer for b in self.writebacks)
        return tuple(Zeroed(o) for o in outputs if Zeroed(o) not in self.nest.kernel.requires)

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        stores = [b.store for b in self.writebacks]

        def merged(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Reduce):
                return panels_cut(stmt, segment)
            if isinstance(stmt, Store) and stmt in stores:
                return _merged(stmt, segment)
            return map_bodies(stmt, lambda nested: tuple(map(merged, nested)))

        return tuple(map(merged, self.nest.body))


def _merged(store: Store, segment: Segment) -> Stmt:
    atomic = Atomic(ReduceOp.ADD, store.target, store.tile)
    match segment.extent:
        case Extent.WHOLE:
            return store
        case Extent.PART:
            return atomic
    return If(is_whole(segment), (store,), (atomic,))
