"""Parser of blocks and statements: one small function a keyword."""

from collections.abc import Callable
from dataclasses import replace

import sympy

from loopir import nodes as ir
from loopir.cursor import MAX_NESTING, Cursor
from loopir.ewise_parser import ewise_expr, literal
from loopir.expr_parser import condition, element_read, index_expr
from loopir.lexer import TokenKind
from loopir.symbols import Expr, sym
from loopir.types import DType, ForKind, OrderKind, Precision, ReduceOp, Space, Via

_NOT_ALLOCATED = frozenset({Space.GLOBAL, Space.WORKSPACE})


def block(c: Cursor) -> ir.Body:
    """`{`, statements, `}`."""
    c.blocks += 1
    if c.blocks > MAX_NESTING:
        c.fail(f"blocks nest deeper than {MAX_NESTING}")
    opening = c.peek
    c.expect("{")
    c.skip_newlines()
    body: list[ir.Stmt] = []
    while not c.accept("}"):
        if c.at(TokenKind.END, TokenKind.SEPARATOR):
            c.fail("this `{` is never closed", opening)
        body.append(_statement(c))
    c.blocks -= 1
    return tuple(body)


def _statement(c: Cursor) -> ir.Stmt:
    if c.peek.text not in _STATEMENTS:
        c.fail_expected("a statement", _STATEMENTS)
    stmt = _STATEMENTS[c.take().text](c)
    end_of_line(c)
    return stmt


def end_of_line(c: Cursor) -> None:
    """Where a statement ends: at its line's end, or before the brace that closes its block."""
    if not c.at(TokenKind.NEWLINE, TokenKind.END) and c.peek.text != "}":
        c.fail_expected("end of line")
    c.skip_newlines()


def shape(c: Cursor) -> tuple[Expr, ...]:
    return c.listed("[", index_expr, "]")


# --- scalars and structure ------------------------------------------------------------------------


def _let(c: Cursor) -> ir.Let:
    name = c.name("a scalar")
    c.expect("=")
    is_read = c.at(TokenKind.NAME) and c.after.text == "["
    return ir.Let(name, element_read(c) if is_read else index_expr(c))


def _set(c: Cursor) -> ir.Set:
    name = c.name("a scalar")
    c.expect("=")
    return ir.Set(name, index_expr(c))


def _for(c: Cursor) -> ir.For:
    return _loop(c, ForKind.SEQUENTIAL)


def _parallel(c: Cursor) -> ir.For:
    return _loop(c, ForKind.PARALLEL)


def _wave(c: Cursor) -> ir.For:
    return _loop(c, ForKind.WAVE)


def _loop(c: Cursor, kind: ForKind) -> ir.For:
    iv = c.name("a loop variable")
    c.expect("in")
    lo = index_expr(c)
    c.expect("..")
    hi = index_expr(c)
    step = index_expr(c) if c.accept("step") else sympy.Integer(1)
    flattened = kind is ForKind.SEQUENTIAL and bool(c.accept("flattened"))
    return ir.For(iv, lo, hi, step, block(c), kind, flattened)


def _while(c: Cursor) -> ir.While:
    cond = condition(c)
    return ir.While(cond, block(c))


def _if(c: Cursor) -> ir.If:
    cond = condition(c)
    then = block(c)
    return ir.If(cond, then, block(c) if c.accept("else") else ())


def _reduce(c: Cursor) -> ir.Reduce:
    c.expect("(")
    accumulators = c.comma_separated(_accumulator)
    c.expect(")")
    return ir.Reduce(accumulators, block(c))


def _accumulator(c: Cursor) -> ir.Accumulator:
    tile = c.name("an accumulator")
    c.expect(":")
    return ir.Accumulator(tile, c.choice(ReduceOp, "an operator"))


def _grid(c: Cursor) -> ir.Grid:
    start = c.peek
    names = c.listed("(", lambda c: c.name("a grid variable"), ")")
    c.expect("in")
    extents = shape(c)
    if not names or len(names) != len(extents):
        c.fail(f"a grid of {len(names)} variable(s) and {len(extents)} extent(s)", start)
    order = _order(c) if c.accept("order") else ir.TileOrder()
    return ir.Grid(tuple(map(ir.GridAxis, names, extents)), block(c), order)


def _order(c: Cursor) -> ir.TileOrder:
    kind = c.choice(OrderKind, "a tile order")
    if kind is not OrderKind.GROUPED:
        return ir.TileOrder(kind)
    c.expect("(")
    group = c.integer("a number of tile rows")
    c.expect(")")
    return ir.TileOrder(kind, group)


def _grid1d(c: Cursor) -> ir.Grid1D:
    iv = c.parenthesised(lambda c: c.name("a grid variable"))
    c.expect("in")
    c.expect("[")
    extent = index_expr(c)
    c.expect("]")
    c.expect("persistent")
    return ir.Grid1D(iv, extent, block(c))


