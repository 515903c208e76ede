"""What the rules ask of one kernel: its statements, what encloses them, its names, its tiles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from loopir.effects import access_of
from loopir.nodes import (
    Alloc,
    Arrive,
    Body,
    For,
    Kernel,
    Let,
    Param,
    Program,
    Stmt,
    Workspace,
)
from loopir.scope import buffers, constants
from loopir.tile_types import TileType, tile_types
from loopir.walk import Path, body_fields, grid_axes, node_at


class Finding(NamedTuple):
    """What a rule found: where, what to say, and which text on that line to point at."""

    path: Path
    message: str
    focus: str = ""


class NameKind(Enum):
    """The value is its form in a message."""

    SCALAR = "a scalar"
    FLAG = "a flag"
    TILE = "a tile"
    BUFFER = "a buffer"


@dataclass(frozen=True)
class Definition:
    """A name that a kernel makes, visible in the body `within`, behind position `after` of it."""

    name: str
    kind: NameKind
    path: Path
    within: Path = ()
    after: int = -1

    def is_visible_at(self, path: Path) -> bool:
        depth = len(self.within)
        if path[:depth] != self.within or len(path) <= depth:
            return False
        position = path[depth]
        return not isinstance(position, int) or position > self.after


@dataclass(frozen=True)
class Site:
    """A statement, its path in the program, and the sites around it, outermost first."""

    path: Path
    stmt: Stmt
    around: tuple["Site", ...]


@dataclass(frozen=True)
class Context:
    """One kernel of a program, the one at `path`."""

    program: Program
    path: Path

    @cached_property
    def kernel(self) -> Kernel:
        return node_at(self.program, self.path)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every statement, in text order."""
        return tuple(_sites(self.kernel.body, (*self.path, "body"), ()))

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The compile-time constants."""
        return constants(self.kernel)

    @cached_property
    def tiles(self) -> Mapping[str, TileType]:
        """Tiles whose shape is known."""
        return tile_types(self.kernel)

    @cached_property
    def allocs(self) -> Mapping[str, Alloc]:
        return {s.stmt.name: s.stmt for s in self.sites if isinstance(s.stmt, Alloc)}

    @cached_property
    def buffers(self) -> Mapping[str, Param | Workspace]:
        return buffers(self.program, self.kernel)

    @cached_property
    def definitions(self) -> Mapping[str, tuple[Definition, ...]]:
        """By name, in text order; more than one is a mistake."""
        found: dict[str, tuple[Definition, ...]] = {}
        for made in (*_header_definitions(self), *_body_definitions(self)):
            found[made.name] = (*found.get(made.name, ()), made)
        return found

    @cached_property
    def axis_names(self) -> frozenset[str]:
        """The axes of all accesses; each is visible only in the indices of its own access."""
        accesses = (access_of(s.stmt) for s in self.sites)
        return frozenset(axis.name for a in accesses if a for axis in a.axes)

    def visible(self, name: str, path: Path) -> Definition | None:
        """The definition of `name` that a statement at `path` sees."""
        made = self.definitions.get(name, ())
        return next((d for d in made if d.is_visible_at(path)), None)

    def is_made(self, name: str) -> bool:
        """Whether something gives `name` a meaning, so that it is no launch symbol."""
        return name in self.definitions or name in self.axis_names


def _sites(body: Body, path: Path, around: tuple[Site, ...]) -> Iterator[Site]:
    for i, stmt in enumerate(body):
        site = Site((*path, i), stmt, around)
        yield site
        for name in body_fields(stmt):
            yield from _sites(getattr(stmt, name), (*path, i, name), (*around, site))


def _header_definitions(ctx: Context) -> Iterator[Definition]:
    for i, workspace in enumerate(ctx.program.workspaces):
        yield Definition(workspace.name, NameKind.BUFFER, ("workspaces", i))
    for i, param in enumerate(ctx.kernel.params):
        yield Definition(param.name, NameKind.BUFFER, (*ctx.path, "params", i))
    for i, binding in enumerate(ctx.kernel.where):
        yield Definition(binding.name, NameKind.SCALAR, (*ctx.path, "where", i))


def _body_definitions(ctx: Context) -> Iterator[Definition]:
    for site in ctx.sites:
        body, position = site.path[:-1], site.path[-1]
        inner = (*site.path, "body")
        match site.stmt:
            case Let(name):
                yield Definition(name, NameKind.SCALAR, site.path, body, int(position))
            case Alloc(name):
                yield Definition(name, NameKind.TILE, site.path, body, int(position))
            case Arrive(flag):
                yield Definition(flag, NameKind.FLAG, site.path, body, int(position))
            case For(iv):
                yield Definition(iv, NameKind.SCALAR, site.path, inner)
            case _:
                for axis in grid_axes(site.stmt):
                    yield Definition(axis.iv, NameKind.SCALAR, site.path, inner)
