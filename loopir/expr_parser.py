"""Parser of index expressions and conditions.

Whole chains of terms and of factors are handed to sympy at once, since it evaluates as it builds:
the object must be the one that the printed program held. Names become symbols and nothing else;
no text is ever evaluated as code.
"""

from functools import lru_cache

import sympy

from loopir.cursor import INT64, MAX_NESTING, Cursor, nearest
from loopir.lexer import Token, TokenKind
from loopir.nodes import AllOf, AnyOf, Cmp, Cond, ElementRead, Flag, Negate
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, sym

#: Operands of one index expression, and arguments of everything that sympy builds for it: seconds.
MAX_OPERATIONS = 1 << 16

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_CONDITION_WORDS = frozenset({*_COMPARISONS, "and", "or", "not"})
_DIVISIONS = {"//": FloorDiv, "%": Mod}
_FUNCTIONS = {"min": Min, "max": Max, "ceildiv": CeilDiv}
_NOT_HERE = {
    "/": "`/` is no integer operation; write `//` or ceildiv(a, b)",
    "**": "there is no power operator; write x * x",
    "[": "a buffer's element is read by a statement of its own, `let x = buffer[i]`",
}


def index_expr(c: Cursor) -> Expr:
    """`a + b * c // d ...`, with Python's precedence."""
    c.operations = 0
    outside, c.parentheses = c.parentheses, 0
    expr = _sum(c)
    c.parentheses = outside
    return expr


def _sum(c: Cursor) -> Expr:
    start = c.peek
    terms = [_product(c, 1)]
    while sign := c.accept("+", "-"):
        terms.append(_product(c, -1 if sign == "-" else 1))
    return _checked(c, start, sympy.Add(*terms)) if len(terms) > 1 else terms[0]


def _product(c: Cursor, sign: int) -> Expr:
    start = c.peek
    factors = _signed_operand(c)
    while operator := c.accept("*", "//", "%"):
        at = c.peek
        operand = _signed_operand(c)
        if operator == "*":
            factors += operand
            continue
        quotient = _divide(c, at, operator, _multiply(factors), _multiply(operand))
        factors = [_checked(c, start, quotient)]
    if c.peek.text in _NOT_HERE:
        c.fail(_NOT_HERE[c.peek.text])
    return _checked(c, start, _multiply([sympy.Integer(sign), *factors]))


def _multiply(factors: list[Expr]) -> Expr:
    if 0 in factors:  # sympy would ask whether the other factors are finite: a deep recursion
        return sympy.Integer(0)
    return sympy.Mul(*factors) if len(factors) > 1 else factors[0]


def _divide(c: Cursor, at: Token, operator: str, left: Expr, right: Expr) -> Expr:
    if right == 0:
        c.fail("division by zero", at)
    return _DIVISIONS[operator](left, right)


def _signed_operand(c: Cursor) -> list[Expr]:
    """The factors of `-x`: minus one and x."""
    negative = False
    while c.accept("-"):
        negative = not negative
    operand = _operand(c)
    return [sympy.Integer(-1), operand] if negative else [operand]


def _operand(c: Cursor) -> Expr:
    token = c.peek
    _count(c, token, 1)
    if token.kind is TokenKind.INT:
        return sympy.Integer(int(c.take().text))  # its width is checked together with its sign
    if token.text == "(":
        return c.parenthesised(_sum)
    if token.kind is TokenKind.NAME and c.after.text == "(":
        return _call(c)
    if token.text in _NOT_HERE:
        c.fail(_NOT_HERE[token.text])
    return sym(c.name("an index expression"))


def _call(c: Cursor) -> Expr:
    token = c.take()
    if token.text not in _FUNCTIONS:
        hint = nearest(token.text, _FUNCTIONS) or "; index expressions have min, max and ceildiv"
        c.fail(f"unknown function `{token.text}`{hint}", token)
    c.enter()
    arguments = c.listed("(", _sum, ")")
    c.leave()
    _check_arguments(c, token, arguments)
    return _checked(c, token, _FUNCTIONS[token.text](*arguments))


