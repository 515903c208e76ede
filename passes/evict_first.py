"""Mark loads of elements that nothing reads again, so that caches drop them first.

Before:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {      # M <= BM: one row of tiles
      ...
          coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
After `evict-first`:
          coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked evict_first

The word is a hint to the backend. A cold read of 117 MB took 32.2 us on an H200 with it and 36.7
without, it seems since lines that wait to be written back need not be driven out. Loads that go to
registers have it by `eviction_policy` of `tl.load`, as those of a GEMV, and copies through
descriptors by what the emitted file adds to Triton's code; asynchronous copies have none.

`shared=true` marks every load of a parameter. It pays where the tiles that read the same elements
run at the same time, so that the first read of them serves all: 256 x 256 x 32768 fell from 18.0
us to 16.3. It costs where they do not, or where rows begin within a sector of 32 bytes, whose rest
the next panel reads: 7427 x 7976 x 3416 rose from 728 us to 920.

Requires: EF01 the kernel's root is a grid of tiles; EF02 a parameter is read by one load alone,
    each element once: starts and indices are variables of the grid and of loops, each used once,
    any other variable around the load has one value, and no `while` is around it (`shared=true`: a
    parameter is read by loads); EF03 one of these is not marked yet. Parameters that may be the
    same storage count as one.
Guarantees: same values, same bits. No workspace, no zeroing.
Not handled: windows that overlap, elements read by hand-made indices.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.boxes import meanings
from loopir.effects import buffers_read
from loopir.nodes import Body, For, Grid, Kernel, Load, Program, Stmt, TileAxis, While
from loopir.printer import cond_text
from loopir.symbols import Expr, substitute, sym, to_expr, try_evaluate
from loopir.walk import Path, enclosing, grid_axes, map_bodies, walk, walk_program
from passes.base import Pass, Refusal, Rows
from passes.options import option

_RULE = "a parameter is read by one load alone, each of its elements once"


@dataclass(frozen=True)
class Plan:
    """The parameters whose loads to mark."""

    buffers: tuple[str, ...]


@dataclass(frozen=True)
class EvictFirstPass(Pass):
    """Tell caches to drop first what is read once."""

    name: ClassVar[str] = "evict-first"

    shared: bool = option(False, "mark what several tiles read, too")

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """The parameters that are read once, or why there are none."""
        numbers = range(len(program.kernels))
        found = [each for n in numbers for each in _judged(program, n, self.shared)]
        once = [each for each in found if not isinstance(each, Refusal)]
        marked = dict.fromkeys(load.source.buffer for _, load in once if not load.evict_first)
        if marked:
            return Plan(tuple(marked))
        if once:
            return tuple(_marked_already(path) for path, _ in once)
        return tuple(r for r in found if isinstance(r, Refusal)) or (_no_load(),)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        kernels = (replace(k, body=_marked(k.body, plan.buffers)) for k in program.kernels)
        return replace(program, kernels=tuple(kernels))

    def report(self, plan: Plan) -> Rows:
        return (("shared" if self.shared else "read once", ", ".join(plan.buffers)),)


def _judged(
    program: Program, number: int, is_shared: bool
) -> Iterator[tuple[Path, Load] | Refusal]:
    """Each load of a parameter that reads every element once, or any number of times if shared, and
    why others may not."""
    kernel = program.kernels[number]
    at: Path = ("kernels", number)
    if not any(isinstance(stmt, Grid) for stmt in kernel.body):
        yield _no_grid(at)
        return
    names = {param.name for param in kernel.params}
    for path, stmt in walk(kernel.body, (*at, "body")):
        if isinstance(stmt, Load) and stmt.source.buffer in names:
            why = "" if is_shared else _read_again(program, kernel, path, stmt)
            hint = "leave it out, or say shared=true if the tiles that read it run at the same time"
            yield Refusal("EF02", _RULE, path, why, hint) if why else (path, stmt)


def _no_grid(at: Path) -> Refusal:
    """EF01"""
    rule = "the kernel's root is a grid of tiles"
    hint = "run it where there is one: behind offload, before stream-k makes the kernel persistent"
    return Refusal("EF01", rule, at, "no grid at its root", hint)


def _no_load() -> Refusal:
    """EF02"""
    return Refusal("EF02", _RULE, ("kernels", 0), "no load of a parameter", "leave it out")


def _marked_already(at: Path) -> Refusal:
    """EF03"""
    return Refusal("EF03", "a load is marked once", at, "marked already", "leave it out")


# --- what is read once


def _read_again(program: Program, kernel: Kernel, path: Path, load: Load) -> str:
    """Why elements of the buffer may be read more than once; empty if they are not."""
    buffer = load.source.buffer
    same = _same_storage(program, buffer)
    readers = sum(not same.isdisjoint(buffers_read(stmt)) for _, stmt in walk_program(program))
    if readers > 1:
        names = " or ".join(f"`{name}`" for name in sorted(same))
        return f"{names} is read by {readers} statements"
    values = meanings(kernel)
    around = dict(_variables(kernel, path[3:], values))
    used = [_variable(e, load.source.axes, around, values) for e in load.source.index]
    named = [name for name in used if name]
    if None in used or len(set(named)) < len(named):
        return f"places of `{buffer}` are no blocks side by side"
    for name, extent in around.items():
        if name not in named and extent != 1:
            times = "again" if extent is None else f"{extent} times"
            return f"`{buffer}` is read {times} along `{name}`"
    return ""


def _same_storage(program: Program, buffer: str) -> frozenset[str]:
    """The buffer, and the parameters that may be the same storage, by way of others too."""
    pairs = [frozenset((alias.a, alias.b)) for k in program.kernels for alias in k.aliases]
    found, more = frozenset[str](), frozenset((buffer,))
    while more != found:
        found, more = more, more.union(*(pair for pair in pairs if pair & more))
    return found


def _variables(
    kernel: Kernel, path: Path, values: dict[str, Expr]
) -> Iterator[tuple[str, int | None]]:
    """The variables of grids and loops around the statement at `path` of the kernel's body, each
    with how many values it has, where that is known; of a `while` the text of its head."""
    for _, stmt in enclosing(kernel.body, path):
        for axis in grid_axes(stmt):
            yield axis.iv, try_evaluate(substitute(axis.extent, values), {})
        if isinstance(stmt, For):
            trips = (stmt.hi - stmt.lo) / stmt.step
            yield stmt.iv, try_evaluate(substitute(trips, values), {})
        if isinstance(stmt, While):
            yield f"while {cond_text(stmt.cond)}", None


def _variable(
    index: Expr, axes: tuple[TileAxis, ...], around: dict[str, int | None], values: dict[str, Expr]
) -> str | None:
    """The variable that picks the places along one index of a buffer, "" where they are always the
    same; None where they may overlap."""
    along = next((axis for axis in axes if index == sym(axis.name)), None)
    start = substitute(index if along is None else along.start, values)
    size = to_expr(1) if along is None else substitute(along.size, values)
    if not start.free_symbols:
        return ""
    return next((name for name in around if start == sym(name) * size), None)


def _marked(body: Body, buffers: tuple[str, ...]) -> Body:
    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Load) and stmt.source.buffer in buffers:
            return replace(stmt, evict_first=True)
        return map_bodies(stmt, lambda nested: _marked(nested, buffers))

    return tuple(map(changed, body))
