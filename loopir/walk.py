"""Generic traversal: paths, children, rebuilding, and which names a statement reads and makes.

A path names a node inside a program by the fields and indices that lead to it, e.g.
("kernels", 0, "body", 0, "body", 3). Refusals and verifier errors carry paths; the printer maps
them to lines.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
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


def node_at(root: Any, path: Path) -> Any:
    """The node that `path` leads to from `root`."""
    for step in path:
        root = getattr(root, step) if isinstance(step, str) else root[step]
    return root


def body_fields(stmt: Stmt) -> tuple[str, ...]:
    """The fields of a statement that hold nested bodies, in text order."""
    return tuple(n for n in ("body", "then", "orelse") if hasattr(stmt, n))


def walk(body: Body, path: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement below `body`, in text order, each with its path (`path` leads to `body`
    itself)."""
    for i, stmt in enumerate(body):
        here = (*path, i)
        yield here, stmt
        for name in body_fields(stmt):
            yield from walk(getattr(stmt, name), (*here, name))


def walk_program(program: Program) -> Iterator[tuple[Path, Stmt]]:
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


def enclosing(root: Any, path: Path) -> Iterator[tuple[Path, Stmt]]:
    """The statements around the one at `path`, outermost first, each with its path from `root`, a
    body."""
    for end in range(1, len(path), 2):
        yield path[:end], node_at(root, path[:end])


def grid_band(grid: Grid, path: Path) -> Iterator[tuple[Path, Grid]]:
    """`grid` and the grids that are, one by one, the whole body of the one around them."""
    yield path, grid
    if len(grid.body) == 1 and isinstance(grid.body[0], Grid):
        yield from grid_band(grid.body[0], (*path, "body", 0))


def is_wave_loop(stmt: Any) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.WAVE


def is_parallel_loop(stmt: Any) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL


def parallel_band(stmt: Stmt, path: Path) -> Iterator[tuple[Path, For]]:
    """`stmt`, if it is a parallel loop, and the parallel loops that are, one by one, the whole body
    of the one around them."""
    if isinstance(stmt, For) and is_parallel_loop(stmt):
        yield path, stmt
        if len(stmt.body) == 1:
            yield from parallel_band(stmt.body[0], (*path, "body", 0))


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
        elif is_dataclass(value) or isinstance(value, tuple):
            yield from expressions(value)


def _parts(node: Any, skip: tuple[str, ...]) -> tuple[Any, ...]:
    if isinstance(node, tuple):
        return node
    return tuple(getattr(node, f.name) for f in fields(node) if f.name not in skip)


def symbol_names(node: Any) -> frozenset[str]:
    """The names of all index symbols that occur in `node`, not in statements nested in it."""
    return frozenset().union(*map(names_of, expressions(node)))


def substitute_node(node: Any, values: dict[str, Expr]) -> Any:
    """`node`, nested statements included, with symbols replaced in every index expression."""
    if isinstance(node, sympy.Expr):
        return substitute(node, values)
    if isinstance(node, tuple):
        return tuple(substitute_node(n, values) for n in node)
    if is_dataclass(node) and not isinstance(node, type):
        return replace(
            node, **{f.name: substitute_node(getattr(node, f.name), values) for f in fields(node)}
        )
    return node


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
