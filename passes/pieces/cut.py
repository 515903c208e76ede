"""A stretch of statements on a part of its tiles."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopir.nodes import (
    Access,
    Alloc,
    Apply,
    Atomic,
    AxisReduce,
    Body,
    Cast,
    Ewise,
    Ewise_,
    Expand,
    Load,
    Mask,
    Part,
    Stmt,
    Store,
)
from loopir.symbols import Expr
from loopir.tile_types import Tiles
from loopir.walk import map_bodies
from passes.pieces.ties import Dim, dims_of


@dataclass(frozen=True)
class Knife:
    """Leaves the elements `start`, `start + 1`, ... of the tiles in `axes`, `size` of them, each
    along its axis there. `tiles`: their types before."""

    axes: Mapping[str, int]
    start: Expr
    size: Expr
    tiles: Tiles

    def body(self, body: Body) -> Body:
        return tuple(map(self._stmt, body))

    def _stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Alloc(name) if name in self.axes:
                at = self.axes[name]
                return replace(stmt, shape=(*stmt.shape[:at], self.size, *stmt.shape[at + 1 :]))
            case Load(tile, source) if tile in self.axes:
                return replace(stmt, source=self._access(source, self.axes[tile]))
            case Store(target, tile) | Atomic(_, target, tile) if tile in self.axes:
                return replace(stmt, target=self._access(target, self.axes[tile]))
            case Ewise(_, expr):
                return replace(stmt, expr=self._expr(expr, stmt))
        return map_bodies(stmt, self.body)

    def _access(self, access: Access, at: int) -> Access:
        axis = access.axes[at]
        axis = replace(axis, start=axis.start + self.start, size=self.size)
        return replace(access, axes=(*access.axes[:at], axis, *access.axes[at + 1 :]))

    def _expr(self, expr: Ewise_, stmt: Ewise) -> Ewise_:
        """A mask counts positions from the start of its tile."""
        match expr:
            case Mask(arg, axis):
                inner = self._expr(arg, stmt)
                dim = dims_of(arg, self.tiles, stmt, [])[axis]
                moved = expr.start + self.start if self._is_cut(dim) else expr.start
                return replace(expr, arg=inner, start=moved)
            case Apply(_, args):
                return replace(expr, args=tuple(self._expr(a, stmt) for a in args))
            case Cast(_, arg) | Expand(arg) | AxisReduce(_, arg) | Part(arg):
                return replace(expr, arg=self._expr(arg, stmt))
        return expr

    def _is_cut(self, dim: Dim | None) -> bool:
        return dim is not None and self.axes.get(dim.tile) == dim.axis
