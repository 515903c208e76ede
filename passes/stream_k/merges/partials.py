"""Partial tiles meet in a workspace: what merges through slots have in common."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from loopir.nodes import Binding, Body, Let, Workspace
from loopir.symbols import Expr, sym, to_expr
from loopir.types import ElementOrder
from passes.decomposition import ClosedForm
from passes.stream_k.merges.base import Meeting
from passes.stream_k.merges.contributors import Contributors
from passes.stream_k.merges.produced import split_body
from passes.stream_k.merges.slots import Slots, folded
from passes.stream_k.names import Names
from passes.stream_k.walk import Extent, Segment


@dataclass(frozen=True)
class Partials(Meeting):
    """A contributor puts its accumulators into its slot; somebody folds the slots of the tile, in k
    order, and runs what followed the reduction.

    `form`: the part of the schedule that splits tiles. `is_split_known`: it is known that it splits
    some, which of equal slices means all, so that no block needs to ask whether its tile is whole.
    `orders`: of the elements in the slots of each accumulator.
    """

    names: Names
    form: ClosedForm
    taken: frozenset[str]
    is_split_known: bool
    orders: Mapping[str, ElementOrder]

    @cached_property
    def who(self) -> Contributors:
        return Contributors(self.form, self.names)

    @cached_property
    def slots(self) -> Slots:
        return Slots(self.nest, self.names, sym(self.names.slots), self.taken, self.orders)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        return (Binding(self.names.slots, to_expr(self.form.slot_count)),)

    def workspaces(self) -> tuple[Workspace, ...]:
        return self.slots.workspaces()

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        path = self.nest.inner(self.nest.reduce_path)
        if segment.extent is Extent.WHOLE:
            return split_body(self.nest.body, path, segment, (), ())
        kept, met = self.kept(segment.tile), self.met(used)
        return *self.told(segment.tile), *split_body(self.nest.body, path, segment, kept, met)

    # --- what the merges differ in

    def told(self, tile: Expr) -> tuple[Let, ...]:
        """What a contributor must know of who else meets in the tile."""
        return self.who.lets(tile)

    def kept(self, tile: Expr) -> Body:
        """What a contributor does with its accumulators."""
        return self.slots.stores(self.who.slot(tile))

    def met(self, used: Collection[str]) -> Body:
        """How it meets the others."""
        raise NotImplementedError

    def fold(self, tile: Expr) -> Body:
        """The accumulators of the whole tile."""
        return self.slots.fold(self.who.base(tile), self.who.count(tile))

    def finish(self, tile: Expr) -> Body:
        """The tile's body with the fold in place of its panels."""
        return folded(self.nest.body, self.fold(tile))
