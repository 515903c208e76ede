"""Do what follows the reduce of a tile for its columns piece by piece, so that a store stages a
piece in shared memory, and the panels have the rest.

Before:
    alloc out: register bf16[BM, BN]
    ewise out = cast(bf16, acc)
    store C[ti * BM +: BM, tj * BN +: BN], out masked
After `epilogue-pieces`:
    alloc acc_0: register f32[BM, BN // 2]
    ewise acc_0 = part(acc, 1, 0, 2)
    alloc out_0: register bf16[BM, BN // 2]
    ewise out_0 = cast(bf16, acc_0)
    store C[ti * BM +: BM, tj * BN +: BN // 2], out_0 masked
    alloc acc_1: register f32[BM, BN // 2]
    ewise acc_1 = part(acc, 1, 1, 2)
    ...
    store C[ti * BM +: BM, BN // 2 + tj * BN +: BN // 2], out_1 masked

Requires: EP01 behind a reduce a store of rows and columns; EP02 no wave loop; EP03 each column is
    finished by itself; EP04 the pieces are a power of two, and divide the columns, into blocks
    of 16 where a slot in fragment order is loaded; EP05 a piece leaves nothing but what it
    stores; EP06 no access goes by a descriptor yet.
Guarantees: every element is computed by the same operations: same values, same bits. No workspace,
    no zeroing.
Not handled: partial tiles on their way to a workspace stay whole. What all pieces need (a bias of
    rows) is loaded for each.
Run it before `flatten` and `descriptors`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.deps import dependences
from loopir.effects import buffers_written
from loopir.fragment_order import SIDE
from loopir.nodes import (
    Access,
    Alloc,
    Body,
    Ewise,
    Kernel,
    Load,
    Part,
    Program,
    Reduce,
    Stmt,
    Store,
    TileRef,
)
from loopir.rename import fresh_names, names_within, with_names
from loopir.scope import allocs
from loopir.symbols import floordiv
from loopir.tile_types import tile_types
from loopir.types import ElementOrder, Space
from loopir.walk import Path, is_wave_loop, names_in_use, walk_program
from passes.base import Pass, Refusal, Rows
from passes.by_descriptor import descriptors_last
from passes.options import option
from passes.pieces import Columns, Knife, Tail, tails_of, with_tails


@dataclass(frozen=True)
class Cut:
    """A tail to do piece by piece. `groups`: tiles whose columns go together, each with the axis
    that they are; `outer`: those that are made before it; `parted`: those of them that hold
    something."""

    tail: Tail
    groups: tuple[Mapping[str, int], ...]
    outer: tuple[str, ...]
    parted: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The cuts of each kernel in order."""

    cuts: tuple[tuple[Cut, ...], ...]


@dataclass(frozen=True)
class EpiloguePiecesPass(Pass):
    """Do what follows the reduce of a tile for pieces of its columns, one after the other."""

    name: ClassVar[str] = "epilogue-pieces"

    columns: int = option(2, "pieces of a tile's columns")

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """The cuts, or every reason against one."""
        each = tuple(_Criteria(program, kernel, self.columns) for kernel in program.kernels)
        reasons = (
            *_waves(program),
            *_bad_count(self.columns),
            *descriptors_last(walk_program(program), "EP06"),
            *(
                replace(r, path=("kernels", i, *r.path))
                for i, c in enumerate(each)
                for r in c.reasons()
            ),
        )
        plan = Plan(tuple(c.cuts() for c in each))
        return reasons or (plan if any(plan.cuts) else (_nothing_to_do(program),))

    def rewrite(self, program: Program, plan: Plan) -> Program:
        pairs = zip(program.kernels, plan.cuts, strict=True)
        done = (_Rewrite(program, kernel, self.columns).done(cuts) for kernel, cuts in pairs)
        return replace(program, kernels=tuple(done))

    def report(self, plan: Plan) -> Rows:
        tails = (cut.tail for cuts in plan.cuts for cut in cuts)
        written = (b for tail in tails for s in tail.placed.values() for b in buffers_written(s))
        return (("columns", f"{self.columns} pieces of {', '.join(dict.fromkeys(written))}"),)


# --- criteria


def _nothing_to_do(program: Program) -> Refusal:
    """EP01"""
    rule = "behind a reduce a store of rows and columns"
    reduces = (path for path, stmt in walk_program(program) if isinstance(stmt, Reduce))
    hint = "leave epilogue-pieces out for this program"
    return Refusal("EP01", rule, next(reduces, ("kernels", 0)), "no such store", hint)


def _waves(program: Program) -> Iterator[Refusal]:
    """EP02"""
    for path, stmt in walk_program(program):
        if is_wave_loop(stmt):
            hint = "leave it out: the backend shares a tile among the warps by itself"
            yield Refusal("EP02", "no wave loop", path, "a wave loop", hint)


def _bad_count(count: int) -> Iterator[Refusal]:
    """EP04"""
    if not _is_count(count):
        yield _uneven(("kernels", 0), f"columns={count}")


def _is_count(count: int) -> bool:
    return count > 1 and not count & (count - 1)


