"""Partial tiles meet by atomic adds into the zeroed output."""

from collections.abc import Collection
from dataclasses import dataclass

from loopir.nodes import (
    Atomic,
    Binding,
    Body,
    If,
    Kernel,
    Reduce,
    Requirement,
    Stmt,
    Store,
    Workspace,
    Zeroed,
)
from loopir.types import ReduceOp
from loopir.walk import map_bodies
from passes.stream_k.dataflow import Writeback
from passes.stream_k.merges.produced import is_whole, panels_cut
from passes.stream_k.nest import Nest
from passes.stream_k.walk import Extent, Segment


@dataclass(frozen=True)
class AtomicAdds:
    """Each writeback of a part is an atomic add; a whole tile is stored."""

    nest: Nest
    writebacks: tuple[Writeback, ...]

    @property
    def bindings(self) -> tuple[Binding, ...]:
        return ()

    def workspaces(self) -> tuple[Workspace, ...]:
        return ()

    def requirements(self) -> tuple[Requirement, ...]:
        outputs = dict.fromkeys(b.store.target.buffer for b in self.writebacks)
        return tuple(Zeroed(o) for o in outputs if Zeroed(o) not in self.nest.kernel.requires)

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        """What a unit does with its part of a tile, whose axes are decoded."""
        stores = [b.store for b in self.writebacks]

        def merged(stmt: Stmt) -> Stmt:
            if isinstance(stmt, Reduce):
                return panels_cut(stmt, segment)
            if isinstance(stmt, Store) and stmt in stores:
                return _merged(stmt, segment)
            return map_bodies(stmt, lambda nested: tuple(map(merged, nested)))

        return tuple(map(merged, self.nest.body))

    def kernels(self, first: Kernel) -> tuple[Kernel, ...]:
        return ()


def _merged(store: Store, segment: Segment) -> Stmt:
    atomic = Atomic(ReduceOp.ADD, store.target, store.tile)
    match segment.extent:
        case Extent.WHOLE:
            return store
        case Extent.PART:
            return atomic
    return If(is_whole(segment), (store,), (atomic,))
