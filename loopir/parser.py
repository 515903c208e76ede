"""Recursive-descent parser of the text form: `parse(to_text(p)) == p`. `docs/ir.md` has the grammar.

Words are keywords only where the grammar asks for them, so that a buffer may be called `order`; only `min`, `max`,
`ceildiv`, `and`, `or`, `not` and `inf` can never be names.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import sympy

from loopir.ewise_parser import ewise_expr, literal
from loopir.expr_parser import condition, element_read, index_expr
from loopir.lexer import MAX_NESTING, Cursor, TokenKind
from loopir.nodes import (
    Access,
    Accumulator,
    Alias,
    Alloc,
    Arrive,
    AtMost,
    Atomic,
    Barrier,
    Binding,
    Body,
    Dot,
    Ewise,
    Fill,
    For,
    Grid,
    Grid1D,
    GridAxis,
    If,
    Kernel,
    Let,
    Load,
    Param,
    Program,
    Reduce,
    Requirement,
    Set,
    Stmt,
    Store,
    TileAxis,
    TileOrder,
    While,
    Workspace,
    Zeroed,
)
from loopir.symbols import Expr, sym
from loopir.types import Direction, DType, ForKind, OrderKind, Precision, ReduceOp, Space

Item = TypeVar("Item")

_MADE_BY_ALLOC = frozenset({Space.GLOBAL, Space.WORKSPACE})


def parse(text: str) -> Program:
    """The one program in `text`; raises ParseError with line, column and a caret."""
    c = Cursor(text)
    program = _program(c)
    if c.peek.kind is not TokenKind.END:
        c.fail("expected one program, found another; `parse_many` takes several")
    return program


def parse_many(text: str) -> tuple[Program, ...]:
    """The programs in `text`, one or more, with a line `# -----` between any two; raises ParseError."""
    c = Cursor(text)
    programs = [_program(c)]
    while c.peek.kind is not TokenKind.END:
        programs.append(_program(c))
    return tuple(programs)


def parse_expr(text: str) -> Expr:
    """The index expression in `text`; raises ParseError."""
    c = Cursor(text)
    c.skip_newlines()
    expr = index_expr(c)
    c.skip_newlines()
    if c.peek.kind is not TokenKind.END:
        c.fail_expected("an operator or end of text")
    return expr


# --- programs -----------------------------------------------------------------------------------------------------


def _skip_between_programs(c: Cursor) -> None:
    while c.peek.kind in (TokenKind.NEWLINE, TokenKind.SEPARATOR):
        c.take()


def _program(c: Cursor) -> Program:
    """A program and the separators around it."""
    _skip_between_programs(c)
    workspaces: list[Workspace] = []
    while c.peek.text == "workspace":
        workspaces.append(_workspace(c))
    kernels = [_kernel(c, ("kernel",) if workspaces else ("kernel", "workspace"))]
    c.skip_newlines()
    while c.peek.kind not in (TokenKind.SEPARATOR, TokenKind.END):
        kernels.append(_kernel(c, ("kernel",)))
        c.skip_newlines()
    _skip_between_programs(c)
    return Program(tuple(kernels), tuple(workspaces))


def _workspace(c: Cursor) -> Workspace:
    c.expect("workspace")
    name = c.name("a workspace")
    c.expect(":")
    made = Workspace(name, c.choice(DType, "a dtype"), _shape(c))
    _end_of_line(c)
    return made


def _kernel(c: Cursor, first_words: tuple[str, ...]) -> Kernel:
    if c.peek.text != "kernel":
        c.fail_expected(" or ".join(f"`{w}`" for w in first_words), first_words)
    c.take()
    c.expect("@")
    name = c.name("a kernel")
    params = _listed(c, "(", _param, ")")
    clauses = _clauses(c)
    return Kernel(name, params, _block(c), **clauses)


def _param(c: Cursor) -> Param:
    is_directed = c.peek.text in ("in", "out", "inout") and c.after.kind is TokenKind.NAME
    direction = Direction(c.take().text) if is_directed else Direction.IN
    name = c.name("a parameter")
    c.expect(":")
    dtype, shape = c.choice(DType, "a dtype"), _shape(c)
    if not c.accept("contiguous"):
        return Param(name, dtype, shape, direction)
    c.expect("(")
    dimension = None if c.accept("none") else c.integer("a dimension or `none`")
    c.expect(")")
    return Param(name, dtype, shape, direction, dimension)


def _clauses(c: Cursor) -> dict:
    """What stands between a kernel's parameters and its body, each word once but `alias`."""
    found: dict[str, tuple] = {}
    aliases: list[Alias] = []
    c.skip_newlines()
    while c.peek.text != "{":
        at = c.peek
        word = c.expect("where", "alias", "requires", "{")
        if word in found:
            c.fail(f"a second `{word}`; separate its items by commas", at)
        if word == "alias":
            aliases.append(_alias(c))
        else:
            found[word] = _comma_separated(c, _binding if word == "where" else _requirement)
        c.skip_newlines()
    return {**found, "aliases": tuple(aliases)}


