"""A schedule whose units are computed by other blocks."""

from dataclasses import dataclass, replace

from passes.decomposition.schedule import Schedule, Segment


@dataclass(frozen=True)
class Permuted:
    """Block b computes what unit `order[b]` of `schedule` does: the segments of b are those of
    unit `order[b]`, tiles, slots and contributors as they were.

    The closed forms are those of `schedule`, asked for `order[b]`. ValueError: `order` is not a
    permutation of the units.
    """

    schedule: Schedule
    order: tuple[int, ...]

    def __post_init__(self):
        order = tuple(self.order)
        whole = all(isinstance(u, int) and not isinstance(u, bool) for u in order)
        if not whole or sorted(order) != list(range(self.units)):
            raise ValueError(f"order: a permutation of 0 .. {self.units}, not {self.order!r}")
        object.__setattr__(self, "order", order)

    @property
    def tiles(self) -> int:
        return self.schedule.tiles

    @property
    def panels(self) -> int:
        return self.schedule.panels

    @property
    def units(self) -> int:
        return self.schedule.units

    @property
    def slots(self) -> int:
        return self.schedule.slots

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The segments of block `unit`, in the order it computes them."""
        if not 0 <= unit < self.units:
            raise IndexError(f"unit {unit} of {self.units}")
        return tuple(replace(s, unit=unit) for s in self.schedule.segments(self.order[unit]))

    def contributors(self, tile: int) -> int:
        return self.schedule.contributors(tile)

    def slot_base(self, tile: int) -> int:
        return self.schedule.slot_base(tile)

    def split_tiles(self) -> tuple[int, ...]:
        return self.schedule.split_tiles()
