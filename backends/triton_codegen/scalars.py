"""Index expressions and conditions as Python text, for the kernel (Triton) and for the launcher.

In a kernel every scalar that is no compile-time constant is a 64-bit integer, so an expression
with one in it is 64 bits wide throughout. Triton's `//` and `%` truncate; where the dividend may
be negative, the text calls `floor_div` and `floor_mod` of the emitted file instead. Text order is
that of `loopir.expr_text`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import sympy

from loopir.expr_text import expr_text
from loopir.nodes import AllOf, AnyOf, Cmp, Cond, Flag, Negate
from loopir.symbols import CeilDiv, Expr, FloorDiv, Max, Min, Mod, evaluate, names_of


class Side(Enum):
    """Where a text runs: inside the Triton kernel, or in the Python of `launch`."""

    KERNEL = "kernel"
    HOST = "host"


_SUM, _PRODUCT, _ATOM = 1, 2, 3
_EXTREMES = {
    (Min, Side.KERNEL): "tl.minimum",
    (Max, Side.KERNEL): "tl.maximum",
    (Min, Side.HOST): "min",
    (Max, Side.HOST): "max",
}


@dataclass(frozen=True)
class Scalars:
    """Renders expressions. `names`: Python name of each IR name; `constants`: the compile-time
    values among them; `nonnegative`: whether an expression is certain to be >= 0; `helpers`
    collects the helper functions called."""

    names: Mapping[str, str]
    constants: Mapping[str, int]
    side: Side
    nonnegative: Callable[[Expr], bool]
    helpers: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def text(self, expr: Expr) -> str:
        """`expr`, to stand alone or between commas."""
        return self._render(expr)[0]

    def operand(self, expr: Expr) -> str:
        """`expr`, to stand beside `*`, `//` or a comparison."""
        return self._at_least(expr, _ATOM)

    def summand(self, expr: Expr) -> str:
        """`expr`, to stand beside `+`."""
        return self._at_least(expr, _SUM)

    def is_constant(self, expr: Expr) -> bool:
        return names_of(expr) <= self.constants.keys()

    def cond(self, cond: Cond) -> str:
        """A condition, to stand alone."""
        match cond:
            case Cmp(op, lhs, rhs):
                return f"{self.text(lhs)} {op} {self.text(rhs)}"
            case Flag(name):
                return self._name(name)
            case AllOf(terms):
                return " and ".join(map(self._cond_operand, terms))
            case AnyOf(terms):
                return " or ".join(map(self._cond_operand, terms))
            case Negate(term):
                return f"not ({self.cond(term)})"

    def _cond_operand(self, cond: Cond) -> str:
        is_joined = isinstance(cond, AllOf | AnyOf)
        return f"({self.cond(cond)})" if is_joined else self.cond(cond)

    def _at_least(self, expr: Expr, level: int) -> str:
        text, own = self._render(expr)
        return text if own >= level else f"({text})"

    def _name(self, name: str) -> str:
        self.used.add(name)
        return self.names[name]

    def _render(self, expr: Expr) -> tuple[str, int]:
        if self.side is Side.KERNEL and self._must_fold(expr):
            value = evaluate(expr, self.constants)
            return str(value), _ATOM if value >= 0 else _SUM
        match expr:
            case sympy.Symbol():
                return self._name(expr.name), _ATOM
            case sympy.Integer():
                return str(expr), _ATOM if expr >= 0 else _SUM
            case sympy.Add():
                return self._sum(expr), _SUM
            case sympy.Mul() | sympy.Pow():
                return self._product(expr)
            case Min() | Max():
                return self._extreme(expr), _ATOM
            case FloorDiv() | Mod() | CeilDiv():
                return self._division(expr)
        raise TypeError(f"no index expression: {expr!r}")

    def _must_fold(self, expr: Expr) -> bool:
        """Constants stay names where Triton keeps `+ - * // %` of them a constant; `tl.minimum`
        would not."""
        return expr.has(Min, Max) and self.is_constant(expr)

    def _sum(self, expr: Expr) -> str:
        first, *rest = sorted(_operands(expr), key=_term_key)
        return self._at_least(first, _SUM) + "".join(map(self._signed, rest))

    def _signed(self, term: Expr) -> str:
        sign = "-" if _is_negative(term) else "+"
        return f" {sign} {self._at_least(_magnitude(term), _PRODUCT)}"

    def _product(self, expr: Expr) -> tuple[str, int]:
        if _is_negative(expr):
            return f"-{self._at_least(_magnitude(expr), _ATOM)}", _SUM
        texts = [self._at_least(f, _ATOM) for f in sorted(_factors(expr), key=_factor_key)]
        return " * ".join(texts), _PRODUCT

    def _extreme(self, expr: Expr) -> str:
        function = _EXTREMES[type(expr), self.side]
        first, *rest = map(self.text, _operands(expr))
        for text in rest:
            first = f"{function}({first}, {text})"
        return first

    def _division(self, expr: Expr) -> tuple[str, int]:
        top, bottom = _operands(expr)
        numerator = top + bottom - 1 if isinstance(expr, CeilDiv) else top
        if not self._plain_division_is_floor(expr, numerator):
            helper = "floor_mod" if isinstance(expr, Mod) else "floor_div"
            self.helpers.add(helper)
            return f"{helper}({self.text(numerator)}, {self.text(bottom)})", _ATOM
        sign = "%" if isinstance(expr, Mod) else "//"
        return f"{self._at_least(numerator, _PRODUCT)} {sign} {self.operand(bottom)}", _PRODUCT

    def _plain_division_is_floor(self, expr: Expr, numerator: Expr) -> bool:
        """Python floors, and so does Triton between constants."""
        is_python = self.side is Side.HOST or self.is_constant(expr)
        return is_python or self.nonnegative(numerator)


def _operands(expr: Expr) -> tuple[Expr, ...]:
    return expr.args  # pyright: ignore[reportReturnType]  # sympy says Basic


def _is_negative(term: Expr) -> bool:
    number = term.args[0] if isinstance(term, sympy.Mul) else term
    return isinstance(number, sympy.Integer) and int(number) < 0


def _magnitude(term: Expr) -> Expr:
    return sympy.Mul(-1, *sympy.Mul.make_args(term)) if _is_negative(term) else term


def _term_key(term: Expr) -> tuple[bool, bool, int, str]:
    """Positive terms first, then numbers last, then long products first: as IR text is read."""
    size = _magnitude(term)
    degree = sum(not f.is_Integer for f in _factors(size))
    return _is_negative(term), bool(term.is_Integer), -degree, expr_text(size)


def _factor_key(factor: Expr) -> tuple[bool, bool, str]:
    """Numbers first, then variables, then sizes (names that start in upper case)."""
    is_size = all(name[:1].isupper() for name in names_of(factor))
    return not factor.is_Integer, is_size, expr_text(factor)


def _factors(term: Expr) -> list[Expr]:
    """The factors of a product, `x**3` as x, x, x."""
    return [f for whole in sympy.Mul.make_args(term) for f in _repeated(whole)]


def _repeated(factor: Expr) -> list[Expr]:
    """`x**3` as x, x, x."""
    if factor.is_Pow and factor.exp.is_Integer and factor.exp > 0:  # pyright: ignore
        return [factor.base] * int(factor.exp)  # pyright: ignore
    return [factor]
