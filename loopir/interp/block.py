"""One block at work: a generator that pauses where the order of blocks can matter."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from loopir.interp.errors import InterpError, PoisonError, RunawayError
from loopir.interp.formats import STORAGE, number, rounded
from loopir.interp.indices import holds, value
from loopir.interp.memory import Memory, View
from loopir.interp.regions import Index, Region, element, region
from loopir.interp.tiles import dot, ewise
from loopir.nodes import (
    Access,
    Alloc,
    Arrive,
    Atomic,
    Barrier,
    Body,
    Dot,
    ElementRead,
    Ewise,
    Fill,
    For,
    If,
    Let,
    Load,
    Reduce,
    Set,
    Stmt,
    Store,
    While,
)
from loopir.symbols import Expr
from loopir.tile_types import Tiles
from loopir.walk import Path

_MOST_TURNS = 1_000_000  # of one `while`


@dataclass
class Block:
    """A block and what it alone sees: scalars and flags by name, tiles by name."""

    body: Body
    path: Path
    scalars: dict[str, int]
    types: Tiles
    memory: Memory
    view: View
    tiles: dict[str, np.ndarray] = field(default_factory=dict)

    def steps(self) -> Iterator[None]:
        """Run; pause before each atomic, before each arrive, and before stores that are pending at
        the end become visible."""
        yield from self._run(self.body, self.path)
        if self.view.pending:
            yield
        self.view.publish()

    def _run(self, body: Body, place: Path) -> Iterator[None]:
        for i, stmt in enumerate(body):
            try:
                if isinstance(stmt, For | While | If | Reduce):
                    yield from self._nested(stmt)
                    continue
                if isinstance(stmt, Atomic | Arrive):
                    yield
                self._simple(stmt)
            except InterpError as error:
                error.inside((*place, i))
                raise

    def _nested(self, stmt: For | While | If | Reduce) -> Iterator[None]:
        match stmt:
            case For(iv, lo, hi, step, body):
                bounds = (value(e, self.scalars) for e in (lo, hi, step))
                for self.scalars[iv] in range(*bounds):
                    yield from self._run(body, ("body",))
            case While(cond, body):
                turns = 0
                while holds(cond, self.scalars):
                    yield from self._run(body, ("body",))
                    turns += 1
                    if turns == _MOST_TURNS:
                        raise RunawayError(f"{turns} turns of a while")
            case If(cond, then, orelse):
                is_true = holds(cond, self.scalars)
                yield from self._run(*((then, ("then",)) if is_true else (orelse, ("orelse",))))
            case Reduce(_, body):
                yield from self._run(body, ("body",))

    def _simple(self, stmt: Stmt) -> None:
        match stmt:
            case Let(name, expr) | Set(name, expr):
                self.scalars[name] = self._scalar(expr)
            case Alloc(name):
                self.tiles.pop(name, None)
            case Fill(tile, literal):
                kind = self.types[tile]
                self.tiles[tile] = np.full(kind.shape, number(literal.value, kind.dtype))
            case Load():
                self._load(stmt)
            case Store(target, tile):
                found = self._region(target)
                self.memory.store(self.view, target.buffer, found, self._tile(tile)[found.where])
            case Atomic(op, target, tile):
                found = self._region(target)
                values = self._tile(tile)[found.where]
                self.memory.atomic(self.view, op, target.buffer, found, values)
            case Arrive(flag, counter, expected):
                index, count = self._element(counter), value(expected, self.scalars)
                self.scalars[flag] = self.memory.arrive(self.view, counter.buffer, index, count)
            case Dot():
                self._dot(stmt)
            case Ewise():
                self._ewise(stmt)
            case Barrier():
                pass
            case _:
                raise InterpError(f"a {type(stmt).__name__.lower()} cannot stand here")

    def _scalar(self, expr: Expr | ElementRead) -> int:
        if isinstance(expr, ElementRead):
            return int(self.memory.load(self.view, expr.buffer, self._element(expr)).item())
        return value(expr, self.scalars)

    def _dot(self, stmt: Dot) -> None:
        acc, a, b = map(self._tile, (stmt.acc, stmt.a, stmt.b))
        self.tiles[stmt.acc] = dot(acc, a, b, self.types[stmt.acc].dtype, stmt.precision)

    def _ewise(self, stmt: Ewise) -> None:
        kind = self.types[stmt.tile]
        result = ewise(
            stmt.expr, kind.dtype, self.types, self._tile, lambda e: value(e, self.scalars)
        )
        result = result if kind.dtype.computes else rounded(result, kind.dtype)
        self.tiles[stmt.tile] = np.broadcast_to(result, kind.shape)

    def _load(self, load: Load) -> None:
        found = self._region(load.source)
        values = self.memory.load(self.view, load.source.buffer, found.index)
        if found.is_whole:
            self.tiles[load.tile] = values
            return
        dtype = self.types[load.tile].dtype
        tile = np.full(found.shape, number(load.otherwise.value, dtype), STORAGE[dtype])
        tile[found.where] = values
        self.tiles[load.tile] = tile

    def _tile(self, name: str) -> np.ndarray:
        if name not in self.tiles:
            raise PoisonError(f"tile {name} is read, and nothing has written it since its alloc")
        return self.tiles[name]

    def _region(self, access: Access) -> Region:
        return region(access, self.scalars, self.memory.buffers[access.buffer].array.shape)

    def _element(self, read: ElementRead) -> Index:
        indices = tuple(value(e, self.scalars) for e in read.index)
        return element(indices, self.memory.buffers[read.buffer].array.shape, read.buffer)
