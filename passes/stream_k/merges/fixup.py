"""Partial tiles meet in a second kernel: its blocks fold the slots of a tile, or of a piece of it,
in k order, and run what followed the reduction there."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from loopir.nodes import (
    AllOf,
    AtMost,
    Binding,
    Body,
    Cmp,
    Cond,
    Grid,
    GridAxis,
    If,
    Kernel,
    Let,
)
from loopir.rename import fresh_name
from loopir.scope import allocs
from loopir.symbols import Expr, floordiv, mod, sym, to_expr
from loopir.tile_order import decode
from loopir.tile_types import tile_types
from passes.decomposition import StreamKForm, unit_range
from passes.pieces import Knife
from passes.stream_k.merges.partials import Partials
from passes.stream_k.merges.pieces import Pieces


@dataclass(frozen=True)
class Fixup(Partials):
    """A slot a contributor, and no counters. `pieces`: of a tile, a block each."""

    pieces: Pieces

    def told(self, tile: Expr) -> tuple[Let, ...]:
        return tuple(let for let in super().told(tile) if let.name != self.names.parts)

    def met(self, used: Collection[str]) -> Body:
        return ()

    def kernels(self, first: Kernel) -> tuple[Kernel, ...]:
        kept = tuple(r for r in first.requires if isinstance(r, AtMost))
        name = fresh_name(f"{first.name}_fixup", {first.name})
        where = (*first.where, *self._piece_sizes())
        return (replace(first, name=name, where=where, requires=kept, body=(self._grid(),)),)

    # --- which tile a block has

    def _grid(self) -> Grid:
        axis, head, conditions = self._ends() if self._is_ranges else self._tiles()
        tile = sym(self.names.tile)
        axes = decode(self.nest.axes, self.nest.order, tile, self.taken)
        finish: Body = (*axes, *self._finish_piece(tile))
        if conditions:
            is_split = conditions[0] if len(conditions) == 1 else AllOf(conditions)
            finish = (If(is_split, finish),)
        return Grid((axis, *self._piece_axes()), (*head, *finish))

    @property
    def _is_ranges(self) -> bool:
        return isinstance(self.form, StreamKForm)

    def _tiles(self) -> tuple[GridAxis, tuple[Let, ...], tuple[Cond, ...]]:
        """A block for every tile that may be split."""
        names, form, tile = self.names, self.form, sym(self.names.tile)
        head = Let(names.tile, form.first_tile + sym(names.unit)), *self.who.lets(tile)
        is_split = Cmp(">", self.who.count(tile), to_expr(1))
        axis = GridAxis(names.unit, to_expr(form.tiles))
        return axis, head, () if self.is_split_known else (is_split,)

    def _ends(self) -> tuple[GridAxis, tuple[Let, ...], tuple[Cond, ...]]:
        """A block for the end of every range but the last: the first to end in a split tile has
        it."""
        names, form, tile = self.names, self.form, sym(self.names.tile)
        assert isinstance(form, StreamKForm)
        _, end = unit_range(form.bounds, sym(names.unit), sym(names.total), form.units)
        head = (
            Let(names.it, form.first_tile * form.panels + end),
            Let(names.tile, floordiv(sym(names.it), form.panels)),
            *self.who.lets(tile),
        )
        is_cut = Cmp("!=", mod(sym(names.it), form.panels), to_expr(0))
        is_first = Cmp("==", self.who.counter(tile), sym(names.unit))
        return GridAxis(names.unit, form.units - 1), head, (is_cut, is_first)

    # --- which piece of it

    def _piece_axes(self) -> tuple[GridAxis, ...]:
        names = (self.names.of_pieces(cut.axis) for cut in self.pieces.cuts)
        return tuple(GridAxis(number, sym(count)) for number, count, _ in names)

    def _piece_sizes(self) -> tuple[Binding, ...]:
        first = allocs(self.nest.kernel)[self.nest.reduce.accumulators[0].tile]
        made: list[Binding] = []
        for cut in self.pieces.cuts:
            _, count, size = self.names.of_pieces(cut.axis)
            made.append(Binding(count, to_expr(cut.count)))
            made.append(Binding(size, floordiv(first.shape[cut.axis], sym(count))))
        return tuple(made)

    def _finish_piece(self, tile: Expr) -> Body:
        body, tiles = self.finish(tile), tile_types(self.nest.kernel)
        for cut in self.pieces.cuts:
            number, _, size = self.names.of_pieces(cut.axis)
            axes = {**cut.axes, **dict.fromkeys(self.slots.part_tiles, cut.axis)}
            body = Knife(axes, sym(number) * sym(size), sym(size), tiles).body(body)
        return body
