"""Data-parallel: one unit a tile, all its panels. What every other decomposition is compared
with."""

from collections.abc import Iterator
from dataclasses import dataclass

from passes.decomposition.schedule import Segment


@dataclass(frozen=True)
class DataParallel:
    """One segment a tile. ValueError: a negative size."""

    tiles: int
    panels: int

    def __post_init__(self):
        if self.tiles < 0 or self.panels < 0:
            raise ValueError(f"tiles and panels must not be negative: {self.tiles}, {self.panels}")

    @property
    def total(self) -> int:
        return self.tiles * self.panels

    @property
    def units(self) -> int:
        return self.tiles if self.panels else 0

    @property
    def slots(self) -> int:
        return 0

    def unit_range(self, unit: int) -> tuple[int, int]:
        """First iteration of `unit`, and one past its last. IndexError: no such unit."""
        if not 0 <= unit < self.units:
            raise IndexError(f"unit {unit} of {self.units}")
        return unit * self.panels, (unit + 1) * self.panels

    def owner(self, iteration: int) -> int:
        """The unit that computes `iteration`. IndexError: no such iteration."""
        if not 0 <= iteration < self.total:
            raise IndexError(f"iteration {iteration} of {self.total}")
        return iteration // self.panels

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The one segment of `unit`. IndexError: no such unit."""
        self.unit_range(unit)
        return (Segment(unit, unit, 0, self.panels, slot=0, contributors=1),)

    def all_segments(self) -> Iterator[Segment]:
        return (segment for unit in range(self.units) for segment in self.segments(unit))

    def contributors(self, tile: int) -> int:
        self.unit_range(tile)
        return 1

    def slot_base(self, tile: int) -> int:
        """Zero: no tile is split, so none has slots."""
        self.unit_range(tile)
        return 0

    def split_tiles(self) -> tuple[int, ...]:
        return ()
