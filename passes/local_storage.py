"""Give every local tile of a block its place: operands in shared memory, the rest in registers.

Before:
    alloc acc: local f32[BM, BN]
    alloc a: local bf16[BM, BK]
    alloc b: local bf16[BK, BN]
    ...
      for kp in 0 .. P {
        load a, A[ti * BM +: BM, kp * BK +: BK] masked
        load b, B[kp * BK +: BK, tj * BN +: BN] masked
        dot acc, a, b
      }
After `local-storage`:
    alloc acc: register f32[BM, BN]
    alloc a: shared bf16[BM, BK]
    alloc b: shared bf16[BK, BN]
    ...
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }

A tile is staged through shared memory if one load of the panel loop, in no condition or loop inside
it, is all that writes the tile, and if this load, with the lets it needs, can go to the front of
the panel; not in a wave loop, where no barrier may stand. Other tiles, single elements and
accumulators go to registers.

Requires: LS01 a tile is local; LS02 the kernel has a grid (docs/refusals.md).
Guarantees: every element is loaded once a panel, as before, and every sum keeps its order: same
    values, same bits. Tiles that have a place keep it. No workspace, no zeroing.
Not handled: how much shared memory a target has; fragments (`mma-expand`); more than one buffer a
    tile, for loads that run ahead of the compute.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from loopir.deps import dependences
from loopir.effects import tiles_written
from loopir.nodes import Alloc, Arrive, Barrier, Body, For, Kernel, Let, Load, Program, Reduce, Stmt
from loopir.scope import allocs
from loopir.types import Space
from loopir.walk import Path, enclosing, is_parallel_loop, is_wave_loop, map_bodies, walk
from passes.base import Pass, Refusal, Rows

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Placement:
    """Of one kernel. `registers` and `shared`: its local tiles. `fronts`: the variable of each
    panel loop that stages tiles -> the positions of the statements that go first."""

    registers: tuple[str, ...]
    shared: tuple[str, ...]
    fronts: Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class Plan:
    """The placement of each kernel, in order."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True)
class LocalStoragePass(Pass):
    """Stage what the panel loop loads through shared memory; put other local tiles in registers."""

    name: ClassVar[str] = "local-storage"

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """Where each local tile goes, or every reason against it."""
        if not any(map(_local_tiles, program.kernels)):
            return (_nothing_to_do(program),)
        reasons = tuple(r for i, k in enumerate(program.kernels) for r in _no_grid(k, i))
        return reasons or Plan(tuple(map(_placement, program.kernels)))

    def rewrite(self, program: Program, plan: Plan) -> Program:
        kernels = zip(program.kernels, plan.placements, strict=True)
        return replace(
            program, kernels=tuple(replace(k, body=_placed(k.body, p)) for k, p in kernels)
        )

    def report(self, plan: Plan) -> Rows:
        def names(space: str) -> str:
            return ", ".join(n for p in plan.placements for n in getattr(p, space)) or "none"

        return ("shared", names("shared")), ("registers", names("registers"))


def _local_tiles(kernel: Kernel) -> dict[str, Alloc]:
    return {n: a for n, a in allocs(kernel).items() if a.space is Space.LOCAL}


def _nothing_to_do(program: Program) -> Refusal:
    rule = "a tile is local"
    found = "every tile has a place" if any(map(allocs, program.kernels)) else "no tile"
    hint = "apply local-storage once, to tiles that are `alloc`ed as local"
    return Refusal("LS01", rule, ("kernels", 0), found, hint)


def _no_grid(kernel: Kernel, number: int) -> Iterator[Refusal]:
    """LS02"""
    if is_parallel_loop(kernel.body[0]) and _local_tiles(kernel):
        rule = "a tile is placed for the block of a grid, not for an iteration of a parallel loop"
        found, hint = "a parallel loop at the root", "put offload before local-storage"
        yield Refusal("LS02", rule, ("kernels", number, "body", 0), found, hint, "parallel")


