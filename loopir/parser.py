"""Recursive-descent parser of the text form; `parse(to_text(p)) == p`, grammar in `docs/ir.md`.

Words are keywords only where the grammar asks for them, so that a buffer may be called `order`;
`loopir.lexer.RESERVED` lists the few that can never be names.
"""

from loopir.cursor import Cursor
from loopir.expr_parser import index_expr
from loopir.lexer import TokenKind
from loopir.nodes import (
    Alias,
    AtMost,
    Binding,
    Kernel,
    Param,
    Program,
    Requirement,
    Workspace,
    Zeroed,
)
from loopir.stmt_parser import block, end_of_line, shape
from loopir.symbols import Expr
from loopir.types import Direction, DType, ElementOrder


def parse(text: str) -> Program:
    """The one program in `text`; raises ParseError with line, column and a caret."""
    c = Cursor(text)
    program = _program(c)
    if not c.at(TokenKind.END):
        c.fail("expected one program, found another; `parse_many` and bundles take several")
    return program


def parse_many(text: str) -> tuple[Program, ...]:
    """The programs in `text`, one or more, a line `# -----` between any two; raises ParseError."""
    c = Cursor(text)
    programs = [_program(c)]
    while not c.at(TokenKind.END):
        programs.append(_program(c))
    return tuple(programs)


def parse_expr(text: str) -> Expr:
    """The index expression in `text`; raises ParseError."""
    c = Cursor(text)
    c.skip_newlines()
    expr = index_expr(c)
    c.skip_newlines()
    if not c.at(TokenKind.END):
        c.fail_expected("an operator or end of text")
    return expr


def _program(c: Cursor) -> Program:
    """A program and the separators around it."""
    _skip_separators(c)
    workspaces: list[Workspace] = []
    while c.peek.text == "workspace":
        workspaces.append(_workspace(c))
    kernels = [_kernel(c, ("kernel",) if workspaces else ("kernel", "workspace"))]
    while not c.at(TokenKind.SEPARATOR, TokenKind.END):
        kernels.append(_kernel(c, ("kernel",)))
    _skip_separators(c)
    return Program(tuple(kernels), tuple(workspaces))


def _skip_separators(c: Cursor) -> None:
    while c.at(TokenKind.NEWLINE, TokenKind.SEPARATOR):
        c.take()


def _workspace(c: Cursor) -> Workspace:
    c.expect("workspace")
    name = c.name("a workspace")
    c.expect(":")
    dtype, sizes = c.choice(DType, "a dtype"), shape(c)
    order = ElementOrder(c.accept(ElementOrder.FRAGMENTS.value) or ElementOrder.ROWS)
    end_of_line(c)
    return Workspace(name, dtype, sizes, order)


def _kernel(c: Cursor, first_words: tuple[str, ...]) -> Kernel:
    c.expect(*first_words)
    c.expect("@")
    name = c.name("a kernel")
    params = c.listed("(", _param, ")")
    clauses = _clauses(c)
    kernel = Kernel(name, params, block(c), **clauses)
    end_of_line(c)
    return kernel


def _param(c: Cursor) -> Param:
    is_directed = c.peek.text in ("in", "out", "inout") and c.after.kind is TokenKind.NAME
    direction = Direction(c.take().text) if is_directed else Direction.IN
    name = c.name("a parameter")
    c.expect(":")
    dtype = c.choice(DType, "a dtype")
    return Param(name, dtype, shape(c), direction, _contiguous(c))


def _contiguous(c: Cursor) -> int | None:
    if not c.accept("contiguous"):
        return -1
    c.expect("(")
    dimension = None if c.accept("none") else c.integer("a dimension or `none`")
    c.expect(")")
    return dimension


def _clauses(c: Cursor) -> dict[str, tuple]:
    """What stands between a kernel's parameters and its body; only `alias` comes more than once."""
    found: dict[str, tuple] = {}
    c.skip_newlines()
    while c.peek.text != "{":
        start = c.peek
        word = c.expect("where", "alias", "requires", "{")
        if word == "alias":
            found["aliases"] = (*found.get("aliases", ()), _alias(c))
        elif word in found:
            c.fail(f"a second `{word}`; separate its items by commas", start)
        else:
            found[word] = c.comma_separated(_binding if word == "where" else _requirement)
        c.skip_newlines()
    return found


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
    if c.expect("zeroed", "at_most") == "zeroed":
        return Zeroed(c.parenthesised(lambda c: c.name("a buffer")))
    return c.parenthesised(_at_most)


def _at_most(c: Cursor) -> AtMost:
    name = c.name("a symbol")
    c.expect(",")
    return AtMost(name, index_expr(c))
