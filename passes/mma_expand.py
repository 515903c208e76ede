"""Put the accumulators of every `dot` into MMA fragments, where the matrix instructions keep them.

Before:
    alloc acc: register f32[BM, BN]
    ...
    dot acc, a, b
After `mma-expand`:
    alloc acc: fragment f32[BM, BN]
    ...
    dot acc, a, b

Requires: MX01 a dot accumulates into a register tile; MX02 each such tile is used as a whole: by
    fill, dot, ewise and store, never by a load or as an operand of a dot; MX03 the sides of each
    such dot are whole MMA steps (the verifier allows no accumulator type that an MMA lacks); MX04
    no atomic merges such a tile (docs/refusals.md).
Guarantees: only the space of these tiles changes: same values, same bits. No workspace, no zeroing.
    The atomic merges of `stream-k`, `atomic` and `atomic-workspace`, refuse the result (SK17), and
    this pass refuses the result of those (MX04): partial tiles of fragments meet by slots.
Not handled: which target has an MMA of which type (f32 in full precision: CDNA alone); where there
    is none the backend multiplies without, to the same precision.
Source of the steps: PTX ISA, `mma` and `wgmma` shapes; Triton's `tl.dot` takes no smaller ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.nodes import Alloc, Atomic, Body, Dot, Kernel, Load, Program, Stmt
from loopir.scope import allocs
from loopir.tile_types import MMA_SIDE, TileType, panel_step, tile_types
from loopir.types import Space
from loopir.walk import Path, map_bodies, walk
from passes.base import Pass, Refusal, Rows


@dataclass(frozen=True)
class Plan:
    """The names of the tiles to move, for each kernel in order."""

    tiles: tuple[frozenset[str], ...]


@dataclass(frozen=True)
class MmaExpandPass(Pass):
    """Put the accumulators of every dot into MMA fragments."""

    name: ClassVar[str] = "mma-expand"

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """The tiles of each kernel, or every reason against it."""
        plan = Plan(tuple(map(_accumulators, program.kernels)))
        reasons = tuple(
            reason
            for number, (kernel, tiles) in enumerate(zip(program.kernels, plan.tiles, strict=True))
            for reason in _reasons(kernel, ("kernels", number, "body"), tiles)
        )
        return reasons or (plan if any(plan.tiles) else (_nothing_to_do(program),))

    def rewrite(self, program: Program, plan: Plan) -> Program:
        kernels = zip(program.kernels, plan.tiles, strict=True)
        return replace(
            program,
            kernels=tuple(replace(k, body=_in_fragments(k.body, tiles)) for k, tiles in kernels),
        )

    def report(self, plan: Plan) -> Rows:
        names = (name for tiles in plan.tiles for name in sorted(tiles))
        return (("fragments", ", ".join(names)),)


def _accumulators(kernel: Kernel) -> frozenset[str]:
    """The register tiles that dots accumulate into."""
    made = allocs(kernel)
    dots = (s.acc for _, s in walk(kernel.body) if isinstance(s, Dot))
    return frozenset(t for t in dots if made[t].space is Space.REGISTER)


def _nothing_to_do(program: Program) -> Refusal:
    dots = ((p, s) for p, s in _statements(program) if isinstance(s, Dot))
    path, dot = next(dots, (("kernels", 0), None))
    rule = "a dot accumulates into a register tile"
    if dot is None:
        return Refusal("MX01", rule, path, "no dot", "leave mma-expand out for this program")
    found = f"{dot.acc}, as every accumulator of a dot, is no register tile"
    return Refusal("MX01", rule, path, found, "apply mma-expand once, to register tiles", dot.acc)


def _statements(program: Program) -> Iterator[tuple[Path, Stmt]]:
    for number, kernel in enumerate(program.kernels):
        yield from walk(kernel.body, ("kernels", number, "body"))


def _reasons(kernel: Kernel, body_path: Path, tiles: frozenset[str]) -> Iterator[Refusal]:
    """Every statement of the kernel that a fragment cannot have, by code and then in text order."""
    statements = tuple(walk(kernel.body, body_path))
    types = tile_types(kernel)
    for path, stmt in statements:
        yield from _used_in_part(path, stmt, tiles)
    for path, stmt in statements:
        yield from _wrong_steps(path, stmt, tiles, types)
    for path, stmt in statements:
        yield from _merged_atomically(path, stmt, tiles)


def _used_in_part(path: Path, stmt: Stmt, tiles: frozenset[str]) -> Iterator[Refusal]:
    """MX02"""
    rule = "an accumulator is filled, updated by dot and ewise, and stored, always as a whole"
    match stmt:
        case Load(tile) if tile in tiles:
            hint = f"fill {tile}, load into a tile of its own, and add it by ewise"
            yield Refusal("MX02", rule, path, f"{tile} is loaded from memory", hint, tile)
        case Dot(_, a, b):
            for tile in dict.fromkeys(t for t in (a, b) if t in tiles):
                hint = f"copy it first: `ewise` a register tile from {tile}"
                yield Refusal("MX02", rule, path, f"{tile} is an operand of a dot", hint, tile)


def _wrong_steps(
    path: Path, stmt: Stmt, tiles: frozenset[str], types: Mapping[str, TileType]
) -> Iterator[Refusal]:
    """MX03"""
    if not isinstance(stmt, Dot) or stmt.acc not in tiles:
        return
    (m, n), (_, k), dtype = types[stmt.acc].shape, types[stmt.a].shape, types[stmt.a].dtype
    step = panel_step(dtype)
    if m % MMA_SIDE or n % MMA_SIDE or k % step:
        rule = "the sides of a dot are whole steps of an MMA"
        found = f"[{m}, {k}] by [{k}, {n}]"
        hint = (
            f"take tiles whose rows and columns are multiples of {MMA_SIDE}, and a panel of a "
            f"multiple of {step} for {dtype.value}, and mask the edges"
        )
        yield Refusal("MX03", rule, path, found, hint)


def _merged_atomically(path: Path, stmt: Stmt, tiles: frozenset[str]) -> Iterator[Refusal]:
    """MX04"""
    if isinstance(stmt, Atomic) and stmt.tile in tiles:
        rule = "no atomic merges an accumulator, whose elements a fragment does not address"
        found = f"an atomic of {stmt.tile}"
        hint = "leave mma-expand out, or take merge=workspace or merge=fixup for stream-k before it"
        yield Refusal("MX04", rule, path, found, hint, stmt.tile)


def _in_fragments(body: Body, tiles: frozenset[str]) -> Body:
    def moved(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Alloc) and stmt.name in tiles:
            return replace(stmt, space=Space.FRAGMENT)
        return map_bodies(stmt, lambda nested: _in_fragments(nested, tiles))

    return tuple(map(moved, body))
