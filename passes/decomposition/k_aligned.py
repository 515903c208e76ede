"""k-aligned: whole tiles in full waves; the tail by owners and helpers that start at the same k.

Blocks that run together read the same panels, which the level-two cache then serves once for many:
equal ranges across the borders of tiles, as Stream-K has them, are each at a k of their own.
"""

from dataclasses import dataclass
from functools import cached_property

from passes.decomposition.arithmetic import check_size
from passes.decomposition.closed_form import ClosedForm, WholeTilesForm
from passes.decomposition.k_aligned_form import KAlignedForm
from passes.decomposition.k_aligned_shares import Shares, shares
from passes.decomposition.schedule import FormSchedule


@dataclass(frozen=True)
class KAligned(FormSchedule):
    """Full waves of whole tiles, then the tail of tiles that do not fill one, as `KAlignedForm` has
    it.

    units: blocks asked for; fewer are left where no wave is full and the tail has no work for all.
    cost: panels that a part costs beside its own, for storing it: an owner computes so many more
    than a helper, who computes them once more for every tile it touches. min_panels: least panels
    of a part. The tail is split where that leaves an owner less than a tile. ValueError names an
    argument that is no int or out of range.
    """

    units: int
    cost: int = 0
    min_panels: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_size("units", self.units, 1 if self.total else 0)
        check_size("cost", self.cost, 0)
        check_size("min_panels", self.min_panels, 1)
        object.__setattr__(self, "units", max((f.units for f in self.forms), default=0))

    @cached_property
    def tail(self) -> KAlignedForm | None:
        """The tiles that are split, if any are."""
        found = self.shares
        if found is None or not found.layers:
            return None
        tiles, units = self._tail_tiles, found.layers * self._tail_tiles + found.enders
        return KAlignedForm(
            tiles=tiles,
            panels=self.panels,
            units=units,
            layers=found.layers,
            share=found.share,
            cost=found.cost,
            chunks=found.chunks,
            grain=found.grain,
            first_tile=self.tiles - tiles,
        )

    @cached_property
    def shares(self) -> Shares | None:
        """How the tail is cut; None without one."""
        if not self._tail_tiles:
            return None
        return shares(self._tail_tiles, self.panels, self.units, self.cost, self.min_panels)

    @cached_property
    def forms(self) -> tuple[ClosedForm, ...]:
        if not self.total:
            return ()
        split = (self.tail,) if self.tail else ()
        whole = self.tiles - sum(form.tiles for form in split)
        waves = (WholeTilesForm(whole, self.panels, min(whole, self.units)),) if whole else ()
        return *waves, *split

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        return self.tail.slot_count if self.tail else 0

    def split_tiles(self) -> tuple[int, ...]:
        """All tiles of the tail, or none."""
        return tuple(range(self.tail.first_tile, self.tiles)) if self.tail else ()

    @cached_property
    def _tail_tiles(self) -> int:
        return self.tiles % self.units if self.total else 0
