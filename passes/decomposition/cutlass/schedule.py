"""A plan of the rule in the one segment form."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from passes.decomposition.cutlass.plan import CutlassPlan
from passes.decomposition.schedule import Segment


@dataclass(frozen=True)
class CutlassSchedule:
    """The blocks of `plan` that have work, numbered without gaps, their segments in CUTLASS's
    order. Tiles are its linear tile indices, phantoms included.

    Every contributor has a slot of its own, unlike in CUTLASS, where a tile has one accumulator
    that its blocks add to in turn. whole_tiles: with the tiles that CUTLASS does not split.
    """

    plan: CutlassPlan
    whole_tiles: bool = True

    @property
    def stream_k(self) -> "CutlassSchedule":
        """Without them."""
        return replace(self, whole_tiles=False)

    @property
    def tiles(self) -> int:
        return self.plan.geometry.tiles if self.whole_tiles else self.plan.split_tiles

    @property
    def panels(self) -> int:
        return self.plan.geometry.k_tiles

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The block of each unit."""
        loads = enumerate(self.plan.loads(self.whole_tiles))
        return tuple(block for block, load in loads if load)

    @property
    def units(self) -> int:
        return len(self.blocks)

    @property
    def slots(self) -> int:
        return self._bases_and_slots[1]

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The segments of `unit`, in the order it computes them. IndexError: no such unit."""
        if not 0 <= unit < self.units:
            raise IndexError(f"unit {unit} of {self.units}")
        return tuple(
            replace(s, unit=unit) for s in self.plan.work(self.blocks[unit], self.whole_tiles)
        )

    def all_segments(self) -> Iterator[Segment]:
        """Every segment of the launch, unit by unit."""
        return (segment for unit in range(self.units) for segment in self.segments(unit))

    def contributors(self, tile: int) -> int:
        """How many units compute a part of `tile`. IndexError: no such tile."""
        return self.plan.contributors(tile)

    def slot_base(self, tile: int) -> int:
        """Where the slots of a split tile start: those of lower tiles come first."""
        return self._bases_and_slots[0].get(tile, 0)

    def split_tiles(self) -> tuple[int, ...]:
        """Tiles with two contributors or more, in ascending order."""
        return tuple(self._bases_and_slots[0])

    @cached_property
    def _bases_and_slots(self) -> tuple[dict[int, int], int]:
        """Slot bases of the split tiles, and the slots of all."""
        bases, base = {}, 0
        for tile in range(self.plan.split_tiles):
            count = self.contributors(tile)
            if count > 1:
                bases[tile] = base
                base += count
        return bases, base
