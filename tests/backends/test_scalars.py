"""Index expressions as text: the value that the text has is the value of the expression."""

from random import Random

import pytest

from backends.triton_codegen.scalars import Scalars, Side
from loopir.parser import parse_expr
from loopir.symbols import (
    CeilDiv,
    FloorDiv,
    Mod,
    evaluate,
    floordiv,
    mod,
    names_of,
    sym,
    try_evaluate,
)
from tests.support.random_programs import random_expr

NAMES = ("M", "N", "kp", "ti", "BM")


class Kernel:
    """Triton's arithmetic on plain integers: `//` and `%` truncate."""

    def __init__(self, value: int):
        self.value = value

    def __add__(self, other):
        return Kernel(self.value + number(other))

    def __sub__(self, other):
        return Kernel(self.value - number(other))

    def __rsub__(self, other):
        return Kernel(number(other) - self.value)

    def __mul__(self, other):
        return Kernel(self.value * number(other))

    def __neg__(self):
        return Kernel(-self.value)

    def __floordiv__(self, other):
        return Kernel(truncated(self.value, number(other)))

    def __rfloordiv__(self, other):
        return Kernel(truncated(number(other), self.value))

    def __mod__(self, other):
        return self - (self // other) * number(other)

    def __rmod__(self, other):
        return Kernel(number(other)) % self.value

    __radd__, __rmul__ = __add__, __mul__


def number(value: "int | Kernel") -> int:
    return value.value if isinstance(value, Kernel) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class tl:
    minimum = staticmethod(lambda a, b: Kernel(min(number(a), number(b))))
    maximum = staticmethod(lambda a, b: Kernel(max(number(a), number(b))))


HELPERS = {
    "tl": tl,
    "floor_div": lambda a, b: Kernel(number(a) // number(b)),
    "floor_mod": lambda a, b: Kernel(number(a) % number(b)),
}


def scalars(
    side: Side, constants: dict[str, int] | None = None, nonnegative=lambda e: e.is_nonnegative
):
    return Scalars({n: n for n in NAMES}, constants or {}, side, nonnegative)


@pytest.mark.parametrize("seed", range(300))
def test_text_has_the_value_of_the_expression(seed: int):
    rng = Random(seed)
    expr = random_expr(rng, NAMES)
    values = {n: rng.randint(1, 9) for n in NAMES}
    divisors = [e.args[1] for e in expr.atoms(FloorDiv, Mod, CeilDiv)]
    if any((try_evaluate(d, values) or 0) <= 0 for d in divisors):
        return  # the IR divides by positive values only
    expected = evaluate(expr, values)
    host = scalars(Side.HOST).text(expr)
    assert eval(host, dict(values)) == expected, host
    kernel = scalars(Side.KERNEL, nonnegative=lambda e: False).text(expr)
    env = {n: Kernel(v) for n, v in values.items()}
    assert number(eval(kernel, {**HELPERS, **env})) == expected, kernel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unit * TOTAL // UNITS", "unit * TOTAL // UNITS"),
        ("min(it_end - tile * P, P)", "tl.minimum(it_end - tile * P, P)"),
        ("tile * P + k1", "tile * P + k1"),
        ("ceildiv(x, 8)", "(x + 7) // 8"),
        ("x - (y % 4)", "x - y % 4"),
        ("(x + y) % 4 * 2", "2 * ((x + y) % 4)"),
        ("max(x, y, 1)", "tl.maximum(tl.maximum(x, y), 1)"),
    ],
)
def test_kernel_text_reads_like_the_ir(text: str, expected: str):
    expr = parse_expr(text)
    names = {n: n for n in names_of(expr)}
    assert Scalars(names, {}, Side.KERNEL, lambda e: bool(e.is_nonnegative)).text(expr) == expected


def test_dividend_that_may_be_negative_calls_the_floor_helpers():
    rendered = scalars(Side.KERNEL)
    assert rendered.text(floordiv(sym("kp") - 1, 4)) == "floor_div(kp - 1, 4)"
    assert rendered.text(mod(sym("kp") - 1, 4)) == "floor_mod(kp - 1, 4)"
    assert rendered.helpers == {"floor_div", "floor_mod"}


def test_minimum_of_constants_becomes_a_number():
    rendered = scalars(Side.KERNEL, {"M": 3, "N": 5})
    assert rendered.text(parse_expr("min(M, N) * 2 - N")) == "1"
    assert rendered.text(parse_expr("(M - N) // 2")) == "(M - N) // 2"
