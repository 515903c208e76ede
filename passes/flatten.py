"""Let a persistent block load the first panels of its next tile while it finishes this one.

Before:
    for tile in unit .. TILES step UNITS {
After `flatten`:
    for tile in unit .. TILES step UNITS flattened {

The word is a hint to the backend, which makes one software-pipelined loop of the loop over tiles
and the loop over panels (`flatten=True` of `tl.range`).

Requires: FL01 a sequential loop has a reduce directly in its body, and no branch, as that of
    `stream-k{decomposition=data-parallel units=...}`; FL02 it is not flattened yet.
Guarantees: same values, same bits. No workspace, no zeroing.
Not handled: walks that come to parts of tiles, since what they do behind a reduce depends on the
    part, and Triton's fusion of loops takes no branch.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.nodes import Body, For, If, Program, Reduce, While
from loopir.types import ForKind
from loopir.walk import Path, map_bodies, walk
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
        marked = tuple(loop.iv for _, loop in loops if not loop.flattened)
        return Plan(marked) if marked else (_refusal(loops[0][0] if loops else None),)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        kernels = tuple(replace(k, body=_flattened(k.body)) for k in program.kernels)
        return replace(program, kernels=kernels)

    def report(self, plan: Plan) -> Rows:
        return (("flattened loops", ", ".join(plan.loops)),)


def _walks_tiles(loop: For) -> bool:
    has_branch = any(isinstance(s, If | While) for _, s in walk(loop.body))
    has_reduce = any(isinstance(s, Reduce) for s in loop.body)
    return loop.kind is ForKind.SEQUENTIAL and has_reduce and not has_branch


def _flattened(body: Body) -> Body:
    return tuple(
        replace(s, flattened=True)
        if isinstance(s, For) and _walks_tiles(s)
        else map_bodies(s, _flattened)
        for s in body
    )


def _refusal(path: Path | None) -> Refusal:
    if path is None:
        rule = "a sequential loop over tiles has a reduce in its body, and no branch"
        hint = "run stream-k with decomposition=data-parallel units=... before"
        return Refusal("FL01", rule, ("kernels", 0), "no such loop", hint)
    return Refusal("FL02", "a loop is flattened once", path, "flattened already", "leave it out")
