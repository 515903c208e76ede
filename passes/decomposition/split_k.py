"""Split-K: every tile's panels cut into the same slices, a unit a slice."""

from dataclasses import dataclass
from functools import cached_property

from passes.decomposition.arithmetic import check_kind, check_size
from passes.decomposition.bounds import useful_splits
from passes.decomposition.closed_form import SlotOrder, SplitKForm
from passes.decomposition.schedule import FormSchedule


@dataclass(frozen=True)
class SplitK(FormSchedule):
    """`splits` slices of ceildiv(panels, splits) panels a tile, the last one shorter.

    `splits` is lowered to the slices that are not empty: 10 panels in 6 are 5 slices of two.
    slot_order: which index of (tile, split) runs faster in the unit number. ValueError names an
    argument that is no int, a negative size, or fewer than one split.
    """

    splits: int
    slot_order: SlotOrder = SlotOrder.SPLIT_FASTEST

    def __post_init__(self):
        super().__post_init__()
        check_size("splits", self.splits, 1)
        check_kind("slot_order", self.slot_order, SlotOrder)
        if self.panels:
            object.__setattr__(self, "splits", useful_splits(self.panels, self.splits))

    @cached_property
    def forms(self) -> tuple[SplitKForm, ...]:
        if not self.total:
            return ()
        return (SplitKForm(self.tiles, self.panels, self.splits, self.slot_order),)

    @property
    def units(self) -> int:
        return self.tiles * self.splits if self.panels else 0

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        return self.units if self.splits > 1 else 0

    def split_tiles(self) -> tuple[int, ...]:
        """All tiles, unless there is one split."""
        return tuple(range(self.tiles)) if self.slots else ()