def _placement(kernel: Kernel) -> Placement:
    local = _local_tiles(kernel)
    fronts = dict(_fronts(kernel, local)) if local else {}
    shared = {
        stmt.tile
        for _, loop in _panel_loops(kernel)
        for i in fronts.get(loop.iv, ())
        if isinstance(stmt := loop.body[i], Load)
    }
    registers = tuple(n for n in local if n not in shared)
    return Placement(registers, tuple(n for n in local if n in shared), fronts)


def _fronts(kernel: Kernel, local: Mapping[str, Alloc]) -> Iterator[tuple[str, frozenset[int]]]:
    graph = dependences(kernel)
    for path, loop in _panel_loops(kernel):
        front = _front(graph, path, loop.body, _candidates(kernel, loop, local))
        if front:
            yield loop.iv, front


def _panel_loops(kernel: Kernel) -> Iterator[tuple[Path, For]]:
    """The loops of the reduces that stand in no wave loop, with the paths of their bodies."""
    for path, stmt in walk(kernel.body, ("body",)):
        around = (s for _, s in enclosing(kernel.body, path[1:]))
        if isinstance(stmt, Reduce) and not any(map(is_wave_loop, around)):
            loop = stmt.body[0]
            assert isinstance(loop, For), "V37: a reduce holds one loop"
            yield (*path, "body", 0, "body"), loop


def _candidates(kernel: Kernel, loop: For, local: Mapping[str, Alloc]) -> frozenset[int]:
    """The positions of the loads whose tile nothing else writes."""
    statements = [s for _, s in walk(kernel.body)]
    written = Counter(name for s in statements for name in tiles_written(s))
    kept = {a.tile for s in statements if isinstance(s, Reduce) for a in s.accumulators}
    fit = {n for n, a in local.items() if a.shape and written[n] == 1 and n not in kept}
    return frozenset(i for i, s in enumerate(loop.body) if isinstance(s, Load) and s.tile in fit)


def _front(
    graph: "nx.MultiDiGraph", path: Path, body: Body, loads: frozenset[int]
) -> frozenset[int]:
    """Those of `loads` that can go before all other statements of `body`, and the lets and allocs
    that they need, which can go along."""
    first = dict[int, frozenset[int]]()
    for i, stmt in enumerate(body):
        if _is_fence(stmt):
            break
        earlier = _earlier(graph, path, i)
        if (i in loads or isinstance(stmt, Let | Alloc)) and earlier <= first.keys():
            first[i] = frozenset((i,)).union(*(first[j] for j in earlier))
    return frozenset().union(*(needed for i, needed in first.items() if i in loads))


def _is_fence(stmt: Stmt) -> bool:
    """What other warps or blocks did before it may be seen behind it only."""
    return any(isinstance(s, Barrier | Arrive) for _, s in walk((stmt,)))


def _earlier(graph: "nx.MultiDiGraph", path: Path, position: int) -> frozenset[int]:
    """Positions before `position` of what a statement must stay behind in one iteration."""
    sources = (
        source
        for source, _, edge in graph.in_edges((*path, position), data=True)
        if edge["carried_by"] is None and source[: len(path)] == path
    )
    return frozenset(source[len(path)] for source in sources) - {position}


def _placed(body: Body, placement: Placement) -> Body:
    def moved(stmt: Stmt) -> Stmt:
        match stmt:
            case Alloc(name, Space.LOCAL):
                is_shared = name in placement.shared
                return replace(stmt, space=Space.SHARED if is_shared else Space.REGISTER)
            case For(iv) if iv in placement.fronts:
                stmt = replace(stmt, body=_staged(stmt.body, placement, placement.fronts[iv]))
        return map_bodies(stmt, lambda nested: _placed(nested, placement))

    return tuple(map(moved, body))


def _staged(body: Body, placement: Placement, front: frozenset[int]) -> Body:
    """A panel: loads, barrier, compute, and a barrier before the next panel's loads."""
    loads = tuple(_cooperative(s, placement) for i, s in enumerate(body) if i in front)
    rest = tuple(s for i, s in enumerate(body) if i not in front)
    return (*loads, Barrier(), *rest, Barrier())


def _cooperative(stmt: Stmt, placement: Placement) -> Stmt:
    is_staged = isinstance(stmt, Load) and stmt.tile in placement.shared
    return replace(stmt, cooperative=True) if is_staged else stmt
