"""Workspace for the partial tiles of split output tiles: where each contributor puts its
accumulators, and how they are folded, in k order, into those of the whole tile."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod

from loopir.effects import tiles_read, tiles_written
from loopir.nodes import (
    Access,
    Accumulator,
    Alloc,
    Apply,
    Atomic,
    Body,
    Cast,
    Ewise,
    Ewise_,
    Fill,
    For,
    Literal,
    Load,
    Reduce,
    Stmt,
    Store,
    TileAxis,
    TileRef,
    Workspace,
)
from loopir.rename import fresh_names
from loopir.scope import allocs
from loopir.symbols import Expr, floordiv, sym, to_expr
from loopir.types import DType, ElementOrder, ReduceOp, Space
from loopir.walk import map_bodies, walk
from passes.stream_k.dataflow import starts
from passes.stream_k.names import Names
from passes.stream_k.nest import Nest


@dataclass(frozen=True)
class Slots:
    """One slot an accumulator for each contributor. `count`: slots of a workspace; `orders`: of the
    elements in those of each accumulator."""

    nest: Nest
    names: Names
    count: Expr
    taken: frozenset[str]
    orders: Mapping[str, ElementOrder]

    @cached_property
    def buffers(self) -> dict[str, str]:
        """The workspace of each accumulator."""
        wanted = {a.tile: self.names.partials for a in self.nest.reduce.accumulators}
        return fresh_names(wanted, self._used - {self.names.partials})

    @cached_property
    def _parts(self) -> dict[str, str]:
        """The tile that a slot of each accumulator is loaded into."""
        wanted = {a.tile: f"{a.tile}_part" for a in self.nest.reduce.accumulators}
        return fresh_names(wanted, self._used)

    @property
    def part_tiles(self) -> tuple[str, ...]:
        """The names of those."""
        return tuple(self._parts.values())

    @property
    def _used(self) -> frozenset[str]:
        return self.taken.union(vars(self.names).values())

    @cached_property
    def _allocs(self) -> dict[str, Alloc]:
        return allocs(self.nest.kernel)

    @cached_property
    def _waves(self) -> tuple[For, ...]:
        """The wave loops around the reduce: each of their turns has accumulators of its own."""
        return self.nest.loops_around(self.nest.reduce_path)

    def workspaces(self) -> tuple[Workspace, ...]:
        made = ((buffer, self._allocs[tile]) for tile, buffer in self.buffers.items())
        return tuple(
            Workspace(buffer, a.dtype, (self.count, *self._shape(a)), self.orders[a.name])
            for buffer, a in made
        )

    def stores(self, slot: Expr) -> Body:
        """The accumulators, each into its slot."""
        return tuple(Store(self._access(tile, slot), tile) for tile in self.buffers)

    def atomic_adds(self, slot: Expr) -> Body:
        """The accumulators, each added to what its slot holds."""
        return tuple(Atomic(ReduceOp.ADD, self._access(tile, slot), tile) for tile in self.buffers)

    def fold(self, base: Expr, parts: Expr) -> Body:
        """The identity combined with `parts` slots from `base` on, in order."""
        index = self.names.s
        turns = self._combined(base + sym(index))
        return *self._starts(), For(index, to_expr(0), parts, to_expr(1), turns)

    def taken_whole(self, slot: Expr) -> Body:
        """The identity combined with one slot."""
        return *self._starts(), *self._combined(slot)

    def _starts(self) -> Body:
        """Tiles for the parts; and the identity in accumulators that go on from wave to wave: the
        slot of a wave holds all that its part had summed till then."""
        around = self.nest.reduce_path[:-1]
        fills = tuple(
            Fill(a.tile, Literal(a.op.identity(self._allocs[a.tile].dtype) or 0))
            for a in self.nest.reduce.accumulators
            if not any(path[: len(around)] == around for path, _ in starts(self.nest, a.tile))
        )
        return *self._part_tiles(), *fills

    def _combined(self, slot: Expr) -> Body:
        return tuple(
            stmt
            for accumulator in self.nest.reduce.accumulators
            for stmt in self._combine(accumulator, slot)
        )

    def _combine(self, accumulator: Accumulator, slot: Expr) -> Iterator[Stmt]:
        tile, part = accumulator.tile, self._parts[accumulator.tile]
        dtype = self._allocs[tile].dtype
        yield Load(part, self._access(tile, slot))
        yield Ewise(tile, _combination(accumulator.op, tile, part, dtype))

    def _part_tiles(self) -> Body:
        made = ((part, self._allocs[tile]) for tile, part in self._parts.items())
        return tuple(Alloc(part, Space.REGISTER, a.dtype, a.shape) for part, a in made)

    def _shape(self, alloc: Alloc) -> tuple[Expr, ...]:
        """Of one slot: the tiles of the waves, one below the other."""
        trips = to_expr(prod(self._trips))
        if not self._waves:
            return alloc.shape
        return (trips * alloc.shape[0], *alloc.shape[1:]) if alloc.shape else (trips,)

    def _access(self, tile: str, slot: Expr) -> Access:
        shape = self._allocs[tile].shape
        if not shape:
            return Access(self.buffers[tile], (slot, self._wave) if self._waves else (slot,), ())
        starts = [self._wave * shape[0], *[to_expr(0)] * (len(shape) - 1)]
        axes = tuple(
            TileAxis(f"_{i}", start, size)
            for i, (start, size) in enumerate(zip(starts, shape, strict=True))
        )
        return Access(self.buffers[tile], (slot, *(sym(a.name) for a in axes)), axes)

    @cached_property
    def _trips(self) -> tuple[int, ...]:
        return tuple(map(self.nest.trips, self._waves))

    @cached_property
    def _wave(self) -> Expr:
        """The number of the turn of the wave loops."""
        turns = [floordiv(sym(w.iv) - w.lo, w.step) for w in self._waves]
        pairs = zip(turns, self._trips, strict=True)
        return reduce(lambda number, pair: number * pair[1] + pair[0], pairs, to_expr(0))


def _combination(op: ReduceOp, tile: str, part: str, dtype: DType) -> Ewise_:
    """`tile op part`; types that are stored only are combined in f32, and rounded."""
    if dtype.computes or dtype is DType.BOOL:
        return Apply(op.value, (TileRef(tile), TileRef(part)))
    wide = Apply(op.value, (Cast(DType.F32, TileRef(tile)), Cast(DType.F32, TileRef(part))))
    return Cast(dtype, wide)


def folded(body: Body, fold: Body) -> Body:
    """`body` with `fold` in place of its reduce, without the tiles that nothing uses any more."""
    return _without_unused(_spliced(body, fold))


def _spliced(body: Body, fold: Body) -> Body:
    done: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Reduce):
            done += fold
        elif isinstance(stmt, For):
            done.append(replace(stmt, body=_spliced(stmt.body, fold)))
        else:
            done.append(stmt)
    return tuple(done)


def _without_unused(body: Body) -> Body:
    used = frozenset().union(*(tiles_read(s) | tiles_written(s) for _, s in walk(body)))

    def kept(stmts: Body) -> Body:
        return tuple(
            map_bodies(s, kept) for s in stmts if not (isinstance(s, Alloc) and s.name not in used)
        )

    return kept(body)
