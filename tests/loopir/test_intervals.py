"""Interval arithmetic against the enumeration of every pair of values."""

import random
from itertools import product
from math import inf

import pytest

from loopir.intervals import UNKNOWN, Interval, maximum, minimum

SMALL = [Interval(lo, hi) for lo, hi in product(range(-4, 5), repeat=2) if lo <= hi]
BINARY = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (lambda a, b: a // b, lambda a, b: a // b),
    "%": (lambda a, b: a % b, lambda a, b: a % b),
    "ceildiv": (Interval.ceildiv, lambda a, b: -(-a // b)),
    "min": (lambda a, b: minimum((a, b)), min),
    "max": (lambda a, b: maximum((a, b)), max),
}


def values(i: Interval) -> range:
    return range(int(i.lo), int(i.hi) + 1)


@pytest.mark.parametrize("name", BINARY)
def test_every_result_of_two_values_lies_in_the_interval(name):
    of_intervals, of_ints = BINARY[name]
    for a, b in product(SMALL, repeat=2):
        result = of_intervals(a, b)
        for x, y in product(values(a), values(b)):
            if y != 0 or name not in ("//", "%", "ceildiv"):
                assert of_ints(x, y) in result, (name, a, b, x, y)


@pytest.mark.parametrize("name", ["+", "*", "//", "ceildiv", "min", "max"])
def test_bounds_are_attained_where_the_divisor_has_one_sign(name):
    of_intervals, of_ints = BINARY[name]
    positive = [i for i in SMALL if i.lo > 0]
    for a, b in product(SMALL, positive):
        results = [of_ints(x, y) for x, y in product(values(a), values(b))]
        assert of_intervals(a, b) == Interval(min(results), max(results)), (name, a, b)


def test_unknown_ends_stay_sound():
    rng = random.Random(7)
    for _ in range(4000):
        name = rng.choice(list(BINARY))
        a, b = rng.choice(SMALL), rng.choice(SMALL)
        wide_a = Interval(rng.choice((-inf, a.lo)), rng.choice((inf, a.hi)))
        wide_b = Interval(rng.choice((-inf, b.lo)), rng.choice((inf, b.hi)))
        of_intervals, of_ints = BINARY[name]
        result = of_intervals(wide_a, wide_b)
        for x, y in product(_some(wide_a, rng), _some(wide_b, rng)):
            if y != 0 or name not in ("//", "%", "ceildiv"):
                assert of_ints(x, y) in result, (name, wide_a, wide_b, x, y)


def _some(i: Interval, rng: random.Random) -> list[int]:
    lo, hi = max(i.lo, -(10**30)), min(i.hi, 10**30)
    return [int(lo), int(hi), min(int(hi), int(lo) + rng.randrange(9))]


def test_powers_know_that_squares_are_not_negative():
    assert Interval(-3, 2) ** 2 == Interval(0, 9)
    assert Interval(-3, 2) ** 3 == Interval(-27, 18)
    assert Interval(-3, 2) ** 0 == Interval(1, 1)
    assert Interval(2, 3) ** 1000 == UNKNOWN


def test_nothing_is_known_of_a_quotient_by_what_may_be_zero():
    assert Interval(4, 8) // Interval(0, 2) == UNKNOWN
    assert Interval(4, 8) % Interval(-1, 1) == UNKNOWN


def test_repeated_squares_give_up_instead_of_growing():
    squared = Interval(2, 10**18)
    for _ in range(80):
        squared = squared * squared
    assert squared == UNKNOWN