def _uneven(path: Path, found: str) -> Refusal:
    rule = "the pieces are a power of two, and divide the columns"
    return Refusal("EP04", rule, path, found, "say columns=2, or take a tile of more columns")


class _Criteria:
    """Of the tails of one kernel that store rows and columns. Paths lead from the kernel."""

    def __init__(self, program: Program, kernel: Kernel, count: int):
        tails = tails_of(kernel)
        self.count = count
        ordered = (w.name for w in program.workspaces if w.order is ElementOrder.FRAGMENTS)
        self.ordered = frozenset(ordered)
        self.columns: tuple[Columns, ...] = ()
        if tails:
            graph, tiles = dependences(kernel), tile_types(kernel)
            found = (Columns(tail, graph, tiles) for tail in tails)
            self.columns = tuple(columns for columns in found if columns.groups)

    def cuts(self) -> tuple[Cut, ...]:
        return tuple(map(_cut, self.columns))

    def reasons(self) -> Iterator[Refusal]:
        for columns in self.columns:
            yield from self._mixed(columns)
            yield from self._sizes(columns)
            yield from self._blocks(columns)
            yield from self._leftovers(columns)

    def _mixed(self, columns: Columns) -> Iterator[Refusal]:
        """EP03"""
        rule = "each column is finished by itself"
        for why, path in columns.mixed():
            yield Refusal("EP03", rule, path, why, self._hint(columns.placed.get(path)))

    def _hint(self, stmt: Stmt | None) -> str:
        match stmt:
            case Ewise(_, Part(count=count)):
                return f"say epilogue-pieces{{columns={count * self.count}}} once"
        return "store it, and go on in another kernel"

    def _sizes(self, columns: Columns) -> Iterator[Refusal]:
        """EP04"""
        path = (*columns.tail.path, columns.tail.start)
        for size in sorted(set(map(columns.size, columns.groups))):
            if _is_count(self.count) and size % self.count:
                yield _uneven(path, f"{self.count} pieces of {size} columns")

    def _blocks(self, columns: Columns) -> Iterator[Refusal]:
        """EP04"""
        for path, stmt in columns.placed.items():
            match stmt:
                case Load(tile, Access(buffer)) | Store(Access(buffer), tile) if (
                    buffer in self.ordered and tile in columns.axes
                ):
                    size = columns.tiles[tile].shape[columns.axes[tile]]
                    yield from self._broken(path, buffer, size)

    def _broken(self, path: Path, slots: str, size: int) -> Iterator[Refusal]:
        """EP04"""
        is_even = _is_count(self.count) and not size % self.count
        if is_even and size // self.count % SIDE:
            rule = f"pieces of slots in fragment order are whole blocks of {SIDE} columns"
            found = f"pieces of {size // self.count} columns of `{slots}`"
            yield Refusal("EP04", rule, path, found, "say fewer columns=, or slot-layout=row")

    def _leftovers(self, columns: Columns) -> Iterator[Refusal]:
        """EP05"""
        rule = "a piece leaves nothing but what it stores"
        for why, path in columns.leftovers():
            hint = "do it before the reduce, or behind the last store"
            yield Refusal("EP05", rule, path, why, hint)


def _cut(columns: Columns) -> Cut:
    groups = tuple({dim.tile: dim.axis for dim in sorted(group)} for group in columns.groups)
    made = {stmt.name for stmt in columns.placed.values() if isinstance(stmt, Alloc)}
    outer = tuple(sorted(columns.axes.keys() - made))
    return Cut(columns.tail, groups, outer, tuple(t for t in outer if t in columns.found))


# --- the rewrite


class _Rewrite:
    """Of one kernel; `used`: names that a new one must avoid."""

    def __init__(self, program: Program, kernel: Kernel, count: int):
        self.kernel, self.count = kernel, count
        self.allocs, self.tiles = allocs(kernel), tile_types(kernel)
        self.used = {*names_in_use(program, kernel)}

    def done(self, cuts: tuple[Cut, ...]) -> Kernel:
        return with_tails(self.kernel, [(cut.tail, self._pieces(cut)) for cut in cuts])

    def _pieces(self, cut: Cut) -> Body:
        return tuple(stmt for i in range(self.count) for stmt in self._piece(cut, i))

    def _piece(self, cut: Cut, index: int) -> Body:
        taken = (replace(self.allocs[tile], space=Space.REGISTER) for tile in cut.outer)
        body: Body = (*taken, *cut.tail.body)
        for axes in cut.groups:
            tile, axis = next(iter(axes.items()))
            size = floordiv(self.allocs[tile].shape[axis], self.count)
            body = Knife(axes, index * size, size, self.tiles).body(body)
        names = fresh_names({name: f"{name}_{index}" for name in names_within(body)}, self.used)
        self.used.update(names.values())
        body, first = with_names(body, names), len(cut.outer)
        return *body[:first], *self._parts(cut, index, names), *body[first:]

    def _parts(self, cut: Cut, index: int, names: Mapping[str, str]) -> Iterator[Ewise]:
        """What the pieces find in tiles from before."""
        axes = {tile: axis for group in cut.groups for tile, axis in group.items()}
        for tile in cut.parted:
            yield Ewise(names[tile], Part(TileRef(tile), axes[tile], index, self.count))
