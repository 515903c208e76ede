"""Expressions of a manifest have the values that those of the IR have."""

import random

import pytest

from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.model import Expression
from backends.triton_codegen.bundle.trees import expression
from loopir.errors import LaunchError
from loopir.expr_text import expr_text
from loopir.parser import parse_expr
from loopir.symbols import Expr, ceildiv, evaluate, floordiv, imax, imin, mod, sym, to_expr

NAMES = ("M", "N", "K", "UNITS")


def random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return sym(rng.choice(NAMES)) if rng.random() < 0.7 else to_expr(rng.randrange(-9, 99))
    a, b = (random_expr(rng, depth - 1) for _ in range(2))
    divisor = to_expr(rng.randrange(1, 40)) if rng.random() < 0.5 else sym(rng.choice(NAMES))
    return rng.choice(
        [
            lambda: a + b,
            lambda: a - b,
            lambda: a * b,
            lambda: a * a,
            lambda: -a,
            lambda: floordiv(a, divisor),
            lambda: ceildiv(a, divisor),
            lambda: mod(a, divisor),
            lambda: imin(a, b),
            lambda: imax(a, b, to_expr(3)),
        ]
    )()


def test_random_expressions_have_one_value():
    rng, checked = random.Random(11), 0
    for _ in range(1500):
        expr = random_expr(rng, 4)
        values = {name: rng.randrange(1, 200) for name in NAMES}
        wanted = evaluate(expr, values)
        if abs(wanted) < 2**40:
            assert Sizes({}, dict(values)).of(expression(expr)) == wanted, expr
            checked += 1
    assert checked > 1200


def test_the_tree_of_an_expression_does_not_depend_on_how_it_was_written():
    for text in ("3 * M + N - K", "ceildiv(M, 128) * ceildiv(N, 128)", "max(1, 2 * UNITS - 2)"):
        expr = parse_expr(text)
        assert expression(expr) == expression(parse_expr(expr_text(expr)))
    assert expression(parse_expr("3 * M + N - K")).tree == (
        *("sub", ("add", ("mul", "M", 3), "N"), "K"),
    )


WRONG = {
    "division by 0": (("floordiv", "M", "ZERO"), "expected positive divisors"),
    "rounding up by 0": (("ceildiv", "M", "ZERO"), "expected positive divisors"),
    "remainder of 0": (("mod", "M", "ZERO"), "expected positive divisors"),
    "negative divisor": (("floordiv", "M", -3), "expected positive divisors"),
    "65 bits": (("mul", "M", 2**62), "expected 64 bits at most"),
    "65 bits on the way": (("sub", ("mul", 2**62, "M"), ("mul", 2**62, "M")), "64 bits at most"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_has_no_value_is_an_error_of_the_launch(what: str):
    tree, message = WRONG[what]
    with pytest.raises(LaunchError, match=message):
        Sizes({}, {"M": 5, "ZERO": 0}).of(Expression(tree, "text"))


def test_quotients_round_down_and_up_for_negative_numbers_too():
    sizes = Sizes({}, {"M": 7})
    trees = {("floordiv", -7, 2): -4, ("ceildiv", -7, 2): -3, ("mod", -7, 2): 1}
    assert {tree: sizes.of(Expression(tree, "")) for tree in trees} == trees
