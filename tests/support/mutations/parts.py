"""A legal program taken apart, and the table of the changes that can be made to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from loopir.nodes import (
    Access,
    Accumulator,
    Alloc,
    Body,
    Fill,
    For,
    Grid,
    Load,
    Param,
    Program,
    Reduce,
    Store,
)
from loopir.scope import allocs
from loopir.stmt_text import access_text
from loopir.walk import Path, Placed, node_at, walk, walk_program
from tests.support.edits import put_after, put_before, replaced, spliced, statements, with_kernel


@dataclass(frozen=True)
class Parts:
    """A legal program taken apart: statements before, inside and after its reduce, with paths."""

    program: Program
    grids: tuple[Placed, ...]
    reduce_path: Path
    before: tuple[Placed, ...]
    inside: tuple[Placed, ...]
    after: tuple[Placed, ...]

    @classmethod
    def of(cls, program: Program) -> "Parts":
        placed = tuple(walk_program(program))
        at = next(i for i, (_, s) in enumerate(placed) if isinstance(s, Reduce))
        path, reduce = placed[at]
        size = len(tuple(walk((reduce,))))
        grids = tuple(p for p in placed if isinstance(p[1], Grid))
        return cls(
            program, grids, path, placed[:at], placed[at + 2 : at + size], placed[at + size :]
        )

    @property
    def reduce(self) -> Reduce:
        return node_at(self.program, self.reduce_path)

    @property
    def loop_path(self) -> Path:
        return (*self.reduce_path, "body", 0)

    @property
    def loop(self) -> For:
        return node_at(self.program, self.loop_path)

    @property
    def ivs(self) -> tuple[str, ...]:
        return tuple(a.iv for _, g in self.grids for a in g.axes)  # pyright: ignore

    @property
    def accumulator(self) -> Accumulator:
        return self.reduce.accumulators[0]

    @property
    def alloc(self) -> Alloc:
        """Of the first accumulator."""
        return allocs(self.program.kernels[0])[self.accumulator.tile]

    @property
    def starts(self) -> tuple[Placed, ...]:
        names = {a.tile for a in self.reduce.accumulators}
        return tuple(p for p in self.before if isinstance(p[1], Fill) and p[1].tile in names)

    def store(self, rng: Random) -> tuple[Path, Store]:
        """One of the writebacks."""
        found = [p for p in self.after if isinstance(p[1], Store)]
        return rng.choice(found)  # pyright: ignore

    def own_store(self) -> Store | None:
        """One of the first accumulator, if it is stored as it is."""
        stores = (s for _, s in self.after if isinstance(s, Store))
        return next((s for s in stores if s.tile == self.accumulator.tile), None)

    def load(self, rng: Random) -> tuple[Path, Load]:
        """One of the loads of the panel loop."""
        found = [p for p in self.inside if isinstance(p[1], Load)]
        return rng.choice(found)  # pyright: ignore

    def param(self, name: str) -> Param:
        return next(p for p in self.program.kernels[0].params if p.name == name)

    # --- statements put in

    def at_start(self, text: str) -> Program:
        """Before the reduce."""
        return put_before(self.program, self.reduce_path, statements(text))

    def in_panel(self, text: str, at_end: bool = True) -> Program:
        loop = self.loop
        body = (*loop.body, *statements(text)) if at_end else (*statements(text), *loop.body)
        return replaced(self.program, (*self.loop_path, "body"), body)

    def at_end(self, text: str) -> Program:
        """Right behind the reduce."""
        return put_after(self.program, self.reduce_path, statements(text))


Change = Callable[[Random, Parts], Program | None]


@dataclass(frozen=True)
class Mutation:
    """`change` gives the changed program, or None where there is nothing to change. `caught_by`:
    codes that must be among those that catch it; none for a change that is mostly harmless."""

    name: str
    change: Change
    caught_by: frozenset[str]


MUTATIONS: dict[str, Mutation] = {}


def mutation(caught_by: str = "") -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        name = change.__name__
        MUTATIONS[name] = Mutation(name, change, frozenset(caught_by.split()))
        return change

    return register


def with_param(program: Program, param: Param) -> Program:
    return with_kernel(program, lambda k: replace(k, params=(*k.params, param)))


def retargeted(statement: str, access: Access, buffer: str) -> str:
    """A statement whose `{}` stands for the access, to another buffer."""
    text = access_text(replace(access, buffer=buffer))
    return statement.format(text) + (" masked" if access.masked else "")


def around(parts: Parts, path: Path, head: str) -> Program:
    """With `head { }` around the statement at `path`."""
    inner = node_at(parts.program, path)
    return spliced(parts.program, path, wrapped(head, (inner,)))


def wrapped(head: str, inner: Body) -> Body:
    (outer,) = statements(f"{head} {{\nbarrier\n}}")
    name = "then" if head.startswith("if") else "body"
    return (replace(outer, **{name: inner}),)  # pyright: ignore