def _check_arguments(c: Cursor, token: Token, arguments: tuple[Expr, ...]) -> None:
    is_pair = token.text == "ceildiv"
    if len(arguments) < 2 or (is_pair and len(arguments) > 2):
        count = "2" if is_pair else "2 or more"
        c.fail(f"`{token.text}` takes {count} arguments, found {len(arguments)}", token)
    if is_pair and arguments[1] == 0:
        c.fail("division by zero", token)


def _checked(c: Cursor, start: Token, expr: Expr) -> Expr:
    """`expr`, unless folded constants left 64 bits or it is too deep to compare and print."""
    _count(c, start, len(expr.args))
    for term in sympy.Add.make_args(expr):
        number = term.args[0] if term.is_Mul else term
        if isinstance(number, sympy.Integer) and int(number) not in INT64:
            c.fail("a constant of this expression needs more than 64 bits", start)
    if _height(expr) > MAX_NESTING:
        c.fail(f"index expression nests deeper than {MAX_NESTING} operations", start)
    return expr


def _count(c: Cursor, start: Token, operations: int) -> None:
    c.operations += operations
    if c.operations > MAX_OPERATIONS:
        c.fail(f"index expression of more than {MAX_OPERATIONS} operations", start)


@lru_cache(maxsize=1 << 14)
def _height(expr: sympy.Basic) -> int:
    return 1 + max(map(_height, expr.args)) if expr.args else 0


def condition(c: Cursor) -> Cond:
    """Comparisons and flags under `or`, `and`, `not`; `not` binds tightest, `or` loosest."""
    start = c.peek
    cond = _any_of(c)
    if _cond_height(cond) > MAX_NESTING:
        c.fail(f"condition nests deeper than {MAX_NESTING}", start)
    return cond


def _cond_height(cond: Cond) -> int:
    match cond:
        case AllOf(terms) | AnyOf(terms):
            return 1 + max(map(_cond_height, terms))
        case Negate(term):
            return 1 + _cond_height(term)
        case Cmp():
            return 1
        case Flag():
            return 0


def _any_of(c: Cursor) -> Cond:
    terms = [_all_of(c)]
    while c.accept("or"):
        terms.append(_all_of(c))
    return AnyOf(tuple(terms)) if len(terms) > 1 else terms[0]


def _all_of(c: Cursor) -> Cond:
    terms = [_negation(c)]
    while c.accept("and"):
        terms.append(_negation(c))
    return AllOf(tuple(terms)) if len(terms) > 1 else terms[0]


def _negation(c: Cursor) -> Cond:
    if not c.accept("not"):
        return _group(c)
    c.enter()
    negated = Negate(_negation(c))
    c.leave()
    return negated


def _group(c: Cursor) -> Cond:
    if c.peek.text != "(" or not _encloses_condition(c):
        return _comparison(c)
    return c.parenthesised(_any_of)


def _encloses_condition(c: Cursor) -> bool:
    """Whether the parenthesis ahead holds a comparison or a word of conditions, which index
    expressions never do."""
    depth = 0
    for position in range(c.position, min(c.position + MAX_OPERATIONS, len(c.tokens))):
        text = c.tokens[position].text
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth == 0 or text == "{":
            return False
        if text in _CONDITION_WORDS:
            return True
    return False


def _comparison(c: Cursor) -> Cond:
    lhs = index_expr(c)
    operator = c.accept(*_COMPARISONS)
    if not operator and isinstance(lhs, sympy.Symbol):
        return Flag(lhs.name)
    if not operator:
        c.fail_expected("a comparison")
    compared = Cmp(operator, lhs, index_expr(c))
    if c.peek.text in _COMPARISONS:
        c.fail("comparisons do not chain; join them with `and`")
    return compared


def element_read(c: Cursor) -> ElementRead:
    """`buffer[index, ...]`."""
    buffer = c.name("a buffer")
    return ElementRead(buffer, c.listed("[", index_expr, "]"))
