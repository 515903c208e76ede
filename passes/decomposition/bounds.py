"""Where a unit's share of the iterations begins and ends: as numbers, and as index expressions.

The iterations of a launch are numbered tile by tile, `i = tile * panels + panel`, and unit u owns
one contiguous range. Each formula is written once, for integers and for expressions alike.
"""

from enum import Enum

from passes.decomposition.arithmetic import Num, ceildiv, floordiv, least, mod, most


class Bounds(Enum):
    """How TOTAL iterations are cut into UNITS ranges; the value is the text form.

    FLOOR: u * TOTAL // UNITS .. (u + 1) * TOTAL // UNITS; the larger shares are spread evenly.
    CEIL: every unit but the last takes ceildiv(TOTAL, UNITS); surplus units would be empty.
    BIG_UNITS: the first TOTAL % UNITS units take one panel more than the others.
    """

    FLOOR = "floor"
    CEIL = "ceil"
    BIG_UNITS = "big-units"


def unit_range(bounds: Bounds, unit: Num, total: Num, units: Num) -> tuple[Num, Num]:
    """First iteration of `unit`, and one past its last; 0 <= unit < units."""
    following = unit + 1
    match bounds:
        case Bounds.FLOOR:
            return floordiv(unit * total, units), floordiv(following * total, units)
        case Bounds.CEIL:
            share = ceildiv(total, units)
            return unit * share, least(following * share, total)
        case Bounds.BIG_UNITS:
            share, extra = floordiv(total, units), mod(total, units)
            low = unit * share + least(unit, extra)
            return low, following * share + least(following, extra)


def owner(bounds: Bounds, iteration: Num, total: Num, units: Num) -> Num:
    """The unit whose range holds `iteration`; 0 <= iteration < total, and no unit is empty."""
    match bounds:
        case Bounds.FLOOR:
            return floordiv((iteration + 1) * units - 1, total)
        case Bounds.CEIL:
            return floordiv(iteration, ceildiv(total, units))
        case Bounds.BIG_UNITS:
            share, extra = floordiv(total, units), mod(total, units)
            # each quotient is the owner on its side of extra * (share + 1), too small on the other
            return most(floordiv(iteration, share + 1), floordiv(iteration - extra, share))


def useful_splits(panels: Num, splits: Num) -> Num:
    """The largest count of equal slices, at most `splits`, none of which is empty: 10 panels in 6
    are 5 slices of two; panels >= 1."""
    return ceildiv(panels, ceildiv(panels, splits))


def useful_units(bounds: Bounds, total: int, units: int, min_panels: int = 1) -> int:
    """The largest count of units, at most `units`, that leaves none of them with less than
    `min_panels` iterations; one if all iterations are fewer than that, 0 if there is none."""
    if total == 0:
        return 0
    count = max(1, min(units, total // min_panels))
    if bounds is not Bounds.CEIL:
        return count
    while True:
        share = ceildiv(total, count)
        count = ceildiv(total, share)
        last = total - (count - 1) * share
        if count == 1 or last >= min_panels:
            return count
        count -= 1
