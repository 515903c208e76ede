"""Partial tiles meet by counters: the last contributor to arrive folds the slots of the tile, in k
order, and runs what followed the reduction. No block waits for another."""

from collections.abc import Collection

from loopir.nodes import (
    Arrive,
    Binding,
    Body,
    ElementRead,
    Flag,
    If,
    Requirement,
    Workspace,
    Zeroed,
)
from loopir.rename import renamed
from loopir.symbols import Expr, sym, to_expr
from loopir.types import DType
from passes.stream_k.merges.partials import Partials


class Arrivals(Partials):
    """A slot a contributor."""

    @property
    def bindings(self) -> tuple[Binding, ...]:
        counters = Binding(self.names.counters, to_expr(self.form.counter_count))
        return *super().bindings, counters

    def workspaces(self) -> tuple[Workspace, ...]:
        counters = Workspace(self.names.arrivals, DType.I32, (sym(self.names.counters),))
        return *super().workspaces(), counters

    def met(self, used: Collection[str]) -> Body:
        names, tile = self.names, sym(self.names.tile)
        counter = ElementRead(names.arrivals, (self.who.counter(tile),))
        finish = renamed(self.finish(tile), {*used} - {names.s})
        return Arrive(names.last, counter, self.who.count(tile)), If(Flag(names.last), finish)


class SummedArrivals(Arrivals):
    """A zeroed slot a tile, into which the contributors add; the bits follow the order in which
    they do."""

    @property
    def bindings(self) -> tuple[Binding, ...]:
        slots, counters = super().bindings
        return Binding(slots.name, counters.expr), counters

    def requirements(self) -> tuple[Requirement, ...]:
        return tuple(Zeroed(w) for w in self.slots.buffers.values())

    def kept(self, tile: Expr) -> Body:
        return self.slots.atomic_adds(self.who.counter(tile))

    def fold(self, tile: Expr) -> Body:
        return self.slots.taken_whole(self.who.counter(tile))
