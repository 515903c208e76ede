"""Index arithmetic: floor semantics, plain names, evaluation, substitution."""

import itertools
import math

import pytest
import sympy

from loopir.symbols import (
    CeilDiv,
    FloorDiv,
    Max,
    Min,
    Mod,
    ceildiv,
    evaluate,
    floordiv,
    imax,
    imin,
    mod,
    names_of,
    substitute,
    sym,
    to_expr,
    try_evaluate,
)

x, y, n = sym("x"), sym("y"), sym("N")
VALUES = (-9, -8, -7, -1, 0, 1, 2, 7, 8, 9)
DIVISORS = (-4, -3, -1, 1, 2, 3, 4)


def test_equal_names_are_equal_symbols_and_nonnegative_integers():
    assert sym("N") is sym("N")
    assert sym("N") == to_expr("N")
    assert sym("N") != sympy.Symbol("N")
    assert sym("N").is_integer
    assert sym("N").is_nonnegative


@pytest.mark.parametrize("name", ["N", "S", "E", "I", "Q", "O", "pi", "__import__('os')"])
def test_names_are_never_evaluated(name: str):
    assert to_expr(name) == sym(name)
    assert names_of(to_expr(name) + 1) == {name}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(VALUES, DIVISORS)))
def test_division_rounds_like_python_folded_or_evaluated_later(a: int, b: int):
    expected = (a // b, a % b, math.ceil(a / b))
    assert (floordiv(a, b), mod(a, b), ceildiv(a, b)) == expected
    late = (FloorDiv(x, y), Mod(x, y), CeilDiv(x, y))
    assert tuple(evaluate(e, {"x": a, "y": b}) for e in late) == expected


def test_floor_is_not_truncation():
    assert floordiv(-7, 2) == -4 != int(-7 / 2)
    assert mod(-7, 2) == 1 != math.fmod(-7, 2)


def test_division_by_one_and_only_by_one_disappears():
    assert (floordiv(x, 1), mod(x, 1), ceildiv(x, 1)) == (x, 0, x)
    assert floordiv(x, x) != 1, "x may be zero"
    assert mod(x, x) == Mod(x, x)


def test_division_by_zero_stays_and_raises_when_evaluated():
    for divided in (floordiv(4, 0), mod(4, 0), ceildiv(4, 0)):
        assert not divided.is_Integer
        with pytest.raises(ZeroDivisionError):
            evaluate(divided, {})
        assert try_evaluate(divided, {}) is None


def test_min_and_max_fold_numbers_only_and_keep_their_order():
    assert (imin(3, 1, 2), imax(3, 1, 2)) == (1, 3)
    assert imin(y, x, 3).args == (y, x, 3)
    assert imin(x, y) != imin(y, x)
    assert imax(x) == x
    assert evaluate(Min(x, y) + Max(x, y, 5), {"x": 2, "y": 9}) == 2 + 9


def test_quotients_do_not_reassociate():
    product = floordiv(x, 4) * 4
    assert evaluate(product, {"x": 7}) == 4
    assert evaluate(floordiv(x * y, n), {"x": 3, "y": 3, "N": 2}) == 4
    assert evaluate(x * floordiv(y, n), {"x": 3, "y": 3, "N": 2}) == 3


def test_evaluate_covers_every_form_and_names_what_is_missing():
    expr = (x + 2) ** 2 * y - ceildiv(x, 2) + mod(y, 4)
    assert evaluate(expr, {"x": 3, "y": 6}) == 25 * 6 - 2 + 2
    with pytest.raises(KeyError, match="y"):
        evaluate(expr, {"x": 3})
    assert try_evaluate(expr, {"x": 3}) is None


def test_values_beyond_64_bits_stay_exact():
    assert evaluate(x * y + 1, {"x": 2**62, "y": 2**62}) == 2**124 + 1


def test_substitution_is_simultaneous_and_leaves_others_alone():
    assert substitute(x - 2 * y, {"x": y, "y": x}) == y - 2 * x
    assert substitute(floordiv(x, y), {"x": sympy.Integer(9), "y": sympy.Integer(2)}) == 4
    assert substitute(x, {"z": y}) is x


def test_signs_are_known_only_where_they_follow():
    assert floordiv(x, y + 1).is_nonnegative
    assert mod(x - y, n).is_nonnegative
    assert imax(x - y, 0).is_nonnegative
    assert floordiv(x - y, n).is_nonnegative is None
    assert imin(x - y, 0).is_nonnegative is None
