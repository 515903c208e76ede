"""What really depends on what when a kernel runs: the direct dependences of one run, blocks one
after the other, to hold a dependence graph against.

Values of tiles are not computed; scalars and conditions are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from loopir.deps import Kind
from loopir.effects import (
    access_of,
    buffers_read,
    buffers_written,
    condition_of,
    flags_of,
    scalars_read,
    tiles_read,
    tiles_written,
)
from loopir.interp.indices import holds, value
from loopir.interp.regions import region
from loopir.nodes import (
    Alloc,
    Arrive,
    Body,
    ElementRead,
    For,
    Grid,
    Grid1D,
    If,
    Kernel,
    Let,
    Reduce,
    Set,
    Stmt,
    While,
)
from loopir.walk import Path, body_fields, grid_axes

_Turns: TypeAlias = tuple[tuple[Path, Any], ...]


class Observed(NamedTuple):
    source: Path
    target: Path
    kind: Kind
    object: str
    carried_by: Path | None


class _Run(NamedTuple):
    """A statement that ran in some turns of the grids and loops around, outermost first."""

    path: Path
    turns: _Turns


@dataclass
class _Cell:
    """A tile, a scalar or an element of memory: who has written it last, and read it since."""

    written: _Run | None = None
    read: list[_Run] = field(default_factory=list)


def observed(
    kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]
) -> frozenset[Observed]:
    """The dependences of one run. `sizes`: of launch symbols and `where` names. `arrays`: for the
    shapes of all buffers, workspaces included, and for scalars read from them; left as they are."""
    trace = _Trace(dict(sizes), arrays)
    trace.body(kernel.body, ("body",), ())
    return frozenset(trace.found)


@dataclass
class _Trace:
    env: dict[str, Any]
    arrays: Mapping[str, np.ndarray]
    found: set[Observed] = field(default_factory=set)
    values: dict[str, _Cell] = field(default_factory=lambda: defaultdict(_Cell))
    memory: dict[tuple[str, int], _Cell] = field(default_factory=lambda: defaultdict(_Cell))
    arrived: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def body(self, body: Body, path: Path, turns: _Turns) -> None:
        for i, stmt in enumerate(body):
            self.stmt(stmt, (*path, i), turns)

    def stmt(self, stmt: Stmt, path: Path, turns: _Turns) -> None:
        match stmt:
            case Grid() | Grid1D() | For():
                self.reads(stmt, _Run(path, turns))
                for point in self.points(stmt):
                    inner = (*turns, (path, tuple(point.values())))
                    self.turn(stmt, path, inner, point)
            case While(cond, _):
                count = 0
                self.reads(stmt, _Run(path, (*turns, (path, count))))
                while holds(cond, self.env):
                    self.turn(stmt, path, (*turns, (path, count)), {})
                    count += 1
                    self.reads(stmt, _Run(path, (*turns, (path, count))))
            case If(cond, _, _):
                self.reads(stmt, _Run(path, turns))
                branch = "then" if holds(cond, self.env) else "orelse"
                self.body(getattr(stmt, branch), (*path, branch), turns)
            case Reduce(_, body):
                self.body(body, (*path, "body"), turns)
            case _:
                self.leaf(stmt, _Run(path, turns))

    def points(self, stmt: Grid | Grid1D | For) -> Iterator[dict[str, int]]:
        if isinstance(stmt, For):
            turns = range(*(value(e, self.env) for e in (stmt.lo, stmt.hi, stmt.step)))
            yield from ({stmt.iv: i} for i in turns)
            return
        axes = grid_axes(stmt)
        for point in product(*(range(value(a.extent, self.env)) for a in axes)):
            yield dict(zip((a.iv for a in axes), point, strict=True))

    def turn(self, stmt: Any, path: Path, turns: _Turns, point: dict[str, int]) -> None:
        """One turn, which has names of its own, and a block, which has all of them."""
        if isinstance(stmt, Grid | Grid1D):
            self.values.clear()
        for name in (*point, *_made_in(stmt)):
            self.values.pop(name, None)
        self.env |= point
        for name in point:
            self.write(self.values[name], _Run(path, turns), name)
        self.body(stmt.body, (*path, "body"), turns)

    def leaf(self, stmt: Stmt, run: _Run) -> None:
        self.reads(stmt, run)
        elements = self.elements(stmt)
        for name in buffers_read(stmt):
            for n in elements:
                self.read(self.memory[name, n], run, name)
        for name in buffers_written(stmt):
            for n in elements:
                self.write(self.memory[name, n], run, name)
        match stmt:
            case Let(name, ElementRead(buffer)):
                self.env[name] = int(self.arrays[buffer].flat[next(iter(elements))])
            case Let(name, expr) | Set(name, expr):
                self.env[name] = value(expr, self.env)
            case Arrive(name, counter, expected):
                key = (counter.buffer, next(iter(elements)))
                self.arrived[key] += 1
                self.env[name] = self.arrived[key] == value(expected, self.env)
        named = [stmt.name] if isinstance(stmt, Let | Set | Alloc) else []
        named += [stmt.flag] if isinstance(stmt, Arrive) else []
        for name in (*named, *tiles_written(stmt)):
            self.write(self.values[name], run, name)

    def elements(self, stmt: Stmt) -> Iterable[int]:
        """The numbers of the elements that a statement accesses, each once."""
        access = access_of(stmt)
        if access is not None:
            numbers = np.arange(self.arrays[access.buffer].size)
            numbers = numbers.reshape(self.arrays[access.buffer].shape)
            index = region(access, self.env, numbers.shape).index
            return np.unique(numbers[index]).tolist()
        read = getattr(stmt, "counter", getattr(stmt, "expr", None))
        if not isinstance(read, ElementRead):
            return ()
        point = tuple(value(e, self.env) for e in read.index)
        return (int(np.ravel_multi_index(point, self.arrays[read.buffer].shape)),)

    def reads(self, stmt: Stmt, run: _Run) -> None:
        cond = condition_of(stmt)
        flags = flags_of(cond) if cond else ()
        for name in {*tiles_read(stmt), *scalars_read(stmt), *flags}:
            self.read(self.values[name], run, name)

    def read(self, cell: _Cell, run: _Run, name: str) -> None:
        if cell.written is not None:
            self.note(cell.written, run, Kind.RAW, name)
        cell.read.append(run)

    def write(self, cell: _Cell, run: _Run, name: str) -> None:
        for reader in cell.read:
            if reader != run:
                self.note(reader, run, Kind.WAR, name)
        if cell.written is not None:
            self.note(cell.written, run, Kind.WAW, name)
        cell.written, cell.read = run, []

    def note(self, source: _Run, target: _Run, kind: Kind, name: str) -> None:
        crossed = (
            path
            for (path, a), (other, b) in zip(source.turns, target.turns, strict=False)
            if path == other and a != b
        )
        self.found.add(Observed(source.path, target.path, kind, name, next(crossed, None)))


def _made_in(stmt: Stmt) -> Iterator[str]:
    """The names that a turn of a loop makes, at any depth."""
    for body in (getattr(stmt, name) for name in body_fields(stmt)):
        for inner in body:
            if isinstance(inner, Let | Alloc):
                yield inner.name
            yield from (inner.flag,) if isinstance(inner, Arrive) else ()
            yield from (inner.iv,) if isinstance(inner, For) else ()
            yield from _made_in(inner)
