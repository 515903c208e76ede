"""Partial tiles meet in a workspace: by counters, or in a second kernel.

A contributor puts its accumulators into its slot. With counters the last one to arrive folds the
slots of the tile, in k order, and runs what followed the reduction: no block waits for another.
Without, a second kernel does, one block a split tile.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from loopir.nodes import (
    AllOf,
    Arrive,
    AtMost,
    Binding,
    Body,
    Cmp,
    ElementRead,
    Flag,
    Grid,
    GridAxis,
    If,
    Kernel,
    Let,
    Requirement,
    Workspace,
    Zeroed,
)
from loopir.rename import fresh_name, renamed
from loopir.symbols import Expr, floordiv, mod, sym, to_expr
from loopir.tile_order import decode
from loopir.types import DType
from passes.decomposition import ClosedForm, SplitKForm, StreamKForm, unit_range
from passes.stream_k.merges.base import Meeting
from passes.stream_k.merges.produced import split_body
from passes.stream_k.merges.slots import Slots, folded
from passes.stream_k.names import Names
from passes.stream_k.options import Merge
from passes.stream_k.walk import Extent, Segment


@dataclass(frozen=True)
class Arrivals(Meeting):
    """Merges through workspaces: `merge` is WORKSPACE, FIXUP or ATOMIC_WORKSPACE. `form`: the part
    of the schedule that splits tiles. `is_split_known`: it is known that it splits some, which of
    equal slices means all, so that no block needs to ask whether its tile is whole."""

    names: Names
    merge: Merge
    form: ClosedForm
    taken: frozenset[str]
    is_split_known: bool

    @property
    def bindings(self) -> tuple[Binding, ...]:
        is_summed = self.merge is Merge.ATOMIC_WORKSPACE
        slots = self.form.counter_count if is_summed else self.form.slot_count
        counters = Binding(self.names.counters, to_expr(self.form.counter_count))
        return Binding(self.names.slots, to_expr(slots)), *(() if self._is_fixup else (counters,))

    def workspaces(self) -> tuple[Workspace, ...]:
        counters = Workspace(self.names.arrivals, DType.I32, (sym(self.names.counters),))
        return *self.slots.workspaces(), *(() if self._is_fixup else (counters,))

    @property
    def _is_fixup(self) -> bool:
        return self.merge is Merge.FIXUP

    def requirements(self) -> tuple[Requirement, ...]:
        is_summed = self.merge is Merge.ATOMIC_WORKSPACE
        return tuple(Zeroed(w) for w in self.slots.buffers.values()) if is_summed else ()

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        path = self.nest.inner(self.nest.reduce_path)
        if segment.extent is Extent.WHOLE:
            return split_body(self.nest.body, path, segment, (), ())
        kept, met = self._kept(segment), self._met(used)
        unread = self.names.parts if self._is_fixup else ""
        who = (let for let in self._who_meets(segment.tile) if let.name != unread)
        return *who, *split_body(self.nest.body, path, segment, kept, met)

    def kernels(self, first: Kernel) -> tuple[Kernel, ...]:
        if not self._is_fixup:
            return ()
        kept = tuple(r for r in first.requires if isinstance(r, AtMost))
        name = fresh_name(f"{first.name}_fixup", {first.name})
        body = (self._fixup_grid(),)
        return (replace(first, name=name, requires=kept, body=body),)

    @cached_property
    def slots(self) -> Slots:
        return Slots(self.nest, self.names, sym(self.names.slots), self.taken)

    # --- who meets in a tile

    def _who_meets(self, tile: Expr) -> tuple[Let, ...]:
        """`first`: what tells this split tile from others; `parts`: its contributors; those that
        are no single name already."""
        first, parts = self._spelled(self.form.counter(tile)), self.form.contributors(tile)
        lets = (
            Let(self.names.first, first),
            Let(self.names.parts, self._text(to_expr(parts), tile)),
        )
        return tuple(let for let in lets if not _is_plain(let.expr))

    def _parts(self, tile: Expr) -> Expr:
        """The number of contributors, as `_who_meets` leaves it."""
        parts = to_expr(self.form.contributors(tile))
        return parts if _is_plain(parts) else sym(self.names.parts)

    def _text(self, expr: Expr, tile: Expr) -> Expr:
        """`expr` in the names of the scalars that tell who meets in `tile`."""
        first = self._spelled(self.form.counter(tile))
        spelled = self._spelled(expr)
        return spelled if first.is_Symbol else _put(spelled, first, self.names.first)

    def _spelled(self, expr: Expr) -> Expr:
        """`expr` with the name of the number of iterations, where it has one."""
        is_ranges = isinstance(self.form, StreamKForm)
        total = self.form.tiles * self.form.panels
        return _put(expr, total, self.names.total) if is_ranges else expr

    def _slot(self, tile: Expr) -> Expr:
        if self.merge is Merge.ATOMIC_WORKSPACE:
            return self._counter(tile)
        is_slice = isinstance(self.form, SplitKForm)
        unit, split = sym(self.names.unit), sym(self.names.split)
        ordinal = split if is_slice else self.form.slot(unit, tile)
        return self._text(self.form.slot_base(tile) + ordinal, tile)

    def _counter(self, tile: Expr) -> Expr:
        return self._text(self.form.counter(tile), tile)

    # --- what happens there

    def _kept(self, segment: Segment) -> Body:
        if self.merge is Merge.ATOMIC_WORKSPACE:
            return self.slots.atomic_adds(self._slot(segment.tile))
        return self.slots.stores(self._slot(segment.tile))

    def _met(self, used: Collection[str]) -> Body:
        if self._is_fixup:
            return ()
        names, tile = self.names, sym(self.names.tile)
        counter = ElementRead(names.arrivals, (self._counter(tile),))
        finish = renamed(self._finish(tile), {*used} - {names.s})
        return Arrive(names.last, counter, self._parts(tile)), If(Flag(names.last), finish)

    def _finish(self, tile: Expr) -> Body:
        """The tile's body with the fold in place of its panels."""
        if self.merge is Merge.ATOMIC_WORKSPACE:
            fold = self.slots.taken_whole(self._counter(tile))
        else:
            base = self._text(self.form.slot_base(tile), tile)
            fold = self.slots.fold(base, self._parts(tile))
        return folded(self.nest.body, fold)

    # --- the second kernel

    def _fixup_grid(self) -> Grid:
        names, form, tile = self.names, self.form, sym(self.names.tile)
        axes = decode(self.nest.axes, self.nest.order, tile, self.taken)
        finish: Body = (*axes, *self._finish(tile))
        if isinstance(form, SplitKForm):
            head = Let(names.tile, form.first_tile + sym(names.unit)), *self._who_meets(tile)
            is_split = Cmp(">", self._parts(tile), to_expr(1))
            work = finish if self.is_split_known else (If(is_split, finish),)
            return Grid((GridAxis(names.unit, form.tiles),), (*head, *work))
        assert isinstance(form, StreamKForm)
        _, end = unit_range(form.bounds, sym(names.unit), sym(names.total), form.units)
        head = (
            Let(names.it, form.first_tile * form.panels + end),
            Let(names.tile, floordiv(sym(names.it), form.panels)),
            *self._who_meets(tile),
        )
        is_cut = Cmp("!=", mod(sym(names.it), form.panels), to_expr(0))
        is_first = Cmp("==", self._counter(tile), sym(names.unit))
        axis = GridAxis(names.unit, form.units - 1)
        return Grid((axis,), (*head, If(AllOf((is_cut, is_first)), finish)))


def _is_plain(expr: Expr | ElementRead) -> bool:
    return isinstance(expr, Expr) and (expr.is_Symbol or expr.is_Integer)


def _put(expr: Expr, part: Expr, name: str) -> Expr:
    """`expr` with `name` in place of `part`."""
    return expr.subs(part, sym(name))  # pyright: ignore[reportReturnType]
