"""Who accesses which buffer: the accesses of a kernel with the loops around, which buffers may
share storage, what the scalars in an index stand for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from loopir.effects import access_of, buffers_read, buffers_written
from loopir.nodes import (
    Access,
    Arrive,
    Body,
    ElementRead,
    For,
    Grid,
    Grid1D,
    Kernel,
    Let,
    Set,
    Stmt,
    While,
)
from loopir.scope import constants, spelled
from loopir.symbols import Expr, names_of, substitute, try_evaluate
from loopir.walk import Path, Placed, body_fields, names_made, substitute_node, walk


def alias_classes(kernel: Kernel) -> Mapping[str, frozenset[str]]:
    """Each parameter, with those that may be the same storage, itself included: what `alias`
    declares, and what follows from it by way of a third."""
    classes = {p.name: frozenset((p.name,)) for p in kernel.params}
    for alias in kernel.aliases:
        merged = classes[alias.a] | classes[alias.b]
        classes |= dict.fromkeys(merged, merged)
    return classes


def exchanged(kernel: Kernel) -> frozenset[str]:
    """The parameters that the kernel both reads and writes, by way of an alias or not; an atomic
    does both."""
    statements = [s for _, s in walk(kernel.body)]
    read = frozenset().union(*map(buffers_read, statements))
    written = frozenset().union(*map(buffers_written, statements))
    classes = alias_classes(kernel).items()
    return frozenset(name for name, shared in classes if shared & read and shared & written)


def scalar_values(body: Body, kept: Collection[str] = ()) -> dict[str, Expr]:
    """Scalars that are one expression of loop variables, sizes and unknowns: each `let` with lets
    before it put in. A variable that is `set` anywhere, a `let` that reads one, and one read from a
    buffer stand for themselves, and so do those `kept`."""
    placed = tuple(stmt for _, stmt in walk(body))
    changing = {s.name for s in placed if isinstance(s, Set)}
    values: dict[str, Expr] = {}
    for stmt in placed:
        match stmt:
            case Let(name, Expr() as expr) if name not in changing and name not in kept:
                value = substitute(expr, values)
                values |= {} if names_of(value) & changing else {name: value}
    return values


@dataclass(frozen=True)
class Use:
    """A statement's access to a buffer, and the grids and loops around it, outermost first."""

    path: Path
    access: Access
    reads: bool
    writes: bool
    loops: tuple[Placed, ...]

    @property
    def buffer(self) -> str:
        return self.access.buffer


def uses(body: Body, path: Path, loops: tuple[Placed, ...]) -> Iterator[Use]:
    for i, stmt in enumerate(body):
        here = (*path, i)
        access = _access(stmt)
        if access is not None:
            touched = access.buffer in buffers_read(stmt), access.buffer in buffers_written(stmt)
            yield Use(here, access, *touched, loops)
        around = (*loops, (here, stmt)) if isinstance(stmt, Grid | Grid1D | For | While) else loops
        for name in body_fields(stmt):
            yield from uses(getattr(stmt, name), (*here, name), around)


def _access(stmt: Stmt) -> Access | None:
    match stmt:
        case Let(_, ElementRead(buffer, index)) | Arrive(_, ElementRead(buffer, index)):
            return Access(buffer, index, ())
    return access_of(stmt)


class Scope:
    """What the names of a kernel stand for."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.sizes = constants(kernel)

    def constant(self, expr: Expr) -> int | None:
        return try_evaluate(expr, self.sizes)

    @cached_property
    def spelled(self) -> dict[str, Expr]:
        """Each name of the `where` clause as an expression of launch symbols."""
        return spelled(self.kernel)

    @cached_property
    def values(self) -> dict[str, Expr]:
        return scalar_values(self.kernel.body)

    @cached_property
    def changing(self) -> frozenset[str]:
        """Scalars that can have two values in one iteration of everything around."""
        return frozenset(s.name for _, s in walk(self.kernel.body) if isinstance(s, Set))

    @cached_property
    def moving(self) -> frozenset[str]:
        """Scalars that differ between iterations or blocks."""
        return frozenset().union(*(names_made(s) for _, s in walk(self.kernel.body)))

    def resolved(self, use: Use) -> Use:
        return replace(use, access=substitute_node(use.access, self.values))
