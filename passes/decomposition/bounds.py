"""Where a unit's share of the iterations begins and ends: as numbers, and as index expressions.

The iterations of a launch are numbered tile by tile, `i = tile * panels + panel`, and unit u owns
one contiguous range. Each formula is written once, over an arithmetic, and used for integers and
for expressions alike.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from loopir import symbols
from loopir.symbols import Expr


class Bounds(Enum):
    """How TOTAL iterations are cut into UNITS ranges; the value is the text form.

    FLOOR: u * TOTAL // UNITS .. (u + 1) * TOTAL // UNITS; the larger shares are spread evenly.
    CEIL: every unit but the last takes ceildiv(TOTAL, UNITS); surplus units would be empty.
    BIG_UNITS: the first TOTAL % UNITS units take one panel more than the others.
    """

    FLOOR = "floor"
    CEIL = "ceil"
    BIG_UNITS = "big-units"


@dataclass(frozen=True)
class _Arithmetic:
    floordiv: Callable[[Any, Any], Any]
    ceildiv: Callable[[Any, Any], Any]
    mod: Callable[[Any, Any], Any]
    least: Callable[..., Any]
    most: Callable[..., Any]


_INTEGERS = _Arithmetic(operator.floordiv, lambda a, b: -(-a // b), operator.mod, min, max)
_SYMBOLS = _Arithmetic(symbols.floordiv, symbols.ceildiv, symbols.mod, symbols.imin, symbols.imax)


def unit_range(bounds: Bounds, unit: int, total: int, units: int) -> tuple[int, int]:
    """First iteration of `unit`, and one past its last; 0 <= unit < units."""
    return _range(_INTEGERS, bounds, unit, total, units)


def symbolic_range(bounds: Bounds, unit: Expr, total: Expr, units: Expr) -> tuple[Expr, Expr]:
    """`unit_range` as index expressions."""
    return _range(_SYMBOLS, bounds, unit, total, units)


def owner(bounds: Bounds, iteration: int, total: int, units: int) -> int:
    """The unit whose range holds `iteration`; 0 <= iteration < total, and no unit is empty."""
    return _owner(_INTEGERS, bounds, iteration, total, units)


def symbolic_owner(bounds: Bounds, iteration: Expr, total: Expr, units: Expr) -> Expr:
    """`owner` as an index expression."""
    return _owner(_SYMBOLS, bounds, iteration, total, units)


def useful_units(bounds: Bounds, total: int, units: int) -> int:
    """The largest count of units, at most `units`, that leaves none of them empty; 0 if there is no
    iteration."""
    if total == 0:
        return 0
    clamped = min(units, total)
    if bounds is not Bounds.CEIL:
        return clamped
    return _INTEGERS.ceildiv(total, _INTEGERS.ceildiv(total, clamped))


def _range(ops: _Arithmetic, bounds: Bounds, unit: Any, total: Any, units: Any) -> tuple[Any, Any]:
    following = unit + 1
    match bounds:
        case Bounds.FLOOR:
            return ops.floordiv(unit * total, units), ops.floordiv(following * total, units)
        case Bounds.CEIL:
            share = ops.ceildiv(total, units)
            return unit * share, ops.least(following * share, total)
        case Bounds.BIG_UNITS:
            share, extra = ops.floordiv(total, units), ops.mod(total, units)
            low = unit * share + ops.least(unit, extra)
            return low, following * share + ops.least(following, extra)


def _owner(ops: _Arithmetic, bounds: Bounds, i: Any, total: Any, units: Any) -> Any:
    match bounds:
        case Bounds.FLOOR:
            return ops.floordiv((i + 1) * units - 1, total)
        case Bounds.CEIL:
            return ops.floordiv(i, ops.ceildiv(total, units))
        case Bounds.BIG_UNITS:
            share, extra = ops.floordiv(total, units), ops.mod(total, units)
            # each quotient is the owner on its side of extra * (share + 1), too small on the other
            return ops.most(ops.floordiv(i, share + 1), ops.floordiv(i - extra, share))
