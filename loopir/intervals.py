"""Integer intervals, with floor semantics that are right for negative values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import inf
from typing import TypeAlias

#: an integer, or one of the two infinities: a bound that is not known
Bound: TypeAlias = int | float

#: far beyond any index; products that a hostile text squares again and again stop here
_LARGEST = 2**256


@dataclass(frozen=True)
class Interval:
    """The integers x with lo <= x <= hi; none if lo > hi, as in code that never runs."""

    lo: Bound = -inf
    hi: Bound = inf

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    @property
    def is_constant(self) -> bool:
        return self.lo == self.hi and not isinstance(self.lo, float)

    def meet(self, other: "Interval") -> "Interval":
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi))

    def join(self, other: "Interval") -> "Interval":
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def __neg__(self) -> "Interval":
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(_plus(self.lo, other.lo), _plus(self.hi, other.hi))

    def __mul__(self, other: "Interval") -> "Interval":
        product = _corners(_times, self, other)
        lo = product.lo if abs(product.lo) < _LARGEST else -inf
        return Interval(lo, product.hi if abs(product.hi) < _LARGEST else inf)

    def __pow__(self, exponent: int) -> "Interval":
        """Of a nonnegative exponent; large ones are not worth the digits."""
        if exponent > 16:
            return Interval()
        power = reduce(Interval.__mul__, [self] * exponent, Interval(1, 1))
        return power.meet(Interval(0)) if exponent % 2 == 0 else power

    def __floordiv__(self, other: "Interval") -> "Interval":
        """Nothing is known of a quotient whose divisor may be zero."""
        if other.lo >= 1:
            return _corners(_floordiv, self, other)
        return -self // -other if other.hi <= -1 else Interval()

    def __mod__(self, other: "Interval") -> "Interval":
        """Nothing is known of a remainder whose divisor may be zero."""
        if other.hi <= -1:
            return -(-self % -other)
        if other.lo < 1:
            return Interval()
        if self.lo >= 0 and self.hi < other.lo:
            return self
        if other.is_constant and (self // other).is_constant:
            return Interval(int(self.lo) % int(other.lo), int(self.hi) % int(other.lo))
        return Interval(0, min(self.hi, other.hi - 1) if self.lo >= 0 else other.hi - 1)

    def ceildiv(self, other: "Interval") -> "Interval":
        return -(-self // other)


#: any integer
UNKNOWN = Interval()


def minimum(parts: Iterable[Interval]) -> Interval:
    """The interval of `min(x, y, ...)`."""
    parts = tuple(parts)
    return Interval(min(p.lo for p in parts), min(p.hi for p in parts))


def maximum(parts: Iterable[Interval]) -> Interval:
    """The interval of `max(x, y, ...)`."""
    parts = tuple(parts)
    return Interval(max(p.lo for p in parts), max(p.hi for p in parts))


def _corners(operation: Callable[[Bound, Bound], Bound], a: Interval, b: Interval) -> Interval:
    values = [operation(x, y) for x, y in product((a.lo, a.hi), (b.lo, b.hi))]
    return Interval(min(values), max(values))


# Python turns a large int into a float before it meets an infinity, and overflows; hence by hand.


def _plus(a: Bound, b: Bound) -> Bound:
    if isinstance(a, float):
        return a
    return b if isinstance(b, float) else a + b


def _times(a: Bound, b: Bound) -> Bound:
    if not (isinstance(a, float) or isinstance(b, float)):
        return a * b
    if a == 0 or b == 0:
        return 0
    return inf if (a > 0) == (b > 0) else -inf


def _floordiv(a: Bound, b: Bound) -> Bound:
    """`a // b` for b >= 1."""
    if isinstance(b, float):
        return 0 if a >= 0 else -1
    return a if isinstance(a, float) else a // b
