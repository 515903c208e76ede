"""Text of index expressions, conditions and element-wise expressions, in one order made for reading.

Sums: positive terms before negative ones, constants last among their sign, then terms with more symbolic factors
first, then by text. Products: the coefficient, then factors with a variable (a name that does not start in upper
case) before sizes, then by text. Left operands of `//` and `%` are products, right operands are atoms; anything else
stands in parentheses. What the language cannot say prints as `<...>`, which no parser takes.
"""

import math

import sympy

from loopir.nodes import (
    AllOf,
    AnyOf,
    Apply,
    AxisReduce,
    Cast,
    Cmp,
    Cond,
    Ewise_,
    Expand,
    Flag,
    Literal,
    Negate,
    TileRef,
)
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, names_of
from loopir.types import ReduceOp

_DIVISIONS = {FloorDiv: "//", Mod: "%"}
_CALLS = {Min: "min", Max: "max", CeilDiv: "ceildiv"}


def expr_text(expr: Expr | int) -> str:
    """An index expression as text; `parse_expr` gives the equal object back."""
    if not isinstance(expr, sympy.Add):
        return _term_text(sympy.sympify(expr) if isinstance(expr, int) else expr)
    first, *rest = sorted(expr.args, key=_term_key)
    return _term_text(first) + "".join(_signed_text(t) for t in rest)


def _is_negative(term: Expr) -> bool:
    coefficient = term.args[0] if term.is_Mul else term
    return bool(coefficient.is_Rational and coefficient < 0)  # pyright: ignore[reportOperatorIssue]


def _term_key(term: Expr) -> tuple[bool, bool, int, str]:
    size = abs_term(term)
    degree = sum(f.exp if f.is_Pow and f.exp.is_Integer else 1 for f in _symbolic_factors(size))
    return _is_negative(term), bool(term.is_Integer), -int(degree), _term_text(size)


def abs_term(term: Expr) -> Expr:
    return sympy.Mul(-1, *sympy.Mul.make_args(term)) if _is_negative(term) else term


def _signed_text(term: Expr) -> str:
    return f" - {_term_text(abs_term(term))}" if _is_negative(term) else f" + {_term_text(term)}"


def _symbolic_factors(term: Expr) -> list[Expr]:
    return [f for f in sympy.Mul.make_args(term) if not f.is_Integer]


def _term_text(term: Expr) -> str:
    """A term of a sum: a product, a division or an atom."""
    if isinstance(term, sympy.Mul | sympy.Pow):
        return _product_text(term)
    if type(term) in _DIVISIONS:
        left, right = term.args
        return f"{_dividend_text(left)} {_DIVISIONS[type(term)]} {_factor_text(right)}"
    return _atom_text(term)


def _dividend_text(left: Expr) -> str:
    is_product = isinstance(left, sympy.Mul | sympy.Pow) and not _is_negative(left)
    return _product_text(left) if is_product else _factor_text(left)


def _product_text(term: Expr) -> str:
    factors = _symbolic_factors(term)
    coefficient = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f.is_Integer))
    texts = [t for _, t in sorted(_factor_key(f) for f in factors for f in _repeated(f))]
    if coefficient == -1:
        return "-" + " * ".join(texts)
    return " * ".join(texts if coefficient == 1 else [str(coefficient), *texts])


def _repeated(factor: Expr) -> list[Expr]:
    """`x**3` as x, x, x."""
    if factor.is_Pow and factor.exp.is_Integer and factor.exp > 0:  # pyright: ignore
        return [factor.base] * int(factor.exp)  # pyright: ignore
    return [factor]


def _factor_key(factor: Expr) -> tuple[bool, str]:
    is_size = all(name[:1].isupper() for name in names_of(factor))
    return is_size, _factor_text(factor)


def _factor_text(factor: Expr) -> str:
    """A factor, or the right operand of a division: an atom, or anything else in parentheses."""
    if isinstance(factor, sympy.Symbol) or type(factor) in _CALLS:
        return _atom_text(factor)
    if factor.is_Integer and factor >= 0:  # pyright: ignore[reportOperatorIssue]
        return _atom_text(factor)
    return f"({expr_text(factor)})"


def _atom_text(atom: Expr) -> str:
    if isinstance(atom, sympy.Symbol):
        return atom.name
    if atom.is_Integer:
        return str(atom)
    if type(atom) in _CALLS:
        return f"{_CALLS[type(atom)]}({', '.join(map(expr_text, atom.args))})"
    return f"<{atom}>"


# --- conditions ---------------------------------------------------------------------------------------------------


def cond_text(cond: Cond) -> str:
    """A condition as text."""
    match cond:
        case Cmp(op, lhs, rhs):
            return f"{expr_text(lhs)} {op} {expr_text(rhs)}"
        case Flag(name):
            return name
        case AllOf(terms):
            return " and ".join(map(_cond_operand, terms))
        case AnyOf(terms):
            return " or ".join(map(_cond_operand, terms))
        case Negate(term):
            return f"not {term.name if isinstance(term, Flag) else f'({cond_text(term)})'}"


def _cond_operand(cond: Cond) -> str:
    is_joined = isinstance(cond, AllOf | AnyOf)
    return f"({cond_text(cond)})" if is_joined else cond_text(cond)


# --- element-wise expressions -------------------------------------------------------------------------------------

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
_ATOM = 4
_AXIS_NAMES = {ReduceOp.ADD: "sum", ReduceOp.MAX: "amax", ReduceOp.MIN: "amin"}


def ewise_text(expr: Ewise_) -> str:
    """An element-wise expression as text, its tree kept by parentheses."""
    match expr:
        case TileRef(name):
            return name
        case Literal():
            return literal_text(expr)
        case Cast(dtype, arg):
            return f"cast({dtype.value}, {ewise_text(arg)})"
        case Expand(arg, axis):
            return f"expand({ewise_text(arg)}, {axis})"
        case AxisReduce(op, arg, axis):
            return f"{_AXIS_NAMES.get(op, f'<{op.value}>')}({ewise_text(arg)}, {axis})"
        case Apply("neg", (arg,)):
            return f"-{_bracketed(arg, _ATOM)}"
        case Apply(fn, (left, right)) if fn in _INFIX:
            sign, level = _INFIX[fn]
            return f"{_bracketed(left, level)} {sign} {_bracketed(right, level + 1)}"
        case Apply(fn, args):
            return f"{fn}({', '.join(map(ewise_text, args))})"


def _bracketed(expr: Ewise_, at_least: int) -> str:
    text = ewise_text(expr)
    return text if _precedence(expr, text) >= at_least else f"({text})"


def _precedence(expr: Ewise_, text: str) -> int:
    """1 for sums, 2 for products, 3 for `-x`, 4 for what never needs parentheses (numbers under `-` do)."""
    match expr:
        case Apply(fn, (_, _)) if fn in _INFIX:
            return _INFIX[fn][1]
        case Apply("neg", _) | Literal():
            return 3
    return _ATOM


def literal_text(number: Literal) -> str:
    """An int in decimal digits; a float as the shortest text that reads back as it, always with `.` or `e`."""
    if isinstance(number.value, float):
        return repr(number.value) if not math.isnan(number.value) else "<nan>"
    return str(int(number.value))
