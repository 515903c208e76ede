"""Dependences through tiles, scalars and flags, which a block has to itself.

One walk, bottom up: a stretch of code is summed up, for every name in it, by the reads and writes
that code before it meets, those that code behind it meets, and whether every way through it writes
the name. Joining two stretches, or the end of a loop's body to its start, gives the edges.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from loopir.deps.edges import Edge, Kind, edges
from loopir.effects import condition_of, flags_of, scalars_read, tiles_read, tiles_written
from loopir.nodes import (
    Body,
    For,
    Grid,
    Grid1D,
    If,
    Kernel,
    Reduce,
    Set,
    Stmt,
    While,
)
from loopir.scope import constants
from loopir.symbols import try_evaluate
from loopir.walk import Path, names_made

_NONE: frozenset[Path] = frozenset()


@dataclass(frozen=True)
class _Flow:
    """One name in a stretch of code. `overwrites`: every way through writes it. `is_born`: the
    stretch makes the name, so that an iteration of a loop around has one of its own."""

    first_reads: frozenset[Path] = _NONE
    first_writes: frozenset[Path] = _NONE
    last_reads: frozenset[Path] = _NONE
    last_writes: frozenset[Path] = _NONE
    overwrites: bool = False
    is_born: bool = False


_Flows: TypeAlias = Mapping[str, _Flow]
_UNUSED = _Flow()


def value_edges(kernel: Kernel) -> list[Edge]:
    """The dependences of a kernel that no memory makes.

    An `alloc` counts as a write of its tile: a raw edge from it says that the tile may hold nothing
    yet. A grid carries none, since every block has its own tiles and scalars.
    """
    scan = _Scan(constants(kernel), [])
    scan.body(kernel.body, ("body",))
    return scan.found


def values_read(stmt: Stmt) -> frozenset[str]:
    """Tiles, scalars and flags that the statement itself reads, launch symbols included."""
    cond = condition_of(stmt)
    return tiles_read(stmt) | scalars_read(stmt) | frozenset(flags_of(cond) if cond else ())


def _values_written(stmt: Stmt) -> frozenset[str]:
    own = frozenset((stmt.name,)) if isinstance(stmt, Set) else frozenset()
    return own | tiles_written(stmt) | names_made(stmt)


@dataclass
class _Scan:
    sizes: Mapping[str, int]
    found: list[Edge]

    def body(self, body: Body, path: Path) -> _Flows:
        return self.sequence(self.stmt(stmt, (*path, i)) for i, stmt in enumerate(body))

    def stmt(self, stmt: Stmt, path: Path) -> _Flows:
        match stmt:
            case If(_, then, orelse):
                blocks = self.body(then, (*path, "then")), self.body(orelse, (*path, "orelse"))
                return self.sequence((_reads(stmt, path), _either(*blocks)))
            case While(_, body):
                turn = self.sequence((_reads(stmt, path), self.body(body, (*path, "body"))))
                return _read_last(self.loop(turn, path, runs=False), _reads(stmt, path))
            case For(_, _, _, _, body):
                turn = self.sequence((_writes(stmt, path), self.body(body, (*path, "body"))))
                loop = self.loop(turn, path, self.surely_runs(stmt))
                return self.sequence((_reads(stmt, path), loop))
            case Grid(_, body) | Grid1D(_, _, body):
                head = _reads(stmt, path), _writes(stmt, path)
                return self.sequence((*head, self.body(body, (*path, "body"))))
            case Reduce(_, body):
                return self.body(body, (*path, "body"))
        return _combined(_reads(stmt, path), _writes(stmt, path))

    def surely_runs(self, loop: For) -> bool:
        return (try_evaluate(loop.hi - loop.lo, self.sizes) or 0) > 0

    def sequence(self, stretches: Iterable[_Flows]) -> _Flows:
        """All of `stretches`, one after the other."""
        so_far: dict[str, _Flow] = {}
        for stretch in stretches:
            for name, later in stretch.items():
                earlier = so_far.get(name, _UNUSED)
                self.found += _edges(name, earlier, later)
                so_far[name] = _joined(earlier, later)
        return so_far

    def loop(self, turn: _Flows, path: Path, runs: bool) -> _Flows:
        """Turns after turns; what a turn makes is gone behind it."""
        kept = {name: flow for name, flow in turn.items() if not flow.is_born}
        for name, flow in kept.items():
            self.found += _edges(name, flow, flow, path)
        return {n: replace(f, overwrites=f.overwrites and runs) for n, f in kept.items()}


def _edges(name: str, earlier: _Flow, later: _Flow, loop: Path | None = None) -> Iterator[Edge]:
    yield from edges(Kind.RAW, name, earlier.last_writes, later.first_reads, loop)
    yield from edges(Kind.WAR, name, earlier.last_reads, later.first_writes, loop)
    yield from edges(Kind.WAW, name, earlier.last_writes, later.first_writes, loop)


def _reads(stmt: Stmt, path: Path) -> _Flows:
    at = frozenset((path,))
    return {name: _Flow(first_reads=at, last_reads=at) for name in values_read(stmt)}


def _writes(stmt: Stmt, path: Path) -> _Flows:
    at, made = frozenset((path,)), names_made(stmt)
    return {
        name: _Flow(first_writes=at, last_writes=at, overwrites=True, is_born=name in made)
        for name in _values_written(stmt)
    }


def _read_last(loop: _Flows, condition: _Flows) -> _Flows:
    """A `while`, which reads its condition behind its last turn too."""
    reads = {n: loop[n].last_reads | flow.last_reads for n, flow in condition.items()}
    return {**loop, **{n: replace(loop[n], last_reads=at) for n, at in reads.items()}}


def _combined(reads: _Flows, writes: _Flows) -> _Flows:
    """Of one statement, which reads before it writes."""
    names = {**reads, **writes}
    return {n: _joined(reads.get(n, _UNUSED), writes.get(n, _UNUSED)) for n in names}


def _joined(a: _Flow, b: _Flow) -> _Flow:
    """`a` followed by `b`."""
    return _Flow(
        a.first_reads if a.overwrites else a.first_reads | b.first_reads,
        a.first_writes if a.overwrites else a.first_writes | b.first_writes,
        b.last_reads if b.overwrites else a.last_reads | b.last_reads,
        b.last_writes if b.overwrites else a.last_writes | b.last_writes,
        a.overwrites or b.overwrites,
        a.is_born or b.is_born,
    )


def _either(then: _Flows, orelse: _Flows) -> _Flows:
    """One of two branches; what a branch makes is gone behind it."""
    merged = {}
    for name in {**then, **orelse}:
        a, b = then.get(name, _UNUSED), orelse.get(name, _UNUSED)
        if not (a.is_born or b.is_born):
            merged[name] = _Flow(
                a.first_reads | b.first_reads,
                a.first_writes | b.first_writes,
                a.last_reads | b.last_reads,
                a.last_writes | b.last_writes,
                a.overwrites and b.overwrites,
            )
    return merged
