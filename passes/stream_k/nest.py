"""Taking a kernel apart: the parallel grid, the statements before, inside and after its one
Reduce."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from loopir.deps import dependences
from loopir.nodes import (
    Body,
    For,
    Grid,
    Grid1D,
    GridAxis,
    Kernel,
    Param,
    Program,
    Reduce,
    TileOrder,
)
from loopir.scope import constants
from loopir.symbols import Expr, ceildiv, try_evaluate
from loopir.walk import Path, Placed, enclosing, grid_band, is_wave_loop, node_at, walk
from passes.base import Refusal

if TYPE_CHECKING:
    import networkx as nx

#: from a statement, to one, what the dependence is
Edge: TypeAlias = tuple[Path, Path, dict[str, Any]]


@dataclass(frozen=True)
class Nest:
    """A grid of output tiles around one Reduce. `before`, `inside` and `after` hold the leaf and
    block statements of the grid body in text order, relative to the Reduce; paths lead from the
    program."""

    kernel: Kernel
    axes: tuple[GridAxis, ...]
    order: TileOrder
    body: Body
    grid_path: Path
    body_path: Path
    reduce: Reduce
    reduce_path: Path
    before: tuple[Placed, ...]
    inside: tuple[Placed, ...]
    after: tuple[Placed, ...]
    env: dict[str, int]

    @property
    def loop(self) -> For:
        """The panel loop; the verifier makes it the only statement of the Reduce."""
        loop = self.reduce.body[0]
        assert isinstance(loop, For)
        return loop

    @property
    def loop_path(self) -> Path:
        return (*self.reduce_path, "body", 0)

    @property
    def statements(self) -> tuple[Placed, ...]:
        """All but what encloses the Reduce."""
        return (*self.before, *self.inside, *self.after)

    @property
    def accumulators(self) -> frozenset[str]:
        return frozenset(a.tile for a in self.reduce.accumulators)

    @property
    def grid_names(self) -> frozenset[str]:
        return frozenset(axis.iv for axis in self.axes)

    @cached_property
    def dependences(self) -> "nx.MultiDiGraph":
        """Nodes are paths from the kernel, those of the nest less their first two steps."""
        return dependences(self.kernel)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The dependences, between paths from the program."""
        head, edges = self.grid_path[:2], self.dependences.edges(data=True)
        return tuple(((*head, *source), (*head, *target), edge) for source, target, edge in edges)

    def inner(self, path: Path) -> Path:
        """The path, from the grid's body, of a statement in it."""
        return path[len(self.body_path) :]

    def loops_around(self, path: Path) -> tuple[For, ...]:
        """The loops between the grid and a statement; around the Reduce they are wave loops."""
        around = enclosing(self.body, self.inner(path))
        return tuple(stmt for _, stmt in around if isinstance(stmt, For))

    def trips(self, loop: For) -> int:
        """How often a wave loop turns; the verifier makes that a constant."""
        turns = self.constant(ceildiv(loop.hi - loop.lo, loop.step))
        assert turns is not None
        return turns

    def param(self, name: str) -> Param | None:
        return next((p for p in self.kernel.params if p.name == name), None)

    def constant(self, expr: Expr) -> int | None:
        return try_evaluate(expr, self.env)


def find_nest(program: Program) -> Nest | tuple[Refusal, ...]:
    """The nest of the program's only kernel, or the structural criteria it fails (SK01, SK02,
    SK15)."""
    if len(program.kernels) != 1:
        found = f"{len(program.kernels)} kernels"
        return (_sk01(("kernels", 0), found, "make it two programs, and apply the pass to one"),)
    kernel = program.kernels[0]
    root_path: Path = ("kernels", 0, "body", 0)
    root = kernel.body[0]
    if isinstance(root, Grid1D):
        return (_sk15(root_path, root),)
    if not isinstance(root, Grid):
        hint = "start from a tiled grid: tile,offload,local-storage make one of a nest"
        return (_sk01(root_path, "no grid roots the kernel", hint),)
    grids = tuple(grid_band(root, root_path))
    grid_path, innermost = grids[-1]
    body_path: Path = (*grid_path, "body")
    placed = tuple(walk(innermost.body, body_path))
    reduces = [p for p, stmt in placed if isinstance(stmt, Reduce)]
    if len(reduces) != 1:
        return (_sk02(reduces[1] if reduces else grid_path, len(reduces)),)
    path = reduces[0]
    between = tuple(_not_wave_loops(innermost, path, body_path))
    if between:
        return between
    inside = tuple(p for p in placed if p[0][: len(path)] == path and len(p[0]) > len(path))
    return Nest(
        kernel=kernel,
        axes=tuple(axis for _, grid in grids for axis in grid.axes),
        order=innermost.order,
        body=innermost.body,
        grid_path=root_path,
        body_path=body_path,
        reduce=node_at(program, path),
        reduce_path=path,
        before=tuple(p for p in placed if _precedes(p[0], path)),
        inside=inside,
        after=tuple(p for p in placed if _precedes(path, p[0]) and p not in inside),
        env=constants(kernel),
    )


def _not_wave_loops(innermost: Grid, path: Path, body_path: Path) -> Iterator[Refusal]:
    """SK01 for each statement around the Reduce that is no wave loop; the verifier makes the trip
    of those constant."""
    for inner, stmt in enclosing(innermost.body, path[len(body_path) :]):
        if not is_wave_loop(stmt):
            found = f"a {type(stmt).__name__.lower()} statement between the grid and the reduce"
            hint = "only wave loops with a constant trip count may stand there"
            yield _sk01((*body_path, *inner), found, hint)


def _precedes(a: Path, b: Path) -> bool:
    """Whether `a` stands before `b` in text order and does not contain it. One of them is the path
    of the Reduce, which no `if` contains, so that they part at an index."""
    pairs = zip(a, b, strict=False)
    return next((int(x) < int(y) for x, y in pairs if x != y), False)


def _sk01(path: Path, found: str, hint: str) -> Refusal:
    return Refusal("SK01", "a parallel grid of output tiles roots the kernel", path, found, hint)


def _sk02(path: Path, count: int) -> Refusal:
    found = f"{count} reduce statements in the grid body"
    hint = "combine them into one reduce with several accumulators, or split the kernel in two"
    return Refusal(
        "SK02",
        "exactly one reduce in the grid body",
        path,
        found,
        hint if count else "mark the panel loop as `reduce (acc: add) { for ... }`",
    )


def _sk15(path: Path, grid: Grid1D) -> Refusal:
    found = f"grid1d ({grid.iv}) is persistent already"
    return Refusal(
        "SK15",
        "the kernel is not persistent yet",
        path,
        found,
        "apply stream-k once, to the grid form",
    )


def tile_count(axes: tuple[GridAxis, ...]) -> Expr:
    """The number of output tiles: the product of the grid's extents."""
    total: Expr = axes[0].extent
    for axis in axes[1:]:
        total = total * axis.extent
    return total
