"""Who meets in a split tile: the closed form of the schedule in the names of the walk around."""

from dataclasses import dataclass

from loopir.nodes import ElementRead, Let
from loopir.symbols import Expr, sym, to_expr
from passes.decomposition import ClosedForm, SplitKForm, StreamKForm
from passes.stream_k.names import Names


@dataclass(frozen=True)
class Contributors:
    """`form`: the part of the schedule that splits tiles."""

    form: ClosedForm
    names: Names

    def lets(self, tile: Expr) -> tuple[Let, ...]:
        """`first`: what tells this split tile from others; `parts`: its contributors; those that
        are no single name already."""
        first, parts = self._spelled(self.form.counter(tile)), self.form.contributors(tile)
        lets = (
            Let(self.names.first, first),
            Let(self.names.parts, self._text(to_expr(parts), tile)),
        )
        return tuple(let for let in lets if not _is_plain(let.expr))

    def count(self, tile: Expr) -> Expr:
        """The number of contributors, as `lets` leaves it."""
        parts = to_expr(self.form.contributors(tile))
        return parts if _is_plain(parts) else sym(self.names.parts)

    def counter(self, tile: Expr) -> Expr:
        """A number that no other split tile has."""
        return self._text(self.form.counter(tile), tile)

    def base(self, tile: Expr) -> Expr:
        """The slot of the first contributor."""
        return self._text(self.form.slot_base(tile), tile)

    def slot(self, tile: Expr) -> Expr:
        """The slot of this unit."""
        is_slice = isinstance(self.form, SplitKForm)
        unit, split = sym(self.names.unit), sym(self.names.split)
        ordinal = split if is_slice else self.form.slot(unit, tile)
        return self._text(self.form.slot_base(tile) + ordinal, tile)

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


def _is_plain(expr: Expr | ElementRead) -> bool:
    return isinstance(expr, Expr) and (expr.is_Symbol or expr.is_Integer)


def _put(expr: Expr, part: Expr, name: str) -> Expr:
    """`expr` with `name` in place of `part`."""
    return expr.subs(part, sym(name))  # pyright: ignore[reportReturnType]
