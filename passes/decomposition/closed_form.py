"""The closed forms of the schedules: which iterations a unit owns, and who meets in a tile.

A form covers `tiles` consecutive tiles from `first_tile` on, with `units` units of its own. Its
fields and arguments are ints or index expressions; for a form over expressions write
`dataclasses.replace(form, tiles=sym("TILES"), panels=sym("P"), units=sym("UNITS"))`. Iterations are
those of the whole launch, `tile * panels + panel`; an argument `unit` is in 0 .. units, `tile` a
tile of the form.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from passes.decomposition import bounds as cut
from passes.decomposition.arithmetic import Num, ceildiv, floordiv, least, mod, most
from passes.decomposition.bounds import Bounds


class Direction(Enum):
    """Which end of its range a unit begins at; the value is the text form."""

    FORWARD = "forward"
    BACKWARD = "backward"


class SlotOrder(Enum):
    """Which index of (tile, split) runs faster in the unit number; the value is the text form.

    SPLIT_FASTEST: the contributors of a tile are neighbours, in one wave. SPLIT_SLOWEST: units that
    run at the same time are in the same part of K and share panels of A and B.
    """

    SPLIT_FASTEST = "split-fastest"
    SPLIT_SLOWEST = "split-slowest"


class ClosedForm(Protocol):
    """What each form answers. A unit computes iterations(unit, 0), iterations(unit, 1), ...
    in `turns(unit)` turns, each range from its end down if `direction` says so."""

    @property
    def first_tile(self) -> Num: ...
    @property
    def tiles(self) -> Num: ...
    @property
    def panels(self) -> Num: ...
    @property
    def units(self) -> Num: ...
    @property
    def direction(self) -> Direction: ...

    def turns(self, unit: Num) -> Num: ...
    def iterations(self, unit: Num, turn: Num) -> tuple[Num, Num]:
        """First iteration, and one past the last."""
        ...

    def owner(self, iteration: Num) -> Num: ...
    def contributors(self, tile: Num) -> Num: ...
    def slot(self, unit: Num, tile: Num) -> Num:
        """Ordinal of `unit` among the contributors of `tile`, in k order."""
        ...

    def slot_base(self, tile: Num) -> Num: ...

    @property
    def slot_count(self) -> Num:
        """Slots of a workspace for the split tiles."""
        ...

    def counter(self, tile: Num) -> Num:
        """A number that no other split tile has."""
        ...

    @property
    def counter_count(self) -> Num: ...


@dataclass(frozen=True)
class StreamKForm:
    """One contiguous range a unit, cut by `bounds`."""

    tiles: Num
    panels: Num
    units: Num
    bounds: Bounds = Bounds.FLOOR
    direction: Direction = Direction.FORWARD
    first_tile: Num = 0

    def turns(self, unit: Num) -> Num:
        return 1

    def iterations(self, unit: Num, turn: Num) -> tuple[Num, Num]:
        low, high = cut.unit_range(self.bounds, unit, self.tiles * self.panels, self.units)
        start = self.first_tile * self.panels
        return start + low, start + high

    def owner(self, iteration: Num) -> Num:
        i = iteration - self.first_tile * self.panels
        return cut.owner(self.bounds, i, self.tiles * self.panels, self.units)

    def contributors(self, tile: Num) -> Num:
        return self.owner((tile + 1) * self.panels - 1) - self._first_owner(tile) + 1

    def slot(self, unit: Num, tile: Num) -> Num:
        return unit - self._first_owner(tile)

    def slot_base(self, tile: Num) -> Num:
        """Twice the first owner.

        With c >= 2 contributors the next split tile's first owner is at least c - 1 units further,
        so 2 * (c - 1) >= c slots lie between. The workspace depends on units alone, not on tiles.
        """
        return 2 * self._first_owner(tile)

    @property
    def slot_count(self) -> Num:
        return most(1, 2 * self.units - 2)

    def counter(self, tile: Num) -> Num:
        """The first owner, whose range ends in the tile."""
        return self._first_owner(tile)

    @property
    def counter_count(self) -> Num:
        return most(1, self.units - 1)

    def _first_owner(self, tile: Num) -> Num:
        return self.owner(tile * self.panels)


@dataclass(frozen=True)
class SplitKForm:
    """`splits` units a tile, each ceildiv(panels, splits) panels, the last fewer. None of them may
    be empty: ceildiv(panels, ceildiv(panels, splits)) == splits."""

    tiles: Num
    panels: Num
    splits: Num
    slot_order: SlotOrder = SlotOrder.SPLIT_FASTEST
    first_tile: Num = 0
    direction: Direction = Direction.FORWARD

    @property
    def units(self) -> Num:
        return self.tiles * self.splits

    def turns(self, unit: Num) -> Num:
        return 1

    def iterations(self, unit: Num, turn: Num) -> tuple[Num, Num]:
        tile, split = self.first_tile + self.tile(unit), self.split(unit)
        share, start = ceildiv(self.panels, self.splits), tile * self.panels
        return start + split * share, start + least((split + 1) * share, self.panels)

    def owner(self, iteration: Num) -> Num:
        tile = floordiv(iteration, self.panels) - self.first_tile
        share = ceildiv(self.panels, self.splits)
        split = floordiv(mod(iteration, self.panels), share)
        if self.slot_order is SlotOrder.SPLIT_FASTEST:
            return tile * self.splits + split
        return split * self.tiles + tile

    def contributors(self, tile: Num) -> Num:
        return self.splits

    def slot(self, unit: Num, tile: Num) -> Num:
        return self.split(unit)

    def slot_base(self, tile: Num) -> Num:
        return (tile - self.first_tile) * self.splits

    @property
    def slot_count(self) -> Num:
        return most(1, self.units)

    def counter(self, tile: Num) -> Num:
        return tile - self.first_tile

    @property
    def counter_count(self) -> Num:
        return most(1, self.tiles)

    def tile(self, unit: Num) -> Num:
        if self.slot_order is SlotOrder.SPLIT_FASTEST:
            return floordiv(unit, self.splits)
        return mod(unit, self.tiles)

    def split(self, unit: Num) -> Num:
        if self.slot_order is SlotOrder.SPLIT_FASTEST:
            return mod(unit, self.splits)
        return floordiv(unit, self.tiles)


@dataclass(frozen=True)
class WholeTilesForm:
    """Unit u computes the tiles u, u + units, u + 2 * units, ... whole, one a turn."""

    tiles: Num
    panels: Num
    units: Num
    first_tile: Num = 0
    direction: Direction = Direction.FORWARD

    def turns(self, unit: Num) -> Num:
        return ceildiv(self.tiles - unit, self.units)

    def iterations(self, unit: Num, turn: Num) -> tuple[Num, Num]:
        tile = self.first_tile + unit + turn * self.units
        return tile * self.panels, (tile + 1) * self.panels

    def owner(self, iteration: Num) -> Num:
        return mod(floordiv(iteration, self.panels) - self.first_tile, self.units)

    def contributors(self, tile: Num) -> Num:
        return 1

    def slot(self, unit: Num, tile: Num) -> Num:
        return 0

    def slot_base(self, tile: Num) -> Num:
        return 0

    @property
    def slot_count(self) -> Num:
        return 0

    def counter(self, tile: Num) -> Num:
        return 0

    @property
    def counter_count(self) -> Num:
        return 0