def _binding(c: Cursor) -> Binding:
    name = c.name("a name to bind")
    c.expect("=")
    return Binding(name, index_expr(c))


def _alias(c: Cursor) -> Alias:
    c.expect("(")
    first = c.name("a parameter")
    c.expect(",")
    second = c.name("a parameter")
    c.expect(")")
    return Alias(first, second)


def _requirement(c: Cursor) -> Requirement:
    word = c.expect("zeroed", "at_most")
    c.expect("(")
    name = c.name("a buffer" if word == "zeroed" else "a symbol")
    if word == "zeroed":
        c.expect(")")
        return Zeroed(name)
    c.expect(",")
    bound = index_expr(c)
    c.expect(")")
    return AtMost(name, bound)


# --- lists and blocks ---------------------------------------------------------------------------------------------


def _comma_separated(c: Cursor, item: Callable[[Cursor], Item]) -> tuple[Item, ...]:
    items = [item(c)]
    while c.accept(","):
        items.append(item(c))
    return tuple(items)


def _listed(
    c: Cursor, opening: str, item: Callable[[Cursor], Item], closing: str
) -> tuple[Item, ...]:
    """Any number of items in brackets."""
    c.expect(opening)
    if c.accept(closing):
        return ()
    items = _comma_separated(c, item)
    if c.peek.text != closing:
        c.fail_expected(f"`,` or `{closing}`")
    c.take()
    return items


def _shape(c: Cursor) -> tuple[Expr, ...]:
    return _listed(c, "[", index_expr, "]")


def _end_of_line(c: Cursor) -> None:
    if c.peek.kind is not TokenKind.NEWLINE and c.peek.text != "}" and c.peek.kind is not TokenKind.END:
        c.fail_expected("end of line")
    c.skip_newlines()


def _block(c: Cursor) -> Body:
    c.blocks += 1
    if c.blocks > MAX_NESTING:
        c.fail(f"blocks nest deeper than {MAX_NESTING}")
    opening = c.peek
    c.expect("{")
    c.skip_newlines()
    body: list[Stmt] = []
    while not c.accept("}"):
        if c.peek.kind in (TokenKind.END, TokenKind.SEPARATOR):
            c.fail("this `{` is never closed", opening)
        body.append(_statement(c))
    c.blocks -= 1
    return tuple(body)


def _statement(c: Cursor) -> Stmt:
    if c.peek.text not in _STATEMENTS:
        c.fail_expected("a statement", _STATEMENTS)
    word = c.take().text
    stmt = _STATEMENTS[word](c)
    _end_of_line(c)
    return stmt


# --- scalars, structure -------------------------------------------------------------------------------------------


def _let(c: Cursor) -> Let:
    name = c.name("a scalar")
    c.expect("=")
    is_read = c.peek.kind is TokenKind.NAME and c.after.text == "["
    return Let(name, element_read(c) if is_read else index_expr(c))


def _set(c: Cursor) -> Set:
    name = c.name("a scalar")
    c.expect("=")
    return Set(name, index_expr(c))


def _loop(kind: ForKind) -> Callable[[Cursor], For]:
    def loop(c: Cursor) -> For:
        iv = c.name("a loop variable")
        c.expect("in")
        lo = index_expr(c)
        c.expect("..")
        hi = index_expr(c)
        step = index_expr(c) if c.accept("step") else sympy.Integer(1)
        return For(iv, lo, hi, step, _block(c), kind)

    return loop


def _while(c: Cursor) -> While:
    cond = condition(c)
    return While(cond, _block(c))


def _if(c: Cursor) -> If:
    cond = condition(c)
    then = _block(c)
    return If(cond, then, _block(c) if c.accept("else") else ())


def _reduce(c: Cursor) -> Reduce:
    c.expect("(")
    accumulators = _comma_separated(c, _accumulator)
    c.expect(")")
    return Reduce(accumulators, _block(c))


def _accumulator(c: Cursor) -> Accumulator:
    tile = c.name("an accumulator")
    c.expect(":")
    return Accumulator(tile, c.choice(ReduceOp, "an operator"))


def _grid(c: Cursor) -> Grid:
    at = c.peek
    names = _listed(c, "(", lambda c: c.name("a grid variable"), ")")
    c.expect("in")
    extents = _listed(c, "[", index_expr, "]")
    if not names or len(names) != len(extents):
        c.fail(f"a grid of {len(names)} variable(s) and {len(extents)} extent(s)", at)
    order = _order(c) if c.accept("order") else TileOrder()
    return Grid(tuple(map(GridAxis, names, extents)), _block(c), order)


