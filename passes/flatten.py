"""Let a persistent block load the first panels of its next tile while it finishes this one.

Before:
    for turn in 0 .. WAVES + top + 1 - it // span {
      let first = max(tile - UNITS * WAVES, 0)
      ...
      if k0 == 0 and k1 == P {
        store C[ti * BM +: BM, tj * BN +: BN], acc masked
      } else {
        store partials[first + unit, 0 +: BM, 0 +: BN], acc
      }
After `flatten`:
    for turn in 0 .. WAVES + top + 1 - it // span flattened {
      ...
      if k0 == 0 and k1 == P {
        store C[ti * BM +: BM, tj * BN +: BN], acc masked
      } else {
        let first = max(tile - UNITS * WAVES, 0)
        store partials[first + unit, 0 +: BM, 0 +: BN], acc
      }

The word is a hint to the backend, which makes one software-pipelined loop of the loop over tiles
and the loop over panels (`flatten=True` of `tl.range`). Triton's FuseNestedLoops, which does that,
fails on a scalar from the tile's body that only a branch behind its panels reads.

Requires: FL01 a sequential loop has a reduce in its body, and nothing but it loops or waits there,
    as in `stream-k{decomposition=data-parallel units=...}`, and `decomposition=k-aligned` with
    `merge=fixup`; FL02 it is not flattened yet.
Guarantees: same values, same bits. No workspace, no zeroing.
Not handled: walks whose last arrivers fold, a loop in a branch: the fused loop has no stages then.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.nodes import Arrive, Body, For, If, Let, Program, Reduce, Set, Stmt, While
from loopir.rename import fresh_name, with_names
from loopir.symbols import Expr
from loopir.types import ForKind
from loopir.walk import Path, map_bodies, names_in_use, symbol_names, walk, walk_program
from passes.base import Pass, Refusal, Rows


@dataclass(frozen=True)
class Plan:
    """The variables of the loops to mark."""

    loops: tuple[str, ...]


@dataclass(frozen=True)
class FlattenPass(Pass):
    """Overlap the end of a tile with the loads of the next one, in persistent loops over tiles."""

    name: ClassVar[str] = "flatten"

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """The loops to mark, or why there are none."""
        loops = [
            (("kernels", number, *path), stmt)
            for number, kernel in enumerate(program.kernels)
            for path, stmt in walk(kernel.body, ("body",))
            if isinstance(stmt, For) and _walks_tiles(stmt)
        ]
        if not loops:
            return (_no_loop(program),)
        marked = tuple(loop.iv for _, loop in loops if not loop.flattened)
        return Plan(marked) if marked else (_flattened_already(loops[0][0]),)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        kernels = []
        for kernel in program.kernels:
            used = {*names_in_use(program, kernel)}
            kernels.append(replace(kernel, body=_flattened(kernel.body, used)))
        return replace(program, kernels=tuple(kernels))

    def report(self, plan: Plan) -> Rows:
        return (("flattened loops", ", ".join(plan.loops)),)


def _no_loop(program: Program) -> Refusal:
    """FL01"""
    rule = "a sequential loop over tiles has a reduce in its body, and no other loop"
    for path, stmt in walk_program(program):
        if isinstance(stmt, For | While) and any(isinstance(s, Reduce) for s in stmt.body):
            return Refusal("FL01", rule, path, *_why_not(stmt))
    hint = "run stream-k with decomposition=data-parallel units=... before"
    return Refusal("FL01", rule, ("kernels", 0), "no such loop", hint)


def _why_not(loop: For | While) -> tuple[str, str]:
    """What is found in a loop with a reduce, and what to do."""
    if isinstance(loop, While):
        found = "a walk of ranges, whose steps differ"
        return found, "say decomposition=k-aligned merge=fixup, or decomposition=data-parallel"
    if any(isinstance(s, Arrive) for _, s in walk(loop.body)):
        return "the last to arrive folds the parts in it", "say merge=fixup"
    return "a loop, a branch or a wait beside its reduce", "leave flatten out for this program"


def _flattened_already(path: Path) -> Refusal:
    """FL02"""
    return Refusal("FL02", "a loop is flattened once", path, "flattened already", "leave it out")


# --- which loops


def _walks_tiles(loop: For) -> bool:
    at = [i for i, stmt in enumerate(loop.body) if isinstance(stmt, Reduce)]
    if loop.kind is not ForKind.SEQUENTIAL or len(at) != 1:
        return False
    before, after = loop.body[: at[0]], loop.body[at[0] + 1 :]
    other = (s for _, s in (*walk(before), *walk(after)))
    is_plain = not any(isinstance(s, For | While | Reduce | Arrive | Set) for s in other)
    return is_plain and not any(isinstance(s, If) for s in before)


# --- the rewrite


def _flattened(body: Body, used: set[str]) -> Body:
    def changed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and _walks_tiles(stmt):
            return replace(stmt, flattened=True, body=_sunk(stmt.body, used))
        return map_bodies(stmt, lambda nested: _flattened(nested, used))

    return tuple(map(changed, body))


def _sunk(body: Body, used: set[str]) -> Body:
    """`body` with each scalar that only branches read in these; nothing changes what it is made
    of, since there is no `set`."""
    for let in [s for s in reversed(body) if isinstance(s, Let) and isinstance(s.expr, Expr)]:
        readers = [s for s in body if let.name in _names((s,))]
        if readers and all(isinstance(s, If) and let.name not in symbol_names(s) for s in readers):
            body = _moved(body, let, used)
    return body


def _names(body: Body) -> frozenset[str]:
    """The scalars that statements and those nested in them read."""
    return frozenset().union(*(symbol_names(s) for _, s in walk(body)))


def _moved(body: Body, let: Let, used: set[str]) -> Body:
    """The first branch has it by its name, others by one of their own."""
    name = let.name

    def begun(branch: Body) -> Body:
        nonlocal name
        if let.name not in _names(branch):
            return branch
        branch = with_names((let, *branch), {let.name: name})
        name = fresh_name(let.name, used)
        used.add(name)
        return branch

    others = (s for s in body if s is not let)
    return tuple(map_bodies(s, begun) if isinstance(s, If) else s for s in others)
