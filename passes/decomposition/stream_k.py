"""Stream-K: the iterations of all tiles in one row, cut into equal ranges across tile boundaries.

Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU", PPoPP 2023, section 4.
"""

from dataclasses import dataclass
from functools import cached_property

from passes.decomposition import bounds as cut
from passes.decomposition.arithmetic import check_kind, check_size
from passes.decomposition.bounds import Bounds
from passes.decomposition.closed_form import Direction, StreamKForm
from passes.decomposition.schedule import FormSchedule


@dataclass(frozen=True)
class StreamK(FormSchedule):
    """`tiles` * `panels` iterations over `units` units.

    `units` is lowered, so that none has less than `min_panels` iterations (one unit has them all if
    they are fewer). direction: which end of its range a unit begins at. ValueError names an
    argument that is no int, a negative size, fewer than one unit asked for, or a minimum below one.
    """

    units: int
    bounds: Bounds = Bounds.FLOOR
    min_panels: int = 1
    direction: Direction = Direction.FORWARD

    def __post_init__(self):
        super().__post_init__()
        check_size("units", self.units, 1 if self.total else 0)
        check_kind("bounds", self.bounds, Bounds)
        check_size("min_panels", self.min_panels, 1)
        check_kind("direction", self.direction, Direction)
        units = cut.useful_units(self.bounds, self.total, self.units, self.min_panels)
        object.__setattr__(self, "units", units)

    @cached_property
    def forms(self) -> tuple[StreamKForm, ...]:
        if not self.total:
            return ()
        return (StreamKForm(self.tiles, self.panels, self.units, self.bounds, self.direction),)

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        return 2 * max(0, self.units - 1)

    def unit_range(self, unit: int) -> tuple[int, int]:
        """First iteration of `unit`, and one past its last. IndexError: no such unit."""
        if not 0 <= unit < self.units:
            raise IndexError(f"unit {unit} of {self.units}")
        return cut.unit_range(self.bounds, unit, self.total, self.units)

    def split_tiles(self) -> tuple[int, ...]:
        """Tiles with two contributors or more, in ascending order."""
        starts = (self.unit_range(unit)[0] for unit in range(1, self.units))
        return tuple(dict.fromkeys(low // self.panels for low in starts if low % self.panels))
