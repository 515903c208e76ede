"""Stream-K: the iterations of all tiles in one row, cut into equal ranges across tile boundaries.

Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023, section 4.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from passes.decomposition import bounds as cut
from passes.decomposition.bounds import Bounds
from passes.decomposition.schedule import Segment


@dataclass(frozen=True)
class StreamK:
    """`tiles` * `panels` iterations over `units` units.

    `units` is clamped, so that no unit is empty. ValueError: a negative size, or fewer than one
    unit asked for.
    """

    tiles: int
    panels: int
    units: int
    bounds: Bounds = Bounds.FLOOR

    def __post_init__(self):
        if self.tiles < 0 or self.panels < 0:
            raise ValueError(f"tiles and panels must not be negative: {self.tiles}, {self.panels}")
        if self.units < 1 and self.total > 0:
            raise ValueError(f"units must be at least 1, not {self.units}")
        object.__setattr__(self, "units", cut.useful_units(self.bounds, self.total, self.units))

    @property
    def total(self) -> int:
        """Iterations of the launch, TOTAL in the IR."""
        return self.tiles * self.panels

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        return 2 * max(0, self.units - 1)

    def unit_range(self, unit: int) -> tuple[int, int]:
        """First iteration of `unit`, and one past its last. IndexError: no such unit."""
        if not 0 <= unit < self.units:
            raise IndexError(f"unit {unit} of {self.units}")
        return cut.unit_range(self.bounds, unit, self.total, self.units)

    def owner(self, iteration: int) -> int:
        """The unit that computes `iteration`. IndexError: no such iteration."""
        if not 0 <= iteration < self.total:
            raise IndexError(f"iteration {iteration} of {self.total}")
        return cut.owner(self.bounds, iteration, self.total, self.units)

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The segments of `unit`, in tile order. IndexError: no such unit."""
        low, high = self.unit_range(unit)
        first, last = low // self.panels, (high - 1) // self.panels
        return tuple(self._segment(unit, tile, low, high) for tile in range(first, last + 1))

    def all_segments(self) -> Iterator[Segment]:
        """Every segment of the launch, in k order within each tile."""
        return (segment for unit in range(self.units) for segment in self.segments(unit))

    def contributors(self, tile: int) -> int:
        """How many units compute a part of `tile`. IndexError: no such tile."""
        first, last = self._owners(tile)
        return last - first + 1

    def slot_base(self, tile: int) -> int:
        """Where the slots of a split tile start.

        Twice the first owner: with c >= 2 contributors the next split tile's first owner is at
        least c - 1 units further, so 2 * (c - 1) >= c slots lie between. The workspace then depends
        on units alone, not on tiles.
        """
        return 2 * self._owners(tile)[0]

    def split_tiles(self) -> tuple[int, ...]:
        """Tiles with two contributors or more, in ascending order."""
        starts = (self.unit_range(unit)[0] for unit in range(1, self.units))
        return tuple(dict.fromkeys(low // self.panels for low in starts if low % self.panels))

    def _owners(self, tile: int) -> tuple[int, int]:
        start = tile * self.panels
        return self.owner(start), self.owner(start + self.panels - 1)

    def _segment(self, unit: int, tile: int, low: int, high: int) -> Segment:
        start = tile * self.panels
        first, last = self._owners(tile)
        k0, k1 = max(low - start, 0), min(high - start, self.panels)
        return Segment(unit, tile, k0, k1, slot=unit - first, contributors=last - first + 1)
