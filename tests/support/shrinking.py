"""A smaller program with the same fault: greedy delta debugging on the IR."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from loopir.effects import tiles_read, tiles_written
from loopir.nodes import (
    Access,
    Alloc,
    Apply,
    Binding,
    Body,
    Cast,
    Ewise,
    For,
    Grid,
    Kernel,
    Let,
    Literal,
    Load,
    Program,
    Reduce,
    Stmt,
    Store,
    TileOrder,
)
from loopir.scope import allocs
from loopir.symbols import Expr, to_expr
from loopir.types import ForKind
from loopir.verifier import violations
from loopir.walk import body_fields, map_bodies, substitute_node, symbol_names, walk_program
from tests.support.edits import replaced, spliced, with_kernel

MOST_ATTEMPTS = 5000


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program that keeps the rules of the IR, that `fails`, and of which no single cut does.

    `fails` is asked of well-formed programs only. After `MOST_ATTEMPTS` questions the smallest
    program so far is the answer.
    """
    search = _Search(fails)
    previous = None
    while program != previous:
        previous = program
        for cuts in _CUTS:
            program = search.cut(program, cuts)
    return program


class _Search:
    def __init__(self, fails: Callable[[Program], bool]):
        self.fails, self.left = fails, MOST_ATTEMPTS

    def cut(self, program: Program, cuts: "_Cuts") -> Program:
        """`program` after every cut of a kind that keeps the fault."""
        tried, candidates = 0, list(cuts(program))
        while tried < len(candidates) and self.left:
            self.left -= 1
            if self.still_fails(candidates[tried]):
                program = candidates[tried]
                candidates = list(cuts(program))
            else:
                tried += 1
        return program

    def still_fails(self, program: Program) -> bool:
        return not violations(program) and self.fails(program)


_Cuts = Callable[[Program], Iterator[Program]]


def _without_statements(program: Program) -> Iterator[Program]:
    """Whole blocks first, since outer statements come first in text order."""
    for path, _ in walk_program(program):
        yield spliced(program, path, ())


def _without_tiles(program: Program) -> Iterator[Program]:
    """Without a tile, and all that reads or writes it."""
    for name in allocs(program.kernels[0]):

        def rid(body: Body, name: str = name) -> Body:
            kept = (s for s in body if name not in _tiles_of(s))
            return tuple(map_bodies(_unlabelled(s, name), rid) for s in kept)

        yield with_kernel(program, lambda k, rid=rid: replace(k, body=rid(k.body)))


def _tiles_of(stmt: Stmt) -> frozenset[str]:
    made = frozenset((stmt.name,)) if isinstance(stmt, Alloc) else frozenset()
    return made | tiles_read(stmt) | tiles_written(stmt)


def _unlabelled(stmt: Stmt, tile: str) -> Stmt:
    if not isinstance(stmt, Reduce):
        return stmt
    return replace(stmt, accumulators=tuple(a for a in stmt.accumulators if a.tile != tile))


def _without_blocks(program: Program) -> Iterator[Program]:
    """A body in the place of its statement: of a loop with its first value."""
    for path, stmt in walk_program(program):
        for name in body_fields(stmt):
            body = getattr(stmt, name)
            if isinstance(stmt, For):
                body = substitute_node(body, {stmt.iv: stmt.lo})
            yield spliced(program, path, body)


def _without_lets(program: Program) -> Iterator[Program]:
    for path, stmt in walk_program(program):
        if isinstance(stmt, Let) and isinstance(stmt.expr, Expr):
            inlined = substitute_node(program, {stmt.name: stmt.expr})
            yield spliced(inlined, path, ())


def _plainer_header(program: Program) -> Iterator[Program]:
    for field in ("params", "aliases", "requires", "where"):
        for i in range(len(getattr(program.kernels[0], field))):
            yield with_kernel(program, lambda k, f=field, i=i: _without(k, f, i))
    for i in range(len(program.workspaces)):
        yield _without(program, "workspaces", i)


def _without(node, field: str, i: int):
    old = getattr(node, field)
    return replace(node, **{field: (*old[:i], *old[i + 1 :])})


def _named_sizes_as_numbers(program: Program) -> Iterator[Program]:
    for i, binding in enumerate(program.kernels[0].where):
        without = with_kernel(program, lambda k, i=i: _without(k, "where", i))
        if binding.name in symbol_names(tuple(s for _, s in walk_program(program))):
            yield substitute_node(without, {binding.name: binding.expr})


def _smaller_sizes(program: Program) -> Iterator[Program]:
    for i, binding in enumerate(program.kernels[0].where):
        if binding.expr.is_Integer:
            value = int(binding.expr)
            for less in sorted({n for n in (0, 1, value // 2, value - 1) if 0 <= n < value}):
                yield with_kernel(program, lambda k, i=i, n=less: _bound(k, i, n))


def _bound(kernel: Kernel, i: int, value: int) -> Kernel:
    bindings = list(kernel.where)
    bindings[i] = Binding(bindings[i].name, to_expr(value))
    return replace(kernel, where=tuple(bindings))


def _plainer_statements(program: Program) -> Iterator[Program]:
    for path, stmt in walk_program(program):
        yield from (replaced(program, path, new) for new in _plainer(stmt))


def _plainer(stmt) -> Iterator:
    match stmt:
        case Grid():
            if stmt.order != TileOrder():
                yield replace(stmt, order=TileOrder())
            for i, axis in enumerate(stmt.axes if len(stmt.axes) > 1 else ()):
                body = substitute_node(stmt.body, {axis.iv: to_expr(0)})
                yield replace(_without(stmt, "axes", i), body=body)
        case Reduce() if len(stmt.accumulators) > 1:
            yield from (_without(stmt, "accumulators", i) for i in range(len(stmt.accumulators)))
        case For(kind=ForKind.WAVE):
            yield from (replace(stmt, hi=hi) for hi in (stmt.lo + 1,) if hi != stmt.hi)
        case Ewise():
            yield from (replace(stmt, expr=e) for e in _parts(stmt.expr))
        case Load(otherwise=Literal(value)) if value != 0:
            yield replace(stmt, otherwise=Literal(0))
        case Load(source=access):
            yield from (replace(stmt, source=a) for a in _plainer_accesses(access))
        case Store(access):
            yield from (replace(stmt, target=a) for a in _plainer_accesses(access))


def _parts(expr) -> Iterator:
    """The operands of an element-wise expression, and it with one of them cut down."""
    match expr:
        case Apply(_, args):
            yield from args
            for i, arg in enumerate(args):
                for part in _parts(arg):
                    yield replace(expr, args=(*args[:i], part, *args[i + 1 :]))
        case Cast(_, arg):
            yield from (replace(expr, arg=part) for part in _parts(arg))


def _plainer_accesses(access: Access) -> Iterator[Access]:
    for i, axis in enumerate(access.axes):
        if axis.limit is not None:
            yield replaced(access, ("axes", i, "limit"), None)


_CUTS: tuple[_Cuts, ...] = (
    _without_tiles,
    _without_statements,
    _without_blocks,
    _plainer_statements,
    _plainer_header,
    _without_lets,
    _smaller_sizes,
    _named_sizes_as_numbers,
)
