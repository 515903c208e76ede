"""Index expressions of the IR as those of a manifest: trees of integer operations, and text."""

import sympy

from backends.triton_codegen.bundle.loading.model import Expression, Tree
from loopir.expr_text import expr_text
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, operands

_WORDS = {FloorDiv: "floordiv", CeilDiv: "ceildiv", Mod: "mod", Min: "min", Max: "max"}


def expression(expr: Expr) -> Expression:
    """An index expression, over names of values."""
    return Expression(tree(expr), expr_text(expr))


def number(value: int) -> Expression:
    return Expression(value, str(value))


def extent(parameter: str, dim: int) -> Expression:
    """The size of a dimension of a tensor."""
    return Expression(("extent", parameter, dim), f"size of {parameter} in dimension {dim}")


def stride(parameter: str, dim: int, scale: int = 1) -> Expression:
    """A stride in elements, times `scale`."""
    leaf = ("stride", parameter, dim)
    text = f"stride of {parameter} in dimension {dim}"
    return Expression(leaf, text) if scale == 1 else _times(scale, leaf, text)


def _times(scale: int, leaf: Tree, text: str) -> Expression:
    return Expression(("mul", scale, leaf), f"{scale} * {text}")


def address(buffer: str) -> Expression:
    return Expression(("address", buffer), f"address of {buffer}")


def tree(expr: Expr) -> Tree:
    """The operations of an index expression, in an order that its text decides."""
    match expr:
        case sympy.Symbol():
            return expr.name
        case sympy.Integer():
            return int(expr)
        case sympy.Add():
            return _sum(expr)
        case sympy.Mul() | sympy.Pow():
            return _chain("mul", sorted(_factors(expr), key=_order))
        case FloorDiv() | CeilDiv() | Mod():
            return (_WORDS[type(expr)], *map(tree, operands(expr)))
        case Min() | Max():
            return _chain(_WORDS[type(expr)], list(operands(expr)))
    raise TypeError(f"no index expression: {expr!r}")


def _sum(expr: sympy.Add) -> Tree:
    terms = sorted(operands(expr), key=_order)
    found = _chain("add", [t for t in terms if not _is_negative(t)], 0)
    for term in terms:
        if _is_negative(term):
            found = ("sub", found, tree(sympy.Mul(-1, *sympy.Mul.make_args(term))))
    return found


def _chain(word: str, parts: list[Expr], empty: int = 1) -> Tree:
    trees = tuple(map(tree, parts))
    if len(trees) > 1:
        return (word, *trees)
    return trees[0] if trees else empty


def _order(expr: Expr) -> tuple[bool, str]:
    return bool(expr.is_Integer), expr_text(expr)


def _is_negative(term: Expr) -> bool:
    number = operands(term)[0] if isinstance(term, sympy.Mul) else term
    return isinstance(number, sympy.Integer) and int(number) < 0


def _factors(term: Expr) -> list[Expr]:
    """The factors of a product, `x**3` as x, x, x."""
    return [f for whole in sympy.Mul.make_args(term) for f in _repeated(whole)]


def _repeated(factor: Expr) -> list[Expr]:
    if isinstance(factor, sympy.Pow):
        base, power = operands(factor)
        return [base] * int(power)
    return [factor]
