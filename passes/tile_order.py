"""Choose which output tile each linear tile number names, so that blocks that run together share
operand tiles in cache.

Before:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
After `tile-order{group=8}`:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] order grouped(8) {

Requires: TO01 each kernel's root is a grid of two axes or more; TO02 a group of at least one, and
    only with the grouped order; TO03 the kernel is not persistent yet.
Guarantees: every tile is computed once, by the same operations: same values, same bits. No
    workspace, no zeroing.
Not handled: the axes before the last two keep their row-major order.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.nodes import Grid, Grid1D, Kernel, Program, TileOrder
from loopir.types import OrderKind
from loopir.walk import Path
from passes.base import Pass, Refusal, Rows
from passes.options import option

DEFAULT_GROUP = 8


@dataclass(frozen=True)
class TileOrderPass(Pass):
    """Set the order of the output tiles: grouped in bands of rows, along_m or along_n."""

    name: ClassVar[str] = "tile-order"

    group: int | None = option(None, f"rows of tiles in a band, {DEFAULT_GROUP} if not said")
    order: OrderKind = option(OrderKind.GROUPED, "which tiles follow each other", bare=True)

    def match(self, program: Program) -> TileOrder | tuple[Refusal, ...]:
        """The order to set, or every reason against it."""
        kernels = enumerate(program.kernels)
        reasons = (*self._bad_group(), *(r for i, k in kernels for r in _bad_root(k, i)))
        return reasons or self._tile_order()

    def rewrite(self, program: Program, plan: TileOrder) -> Program:
        return replace(program, kernels=tuple(_ordered(k, plan) for k in program.kernels))

    def report(self, plan: TileOrder) -> Rows:
        is_grouped = plan.kind is OrderKind.GROUPED
        return (("tile order", f"grouped({plan.group})" if is_grouped else plan.kind.value),)

    def _tile_order(self) -> TileOrder:
        if self.order is not OrderKind.GROUPED:
            return TileOrder(self.order)
        return TileOrder(self.order, DEFAULT_GROUP if self.group is None else self.group)

    def _bad_group(self) -> tuple[Refusal, ...]:
        rule = "a group has at least one row of tiles, and belongs to the grouped order"
        if self.group is None:
            return ()
        if self.order is not OrderKind.GROUPED:
            found, hint = f"group={self.group} with {self.order.value}", "leave one of them out"
        elif self.group < 1:
            found, hint = f"group={self.group}", f"say group={DEFAULT_GROUP}, or leave it out"
        else:
            return ()
        return (Refusal("TO02", rule, ("kernels", 0), found, hint),)


def _bad_root(kernel: Kernel, number: int) -> tuple[Refusal, ...]:
    here: Path = ("kernels", number)
    for i, stmt in enumerate(kernel.body):
        if isinstance(stmt, Grid1D):
            return (_persistent((*here, "body", i)),)
    grids = [(i, s) for i, s in enumerate(kernel.body) if isinstance(s, Grid)]
    if not grids:
        return (_no_plane(here, "no grid at the root of the kernel"),)
    return tuple(
        _no_plane((*here, "body", i), f"a grid of {len(grid.axes)} axis")
        for i, grid in grids
        if len(grid.axes) < 2
    )


def _no_plane(path: Path, found: str) -> Refusal:
    rule = "a tile order arranges the last two axes of the kernel's grid"
    return Refusal("TO01", rule, path, found, "leave tile-order out for this kernel")


def _persistent(path: Path) -> Refusal:
    rule = "the order is set before tiles are decoded from a unit's iterations"
    hint = "put tile-order before the pass that makes the kernel persistent"
    return Refusal("TO03", rule, path, "a persistent kernel", hint)


def _ordered(kernel: Kernel, order: TileOrder) -> Kernel:
    body = (replace(s, order=order) if isinstance(s, Grid) else s for s in kernel.body)
    return replace(kernel, body=tuple(body))
