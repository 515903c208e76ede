"""One wave loop, taken apart: its statements, what its variable moves, and how to refuse it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import sympy

from loopir.deps import scalar_values
from loopir.effects import access_of
from loopir.errors import CodegenError
from loopir.nodes import Access, Alloc, For, Kernel, Let, Program, Stmt, TileAxis
from loopir.printer import excerpt
from loopir.scope import constants
from loopir.symbols import Expr, evaluate, names_of, substitute, sym, to_expr, try_evaluate
from loopir.tile_types import Tiles, tile_types
from loopir.walk import Path, is_wave_loop, node_at, substitute_node, symbol_names, walk


@dataclass(frozen=True)
class Wave:
    """The wave loop at `path` of `program`, whose own wave loops are collapsed already. `source` is
    the program as the user wrote it, of which a refusal shows a line."""

    program: Program
    source: Program
    path: Path

    @cached_property
    def loop(self) -> For:
        """With lo 0 and step 1."""
        loop: For = node_at(self.program, self.path)
        number = loop.lo + loop.step * sym(loop.iv)
        body = (
            loop.body if number == sym(loop.iv) else substitute_node(loop.body, {loop.iv: number})
        )
        return replace(loop, lo=to_expr(0), hi=to_expr(self.turns), step=to_expr(1), body=body)

    @cached_property
    def turns(self) -> int:
        """The number of waves; the verifier makes the bounds constants."""
        loop: For = node_at(self.program, self.path)
        return len(range(*(evaluate(e, self.sizes) for e in (loop.lo, loop.hi, loop.step))))

    @cached_property
    def kernel(self) -> Kernel:
        return node_at(self.program, self.path[:2])

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        return constants(self.kernel)

    @cached_property
    def types(self) -> Tiles:
        return tile_types(self.kernel)

    @cached_property
    def statements(self) -> tuple[tuple[Path, Stmt], ...]:
        """Every statement of the body, nested ones too, with paths from the loop."""
        return tuple(walk(self.loop.body, ("body",)))

    @cached_property
    def own(self) -> frozenset[str]:
        """The tiles that belong to each wave: those that the body allocates."""
        return frozenset(s.name for _, s in self.statements if isinstance(s, Alloc))

    @cached_property
    def moved(self) -> dict[str, Expr]:
        """The lets that depend on the wave, each as an expression of what none of them makes."""
        values = scalar_values(self.loop.body)
        return {name: value for name, value in values.items() if self._moves(value)}

    def access(self, stmt: Stmt) -> Access | None:
        """The access of a load, a store or an atomic, in terms of the wave variable."""
        return substitute_node(access_of(stmt), self.moved)

    def check_control(self) -> None:
        """CodegenError: the wave decides more than where the tiles of accesses start."""
        moving = {self.loop.iv, *self.moved}
        for path, stmt in self.statements:
            is_inlined = isinstance(stmt, Let) and stmt.name in self.moved
            if access_of(stmt) is None and not is_inlined and symbol_names(stmt) & moving:
                name = min(symbol_names(stmt) & moving)
                self.refuse(path, "it decides more than where the tiles of accesses start", name)

    def split_axis(self, path: Path, access: Access) -> int | None:
        """The axis along which the waves share the tile of `access`, side by side, in order; None
        where every wave has all of it. CodegenError: neither of the two."""
        moving = [i for i, a in enumerate(access.axes) if self._moves(a.start)]
        fixed = (
            *access.index,
            *(e for a in access.axes for e in (a.size, a.limit) if e is not None),
        )
        if any(map(self._moves, fixed)):
            message = "it moves an index or a limit, and may move only where one axis starts"
            self.refuse(path, message, self.loop.iv)
        if len(moving) > 1:
            message = f"it moves axes {' and '.join(map(str, moving))} of a tile at once"
            self.refuse(path, message, self.loop.iv)
        for i in moving:
            self._check_apart(path, i, access.axes[i])
        return moving[0] if moving else None

    def _moves(self, expr: Expr) -> bool:
        return self.loop.iv in names_of(expr)

    def _check_apart(self, path: Path, number: int, axis: TileAxis) -> None:
        next_start = substitute(axis.start, {self.loop.iv: sym(self.loop.iv) + 1})
        apart = try_evaluate(sympy.expand(next_start - axis.start), self.sizes)
        size = evaluate(axis.size, self.sizes)
        if apart is None:
            message = f"its parts do not start at one distance from each other along axis {number}"
            self.refuse(path, message, self.loop.iv)
        if apart != size:
            flaw = "overlap" if abs(apart) < size else "are not side by side in order"
            message = f"its parts are {size} wide and start {apart} apart along axis {number}: they"
            self.refuse(path, f"{message} {flaw}", self.loop.iv)

    def refuse(self, path: Path, message: str, focus: str = "") -> NoReturn:
        """Show the statement at `path` from the loop, or the loop itself where inner wave loops
        have moved the statements."""
        nested = walk(node_at(self.source, self.path).body)
        shown = self.path if any(is_wave_loop(s) for _, s in nested) else (*self.path, *path)
        raise CodegenError(
            f"@{self.kernel.name}: wave loop {self.loop.iv} is no whole-tile operation: {message}; "
            f"give each wave the next part of a tile, or write the whole-tile operation\n"
            f"{excerpt(self.source, shown, focus)}"
        )
