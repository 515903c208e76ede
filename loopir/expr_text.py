"""Text of index expressions and conditions, in one order made for reading.

Sums: positive terms before negative ones, then constants last, then terms with more symbolic
factors first, then by text. Products: the coefficient, then factors with a variable (a name that
does not start in upper case) before sizes, then by text. The left operand of `//` and `%` is a
product, the right one an atom; anything else stands in parentheses. What the language cannot say
prints as `<...>`, which no parser takes.
"""

from typing import NamedTuple, TypeGuard

import sympy

from loopir.nodes import AllOf, AnyOf, Cmp, Cond, Flag, Negate
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, names_of

_DIVISIONS = {FloorDiv: "//", Mod: "%"}
_MAX_EXPONENT = 1 << 16
_CALLS = {Min: "min", Max: "max", CeilDiv: "ceildiv"}


def expr_text(expr: Expr | int) -> str:
    """An index expression as text; `parse_expr` gives the equal object back."""
    if isinstance(expr, int):
        return str(int(expr))
    if not isinstance(expr, sympy.Add):
        return _term_text(expr)
    first, *rest = sorted(map(_signed_term, _operands(expr)))
    return first.leading_text() + "".join(map(str, rest))


def _operands(expr: Expr) -> tuple[Expr, ...]:
    return expr.args  # pyright: ignore[reportReturnType]  # sympy says Basic


class _SignedTerm(NamedTuple):
    """A term of a sum in the order of printing; its text is made once, or time would double with
    every level of nesting."""

    is_negative: bool
    is_constant: bool
    minus_degree: int
    text: str
    is_division: bool

    def __str__(self) -> str:
        return f" {'-' if self.is_negative else '+'} {self.text}"

    def leading_text(self) -> str:
        if not self.is_negative:
            return self.text
        return f"-({self.text})" if self.is_division else f"-{self.text}"


def _signed_term(term: Expr) -> _SignedTerm:
    is_negative = _is_negative(term)
    size = sympy.Mul(-1, *sympy.Mul.make_args(term)) if is_negative else term
    degree = len(_symbolic_factors(size))
    is_constant = isinstance(size, sympy.Integer)
    return _SignedTerm(
        is_negative, is_constant, -degree, _term_text(size), type(size) in _DIVISIONS
    )


def _is_negative(term: Expr) -> bool:
    number = _operands(term)[0] if isinstance(term, sympy.Mul) else term
    return isinstance(number, sympy.Integer) and int(number) < 0


def _symbolic_factors(term: Expr) -> list[Expr]:
    """The factors but the coefficient, `x**3` as x, x, x."""
    factors = [f for f in sympy.Mul.make_args(term) if not isinstance(f, sympy.Integer)]
    return [f for factor in factors for f in _repeated(factor)]


def _repeated(factor: Expr) -> list[Expr]:
    return [factor.base] * int(factor.exp) if _is_power(factor) else [factor]


def _is_power(expr: Expr) -> TypeGuard[sympy.Pow]:
    """Whether `expr` can be written as a product of equal factors."""
    if not isinstance(expr, sympy.Pow) or not isinstance(expr.exp, sympy.Integer):
        return False
    return 0 < int(expr.exp) <= _MAX_EXPONENT


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, sympy.Mul) or _is_power(expr)


def _term_text(term: Expr) -> str:
    """A term of a sum: a product, a division or an atom."""
    if _is_product(term):
        return _product_text(term)
    if type(term) in _DIVISIONS:
        left, right = _operands(term)
        return f"{_dividend_text(left)} {_DIVISIONS[type(term)]} {_factor_text(right)}"
    return _atom_text(term)


def _dividend_text(left: Expr) -> str:
    is_plain = _is_product(left) and not _is_negative(left)
    return _product_text(left) if is_plain else _factor_text(left)


def _product_text(term: Expr) -> str:
    coefficient = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if isinstance(f, sympy.Integer)))
    texts = [text for _, text in sorted(map(_factor_key, _symbolic_factors(term)))]
    if coefficient == -1:
        return "-" + " * ".join(texts)
    return " * ".join(texts if coefficient == 1 else [str(int(coefficient)), *texts])


def _factor_key(factor: Expr) -> tuple[bool, str]:
    is_size = all(name[:1].isupper() for name in names_of(factor))
    return is_size, _factor_text(factor)


def _factor_text(factor: Expr) -> str:
    """A factor, or the right operand of a division: an atom, or anything else in parentheses."""
    is_atom = isinstance(factor, sympy.Symbol | sympy.Integer) or type(factor) in _CALLS
    return _atom_text(factor) if is_atom and not _is_negative(factor) else f"({expr_text(factor)})"


def _atom_text(atom: Expr) -> str:
    if isinstance(atom, sympy.Symbol):
        return atom.name
    if isinstance(atom, sympy.Integer):
        return str(int(atom))
    if type(atom) in _CALLS:
        return f"{_CALLS[type(atom)]}({', '.join(map(expr_text, _operands(atom)))})"
    return f"<{atom}>"


def cond_text(cond: Cond) -> str:
    """A condition as text; conditions inside others stand in parentheses, but for comparisons."""
    match cond:
        case Cmp(op, lhs, rhs):
            return f"{expr_text(lhs)} {op} {expr_text(rhs)}"
        case Flag(name):
            return name
        case AllOf(terms):
            return " and ".join(map(_joined_text, terms))
        case AnyOf(terms):
            return " or ".join(map(_joined_text, terms))
        case Negate(Flag() | Negate() as term):
            return f"not {cond_text(term)}"
        case Negate(term):
            return f"not ({cond_text(term)})"


def _joined_text(cond: Cond) -> str:
    return f"({cond_text(cond)})" if isinstance(cond, AllOf | AnyOf) else cond_text(cond)
