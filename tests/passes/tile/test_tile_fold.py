"""What `fold` knows of expressions whose tiles are numbers."""

import math

import pytest

from loopir.nodes import Ewise
from loopir.parser import parse
from passes.tile.fold import fold

KNOWN = {"zero": 0, "one": 1, "top": math.inf, "low": -math.inf, "half": 0.5, "big": 2**31 - 1}


def folded(text: str):
    program = parse(f"kernel @k() {{\ngrid (t) in [1] {{\newise x = {text}\n}}\n}}\n")
    (stmt,) = program.kernels[0].body[0].body  # pyright: ignore
    assert isinstance(stmt, Ewise)
    return fold(stmt.expr, KNOWN)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero * one", 0),
        ("cast(f32, zero) * cast(f32, zero)", 0),
        ("zero + one - 2", -1),
        ("top + one", math.inf),
        ("max(low, low)", -math.inf),
        ("cast(bf16, top)", math.inf),
        ("-one", -1),
        ("abs(-one)", 1),
        ("or(zero, one)", 1),
        ("and(one, one)", 1),
        ("big", 2**31 - 1),
    ],
)
def test_small_integers_and_infinities_are_reckoned_with(text: str, value: float):
    assert folded(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "zero * unknown",
        "max(top, unknown)",
        "zero * top",
        "top + low",
        "half + half",
        "cast(i32, half)",
        "cast(f8e4m3, top)",
        "cast(i8, top)",
        "cast(bool, one)",
        "cast(i8, big)",
        "big + one",
        "exp(zero)",
    ],
)
def test_what_may_differ_by_type_or_value_is_not(text: str):
    assert folded(text) is None
