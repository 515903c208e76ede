"""Parser of element-wise expressions and of number literals; the tree is kept as written."""

import math
from collections.abc import Callable

from loopir.cursor import Cursor, nearest
from loopir.ewise_text import AXIS_REDUCTIONS
from loopir.expr_parser import index_expr
from loopir.lexer import Token, TokenKind
from loopir.nodes import (
    EWISE_FUNCTIONS,
    Apply,
    AxisReduce,
    Cast,
    Ewise_,
    Expand,
    Literal,
    Mask,
    Part,
    TileRef,
)
from loopir.symbols import Expr
from loopir.types import DType

#: Operations of one element-wise expression, whose tree is as deep as its chains are long.
MAX_OPERATIONS = 100

_SUM = {"+": "add", "-": "sub"}
_PRODUCT = {"*": "mul", "/": "div"}
_AXIS_REDUCTIONS = {text: op for op, text in AXIS_REDUCTIONS.items()}
_FUNCTIONS = ("cast", "expand", "mask", "part", *_AXIS_REDUCTIONS, *EWISE_FUNCTIONS)


def literal(c: Cursor) -> Literal:
    """`3`, `-1.5e-3`, `inf` or `-inf`."""
    negative = bool(c.accept("-"))
    if not _is_number(c.peek):
        c.fail_expected("a number")
    return Literal(_number(c, c.take(), negative))


def _is_number(token: Token) -> bool:
    return token.kind in (TokenKind.INT, TokenKind.FLOAT) or token.text == "inf"


def _number(c: Cursor, token: Token, negative: bool) -> int | float:
    if token.kind is TokenKind.INT:
        return c.int_value(token, -1 if negative else 1)
    magnitude = float(token.text)
    if math.isinf(magnitude) and token.text != "inf":
        c.fail(f"number {token.text} is beyond the range of f64; write inf", token)
    return -magnitude if negative else magnitude


def ewise_expr(c: Cursor) -> Ewise_:
    """`a * 2 + expand(bias, 0)`: + - * / and unary - as in Python, everything else as calls."""
    c.operations = 0
    return _sum(c)


def _sum(c: Cursor) -> Ewise_:
    return _chain(c, _SUM, _product)


def _product(c: Cursor) -> Ewise_:
    return _chain(c, _PRODUCT, _unary)


def _chain(c: Cursor, operators: dict[str, str], operand: Callable[[Cursor], Ewise_]) -> Ewise_:
    left = operand(c)
    while operator := c.accept(*operators):
        _count(c)
        left = Apply(operators[operator], (left, operand(c)))
    return left


def _unary(c: Cursor) -> Ewise_:
    if c.peek.text != "-" or _is_number(c.after):
        return _primary(c)
    c.take()
    _count(c)
    return Apply("neg", (_unary(c),))


def _primary(c: Cursor) -> Ewise_:
    if c.peek.text == "-" or _is_number(c.peek):
        return literal(c)
    if c.peek.text == "(":
        return c.parenthesised(_sum)
    if c.after.text == "(" and c.at(TokenKind.NAME):
        return _call(c)
    return TileRef(c.name("an element-wise expression"))


def _call(c: Cursor) -> Ewise_:
    token = c.take()
    _count(c)
    if token.text not in _FUNCTIONS:
        hint = nearest(token.text, _FUNCTIONS) or f"; there are {', '.join(_FUNCTIONS)}"
        c.fail(f"unknown function `{token.text}`{hint}", token)
    return c.parenthesised(lambda c: _arguments(c, token))


def _arguments(c: Cursor, token: Token) -> Ewise_:
    if token.text == "cast":
        dtype = c.choice(DType, "a dtype")
        c.expect(",")
        return Cast(dtype, _sum(c))
    if token.text == "expand":
        return Expand(_sum(c), _axis(c))
    if token.text == "mask":
        return Mask(_sum(c), _axis(c), _index(c), _index(c), _otherwise(c))
    if token.text == "part":
        return Part(_sum(c), _axis(c), _parts(c), _parts(c))
    if token.text in _AXIS_REDUCTIONS:
        return AxisReduce(_AXIS_REDUCTIONS[token.text], _sum(c), _axis(c))
    return _apply(c, token)


def _axis(c: Cursor) -> int:
    c.expect(",")
    return c.integer("an axis")


def _parts(c: Cursor) -> int:
    c.expect(",")
    return c.integer("a number")


def _index(c: Cursor) -> Expr:
    """An index expression, whose operations count for themselves."""
    c.expect(",")
    operations = c.operations
    expr = index_expr(c)
    c.operations = operations
    return expr


def _otherwise(c: Cursor) -> Literal:
    c.expect(",")
    return literal(c)


def _apply(c: Cursor, token: Token) -> Ewise_:
    arguments = c.comma_separated(_sum)
    wanted = EWISE_FUNCTIONS[token.text]
    if len(arguments) != wanted:
        c.fail(f"`{token.text}` takes {wanted} argument(s), found {len(arguments)}", token)
    return Apply(token.text, arguments)


def _count(c: Cursor) -> None:
    c.operations += 1
    if c.operations > MAX_OPERATIONS:
        c.fail(f"element-wise expression with more than {MAX_OPERATIONS} operations")