# --- memory and tiles -----------------------------------------------------------------------------


def _alloc(c: Cursor) -> ir.Alloc:
    name = c.name("a tile")
    c.expect(":")
    space = c.choice(Space, "a space", omit=_NOT_ALLOCATED)
    return ir.Alloc(name, space, c.choice(DType, "a dtype"), shape(c))


def _fill(c: Cursor) -> ir.Fill:
    tile = _tile_and_comma(c)
    return ir.Fill(tile, literal(c))


def _tile_and_comma(c: Cursor) -> str:
    tile = c.name("a tile")
    c.expect(",")
    return tile


def _load(c: Cursor) -> ir.Load:
    tile = _tile_and_comma(c)
    source = access(c)
    source = replace(source, masked=bool(c.accept("masked")))
    otherwise = literal(c) if c.accept("else") else ir.Literal(0)
    via = _via(c)
    return ir.Load(tile, source, False, otherwise, via, bool(c.accept("evict_first")))


def _coop_load(c: Cursor) -> ir.Load:
    return replace(_load(c), cooperative=True)


def _store(c: Cursor) -> ir.Store:
    return ir.Store(*_moved(c), via=_via(c))


def _via(c: Cursor) -> Via:
    return Via.DESCRIPTOR if c.accept(Via.DESCRIPTOR.value) else Via.POINTER


def _atomic(c: Cursor) -> ir.Atomic:
    op = c.choice(ReduceOp, "an operator")
    return ir.Atomic(op, *_moved(c))


def _moved(c: Cursor) -> tuple[ir.Access, str]:
    """`access, tile [masked]`."""
    target = access(c)
    c.expect(",")
    tile = c.name("a tile")
    return replace(target, masked=bool(c.accept("masked"))), tile


def _barrier(_: Cursor) -> ir.Barrier:
    return ir.Barrier()


def _arrive(c: Cursor) -> ir.Arrive:
    flag = c.name("a flag")
    c.expect(",")
    counter = element_read(c)
    c.expect(",")
    return ir.Arrive(flag, counter, index_expr(c))


def _dot(c: Cursor) -> ir.Dot:
    acc, a, b = _tile_and_comma(c), _tile_and_comma(c), c.name("a tile")
    is_plain = not c.at(TokenKind.NAME)
    return ir.Dot(acc, a, b, Precision.IEEE if is_plain else c.choice(Precision, "a precision"))


def _ewise(c: Cursor) -> ir.Ewise:
    tile = c.name("a tile")
    c.expect("=")
    return ir.Ewise(tile, ewise_expr(c))


# --- accesses -------------------------------------------------------------------------------------


def access(c: Cursor) -> ir.Access:
    """`buffer[start +: size, scalar]` or `buffer[index, ...] over (axis, ...)`."""
    buffer = c.name("a buffer")
    opening = c.peek
    items = c.listed("[", _index_item, "]")
    if not c.accept("over"):
        return _short_access(buffer, items)
    if any(size is not None for _, size in items):
        c.fail("`+:` in an index and `over` exclude each other", opening)
    return ir.Access(buffer, tuple(start for start, _ in items), c.listed("(", _tile_axis, ")"))


def _short_access(buffer: str, items: tuple[tuple[Expr, Expr | None], ...]) -> ir.Access:
    index: list[Expr] = []
    axes: list[ir.TileAxis] = []
    for start, size in items:
        if size is None:
            index.append(start)
            continue
        axes.append(ir.TileAxis(f"_{len(axes)}", start, size))
        index.append(sym(axes[-1].name))
    return ir.Access(buffer, tuple(index), tuple(axes))


def _index_item(c: Cursor) -> tuple[Expr, Expr | None]:
    start = index_expr(c)
    return start, index_expr(c) if c.accept("+:") else None


def _tile_axis(c: Cursor) -> ir.TileAxis:
    name = c.name("a tile axis")
    c.expect("=")
    start = index_expr(c)
    c.expect("+:")
    size = index_expr(c)
    return ir.TileAxis(name, start, size, index_expr(c) if c.accept("<") else None)


_STATEMENTS: dict[str, Callable[[Cursor], ir.Stmt]] = {
    "let": _let,
    "set": _set,
    "alloc": _alloc,
    "fill": _fill,
    "load": _load,
    "coop_load": _coop_load,
    "store": _store,
    "atomic": _atomic,
    "barrier": _barrier,
    "arrive": _arrive,
    "dot": _dot,
    "ewise": _ewise,
    "for": _for,
    "parallel": _parallel,
    "wave": _wave,
    "while": _while,
    "if": _if,
    "reduce": _reduce,
    "grid": _grid,
    "grid1d": _grid1d,
}