def _order(c: Cursor) -> TileOrder:
    kind = c.choice(OrderKind, "a tile order")
    if kind is not OrderKind.GROUPED:
        return TileOrder(kind)
    c.expect("(")
    group = c.integer("a number of tile rows")
    c.expect(")")
    return TileOrder(kind, group)


def _grid1d(c: Cursor) -> Grid1D:
    c.expect("(")
    iv = c.name("a grid variable")
    c.expect(")")
    c.expect("in")
    c.expect("[")
    extent = index_expr(c)
    c.expect("]")
    c.expect("persistent")
    return Grid1D(iv, extent, _block(c))


# --- memory and tiles ---------------------------------------------------------------------------------------------


def _alloc(c: Cursor) -> Alloc:
    name = c.name("a tile")
    c.expect(":")
    space = c.choice(Space, "a space", omit=_MADE_BY_ALLOC)
    return Alloc(name, space, c.choice(DType, "a dtype"), _shape(c))


def _fill(c: Cursor) -> Fill:
    tile = _tile_and_comma(c)
    return Fill(tile, literal(c))


def _tile_and_comma(c: Cursor) -> str:
    tile = c.name("a tile")
    c.expect(",")
    return tile


def _load(cooperative: bool) -> Callable[[Cursor], Load]:
    def load(c: Cursor) -> Load:
        tile = _tile_and_comma(c)
        source = _access(c)
        source = replace(source, masked=True) if c.accept("masked") else source
        return Load(tile, source, cooperative, *([literal(c)] if c.accept("else") else []))

    return load


def _access_and_tile(c: Cursor) -> tuple[Access, str]:
    """`access, tile [masked]`."""
    target = _access(c)
    c.expect(",")
    tile = c.name("a tile")
    return replace(target, masked=bool(c.accept("masked"))), tile


def _access(c: Cursor) -> Access:
    """An access up to `masked`."""
    buffer = c.name("a buffer")
    opening = c.peek
    items = _listed(c, "[", _index_item, "]")
    if not c.accept("over"):
        return _short_access(buffer, items)
    if any(size is not None for _, size in items):
        c.fail("`+:` in an index and `over` exclude each other", opening)
    return Access(buffer, tuple(start for start, _ in items), _listed(c, "(", _tile_axis, ")"))


def _short_access(buffer: str, items: tuple[tuple[Expr, Expr | None], ...]) -> Access:
    index: list[Expr] = []
    axes: list[TileAxis] = []
    for start, size in items:
        if size is None:
            index.append(start)
            continue
        axes.append(TileAxis(f"_{len(axes)}", start, size))
        index.append(sym(axes[-1].name))
    return Access(buffer, tuple(index), tuple(axes))


def _index_item(c: Cursor) -> tuple[Expr, Expr | None]:
    start = index_expr(c)
    return start, index_expr(c) if c.accept("+:") else None


def _tile_axis(c: Cursor) -> TileAxis:
    name = c.name("a tile axis")
    c.expect("=")
    start = index_expr(c)
    c.expect("+:")
    size = index_expr(c)
    return TileAxis(name, start, size, index_expr(c) if c.accept("<") else None)


def _store(c: Cursor) -> Store:
    return Store(*_access_and_tile(c))


def _atomic(c: Cursor) -> Atomic:
    op = c.choice(ReduceOp, "an operator")
    return Atomic(op, *_access_and_tile(c))


def _barrier(c: Cursor) -> Barrier:
    return Barrier()


def _arrive(c: Cursor) -> Arrive:
    flag = c.name("a flag")
    c.expect(",")
    counter = element_read(c)
    c.expect(",")
    return Arrive(flag, counter, index_expr(c))


def _dot(c: Cursor) -> Dot:
    acc, a, b = _tile_and_comma(c), _tile_and_comma(c), c.name("a tile")
    if c.peek.kind is not TokenKind.NAME:
        return Dot(acc, a, b)
    return Dot(acc, a, b, c.choice(Precision, "a precision"))


def _ewise(c: Cursor) -> Ewise:
    tile = c.name("a tile")
    c.expect("=")
    return Ewise(tile, ewise_expr(c))


_STATEMENTS: dict[str, Callable[[Cursor], Stmt]] = {
    "let": _let,
    "set": _set,
    "alloc": _alloc,
    "fill": _fill,
    "load": _load(cooperative=False),
    "coop_load": _load(cooperative=True),
    "store": _store,
    "atomic": _atomic,
    "barrier": _barrier,
    "arrive": _arrive,
    "dot": _dot,
    "ewise": _ewise,
    "for": _loop(ForKind.SEQUENTIAL),
    "wave": _loop(ForKind.WAVE),
    "while": _while,
    "if": _if,
    "reduce": _reduce,
    "grid": _grid,
    "grid1d": _grid1d,
}
