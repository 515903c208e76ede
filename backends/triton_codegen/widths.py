"""Whether the elements that an access moves can be numbered in 32 bits.

Index vectors are 64 bits wide, which costs nothing where they only step through rows and columns.
Where they are divided and multiplied element by element, as in a convolution, 32 bits take half the
registers and half the instructions. They are taken where no value on the way can leave them.
"""

from math import prod

import sympy

from loopir.bounds import Env, Fact, bounds, interval
from loopir.intervals import Bound, Interval
from loopir.nodes import Access, TileAxis
from loopir.symbols import Expr, operands, sym

#: half of what fits, as a division that rounds to minus infinity adds its divisor on the way
_LARGEST = 2**30


def fits_32_bits(access: Access, env: Env) -> bool:
    """Whether no index of an element, masked ones included, nor anything that it is computed from,
    needs more than 32 bits."""
    facts = {**env, **{axis.name: Fact(_values(axis, env)) for axis in access.axes}}
    numbers = (*access.index, *(sym(axis.name) for axis in access.axes))
    return all(_largest(expr, facts) <= _LARGEST for expr in numbers)


def _values(axis: TileAxis, env: Env) -> Interval:
    """Of an axis, beyond its limit too."""
    return Interval(bounds(axis.start, env).lo, bounds(axis.start + axis.size - 1, env).hi)


def _largest(expr: Expr, env: Env) -> Bound:
    """The largest magnitude of `expr` and its parts, whatever the order of its sums."""
    parts = [_largest(part, env) for part in operands(expr)]
    if isinstance(expr, sympy.Add):
        return sum(parts)
    if isinstance(expr, sympy.Mul):
        return prod(max(1, part) for part in parts)
    known = interval(expr, env)
    return max(abs(known.lo), abs(known.hi), *parts)
