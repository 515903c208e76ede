"""Generic traversal: paths, children, rebuilding, and which names a statement reads and makes.

A path names a node inside a program by the fields and indices that lead to it, e.g.
("kernels", 0, "body", 0, "body", 3). Refusals and verifier errors carry paths; the printer maps
them to lines.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import sympy

from loopir.nodes import (
    Alloc,
    Arrive,
    Body,
    For,
    Grid,
    Grid1D,
    GridAxis,
    Kernel,
    Let,
    Program,
    Stmt,
)
from loopir.symbols import Expr, names_of, substitute
from loopir.types import ForKind

Path: TypeAlias = tuple[str | int, ...]

#: a statement and where it stands
Placed: TypeAlias = tuple[Path, Stmt]


def node_at(root: Any, path: Path) -> Any:
    """The node that `path` leads to from `root`."""
    for step in path:
        root = getattr(root, step) if isinstance(step, str) else root[step]
    return root


def body_fields(stmt: Stmt) -> tuple[str, ...]:
    """The fields of a statement that hold nested bodies, in text order."""
    return _body_fields(type(stmt))


@cache
def _body_fields(cls: type) -> tuple[str, ...]:
    return tuple(n for n in ("body", "then", "orelse") if n in _field_names(cls))


@cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def walk(body: Body, path: Path = ()) -> Iterator[Placed]:
    """Every statement below `body`, in text order, each with its path (`path` leads to `body`
    itself)."""
    for i, stmt in enumerate(body):
        here = (*path, i)
        yield here, stmt
        for name in body_fields(stmt):
            yield from walk(getattr(stmt, name), (*here, name))


def walk_program(program: Program) -> Iterator[Placed]:
    for i, kernel in enumerate(program.kernels):
        yield from walk(kernel.body, ("kernels", i, "body"))


def grid_axes(stmt: Stmt) -> tuple[GridAxis, ...]:
    """The axes of a `grid`, or the one of a `grid1d`; none of other statements."""
    if isinstance(stmt, Grid1D):
        return (GridAxis(stmt.iv, stmt.extent),)
    return stmt.axes if isinstance(stmt, Grid) else ()


def names_made(stmt: Stmt) -> frozenset[str]:
    """Names that the statement itself makes; each has one value an iteration of what is around."""
    match stmt:
        case Let(name) | Alloc(name) | Arrive(name) | For(name):
            return frozenset((name,))
    return frozenset(axis.iv for axis in grid_axes(stmt))


def enclosing(root: Any, path: Path) -> Iterator[Placed]:
    """The statements around the one at `path`, outermost first, each with its path from `root`, a
    body."""
    for end in range(1, len(path), 2):
        yield path[:end], node_at(root, path[:end])


def is_wave_loop(stmt: Any) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.WAVE


def is_parallel_loop(stmt: Any) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL


def band(stmt: Any, path: Path, belongs: Callable[[Any], bool]) -> Iterator[tuple[Path, Any]]:
    """`stmt`, if it `belongs`, and those that are, one by one, the whole body of the one around
    them."""
    if belongs(stmt):
        yield path, stmt
        if len(stmt.body) == 1:
            yield from band(stmt.body[0], (*path, "body", 0), belongs)


def grid_band(grid: Grid, path: Path) -> Iterator[tuple[Path, Grid]]:
    return band(grid, path, lambda stmt: isinstance(stmt, Grid))


def parallel_band(stmt: Stmt, path: Path) -> Iterator[tuple[Path, For]]:
    return band(stmt, path, is_parallel_loop)


def map_bodies(stmt: Stmt, change: Callable[[Body], Body]) -> Stmt:
    """`stmt` with each nested body replaced by `change(body)`."""
    names = body_fields(stmt)
    return replace(stmt, **{n: change(getattr(stmt, n)) for n in names}) if names else stmt  # pyright: ignore


def expressions(node: Any) -> Iterator[Expr]:
    """Every index expression held by `node` itself, not those of statements nested in it."""
    nested = () if isinstance(node, tuple) else body_fields(node)
    for value in _parts(node, nested):
        if isinstance(value, sympy.Expr):
            yield value
        elif _has_parts(type(value)):
            yield from expressions(value)


def _parts(node: Any, skip: tuple[str, ...]) -> tuple[Any, ...]:
    if isinstance(node, tuple):
        return node
    return tuple(getattr(node, name) for name in _field_names(type(node)) if name not in skip)


@cache
def _has_parts(cls: type) -> bool:
    return is_dataclass(cls) or issubclass(cls, tuple)


def symbol_names(node: Any) -> frozenset[str]:
    """The names of all index symbols that occur in `node`, not in statements nested in it."""
    return frozenset().union(*map(names_of, expressions(node)))


def substitute_node(node: Any, values: dict[str, Expr]) -> Any:
    """`node`, nested statements included, with symbols replaced in every index expression."""
    return map_leaves(node, lambda v: substitute(v, values) if isinstance(v, sympy.Expr) else v)


def map_leaves(node: Any, change: Callable[[Any], Any], kept: Collection[str] = ()) -> Any:
    """`node`, nested statements included, with `change(leaf)` in place of every word, number and
    expression, but for the fields named in `kept`."""
    if isinstance(node, tuple):
        return tuple(map_leaves(n, change, kept) for n in node)
    if not is_dataclass(node) or isinstance(node, type):
        return change(node)
    parts = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in kept}
    return replace(node, **{n: map_leaves(value, change, kept) for n, value in parts.items()})


def defined_names(kernel: Kernel) -> frozenset[str]:
    """Every name that a kernel gives a meaning to, free symbols included: what a fresh name must
    avoid."""
    header = (*kernel.params, *kernel.where, *kernel.aliases, *kernel.requires)
    names = {v for h in header for f in fields(h) if isinstance(v := getattr(h, f.name), str)}
    names |= {s for holder in header for s in symbol_names(holder)}
    for _, stmt in walk(kernel.body):
        names |= symbol_names(stmt)
        names |= {
            v
            for f in ("name", "iv", "tile", "flag")
            if isinstance(v := getattr(stmt, f, None), str)
        }
        names |= {axis.iv for axis in getattr(stmt, "axes", ())}
    return frozenset(names)


def names_in_use(program: Program, kernel: Kernel) -> frozenset[str]:
    """What a fresh name of a kernel must avoid where the workspaces of its program are in reach."""
    memory = program.workspaces
    return defined_names(kernel).union((w.name for w in memory), *map(symbol_names, memory))
