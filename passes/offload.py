"""Make the parallel loops at the root of a kernel the grid of its blocks.

Before:
    parallel ti in 0 .. ceildiv(M, BM) {
      parallel tj in 0 .. ceildiv(N, BN) {
        ...
      }
    }
After `offload`:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
      ...
    }

Requires: OF01 parallel loops root a kernel; OF02 each of them runs from 0 in steps of 1 to an end
    that no other one moves; OF03 no dependence crosses their iterations (docs/refusals.md).
Guarantees: each iteration runs once, as one block, by the same operations: same values, same bits.
    No workspace, no zeroing. Kernels that have a grid already stay as they are.
Not handled: bands whose extents depend on each other (triangles), which only nested grids can say.
    A band that no `tile` has been at is offloaded too: one element a block, right and slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from loopir.deps import Kind, dependences
from loopir.effects import buffers_read, buffers_written
from loopir.nodes import Atomic, For, Grid, GridAxis, Kernel, Program, Stmt
from loopir.printer import expr_text
from loopir.scope import constants
from loopir.symbols import Expr, count, imax, names_of, try_evaluate
from loopir.walk import Path, parallel_band
from passes.base import Pass, Refusal, Rows

Band: TypeAlias = tuple[tuple[Path, For], ...]


@dataclass(frozen=True)
class OffloadPass(Pass):
    """Make the parallel loops at the root of a kernel the grid of its blocks."""

    name: ClassVar[str] = "offload"

    def match(self, program: Program) -> "Plan | tuple[Refusal, ...]":
        """The grid of each kernel, or every reason against it."""
        bands = tuple(map(_band, program.kernels))
        if not any(bands):
            return (_no_band(program),)
        kernels = tuple(zip(program.kernels, bands, strict=True))
        reasons = tuple(r for i, k in enumerate(kernels) for r in _reasons(*k, ("kernels", i)))
        return reasons or Plan(tuple(_grid(k, band) if band else None for k, band in kernels))

    def rewrite(self, program: Program, plan: "Plan") -> Program:
        kernels = zip(program.kernels, plan.grids, strict=True)
        return replace(
            program, kernels=tuple(replace(k, body=(g,)) if g else k for k, g in kernels)
        )

    def report(self, plan: "Plan") -> Rows:
        return tuple(("grid", _axes_text(grid)) for grid in plan.grids if grid)


@dataclass(frozen=True)
class Plan:
    """The new root of each kernel in order, None where it stays."""

    grids: tuple[Grid | None, ...]


def _axes_text(grid: Grid) -> str:
    return " * ".join(f"{axis.iv} < {expr_text(axis.extent)}" for axis in grid.axes)


def _band(kernel: Kernel) -> Band:
    return tuple(parallel_band(kernel.body[0], ("body", 0)))


def _no_band(program: Program) -> Refusal:
    root = program.kernels[0].body[0]
    rule = "parallel loops root the kernel"
    found = f"a {type(root).__name__.lower()}, whose iterations are blocks already"
    hint = "apply offload once, to the form with parallel loops"
    return Refusal("OF01", rule, ("kernels", 0, "body", 0), found, hint)


def _reasons(kernel: Kernel, band: Band, path: Path) -> Iterator[Refusal]:
    sizes = constants(kernel)
    variables = {loop.iv for _, loop in band}
    for here, loop in band:
        yield from _not_a_range((*path, *here), loop, sizes, variables)
    yield from _carried(kernel, band, path)


def _not_a_range(
    path: Path, loop: For, sizes: dict[str, int], variables: set[str]
) -> Iterator[Refusal]:
    """OF02"""
    rule = "a parallel loop runs from 0 in steps of 1 to an end that no other one moves"
    if try_evaluate(loop.lo, sizes) != 0 or try_evaluate(loop.step, sizes) != 1:
        found = f"{loop.iv} starts at {expr_text(loop.lo)} and goes by {expr_text(loop.step)}"
        hint = f"let {loop.iv} count iterations from 0, and put starts and steps into the indices"
        yield Refusal("OF02", rule, path, found, hint, loop.iv)
    if moved_by := sorted(names_of(loop.hi) & variables):
        found = f"the end of {loop.iv} depends on {', '.join(moved_by)}"
        hint = "let it run to the largest end, and skip by `if` what lies beyond the own one"
        yield Refusal("OF02", rule, path, found, hint, loop.iv)


def _carried(kernel: Kernel, band: Band, path: Path) -> Iterator[Refusal]:
    """OF03, once for each two statements."""
    if not band:
        return
    graph, loops = dependences(kernel), dict(band)
    seen = set()
    for source, target, edge in graph.edges(data=True):
        pair = frozenset((source, target))
        if edge["carried_by"] not in loops or pair in seen:
            continue
        statements = graph.nodes[source]["stmt"], graph.nodes[target]["stmt"]
        if not _commute(*statements):
            seen.add(pair)
            yield _of03((*path, *target), statements[1], loops[edge["carried_by"]], edge)


def _commute(a: Stmt, b: Stmt) -> bool:
    """Whether blocks may do both to one element: atomics of one operator."""
    return isinstance(a, Atomic) and isinstance(b, Atomic) and a.op is b.op


def _of03(path: Path, target: Stmt, loop: For, edge: dict[str, Any]) -> Refusal:
    (buffer,) = buffers_read(target) | buffers_written(target)
    is_aliased = buffer != edge["object"]
    place = f"{buffer}, an alias of {edge['object']}" if is_aliased else buffer
    is_written_twice = edge["kind"] is Kind.WAW
    why = "two write one element" if is_written_twice else "one reads what another writes"
    rule = "no dependence crosses the iterations of the parallel loops"
    found = f"iterations of {loop.iv} may meet in {place}: {why}"
    hint = f"index what is written by {loop.iv}, or make {loop.iv} a loop inside"
    if is_aliased:
        hint = "read from a copy, and drop the `alias`"
    return Refusal("OF03", rule, path, found, hint, buffer)


def _grid(kernel: Kernel, band: Band) -> Grid:
    sizes = constants(kernel)
    axes = tuple(GridAxis(loop.iv, _extent(loop.hi, sizes)) for _, loop in band)
    return Grid(axes, band[-1][1].body)


def _extent(end: Expr, sizes: dict[str, int]) -> Expr:
    """A loop to a negative end has no iteration; two such extents of a grid have a product."""
    value = try_evaluate(end, sizes)
    if value is None:
        return count(end)
    return end if value >= 0 else imax(0, end)
