"""The one form of every decomposition: for each unit a sequence of segments."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of one tile that one unit computes: panels k0 <= k < k1 of `tile`.

    slot: ordinal of the unit among the contributors of that tile, in k order. contributors: how
    many there are.
    """

    unit: int
    tile: int
    k0: int
    k1: int
    slot: int
    contributors: int


class Schedule(Protocol):
    """What every decomposition answers. `units` is the number of blocks, none of them without
    work."""

    @property
    def tiles(self) -> int: ...

    @property
    def panels(self) -> int: ...

    @property
    def units(self) -> int: ...

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        ...

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The segments of `unit`, in the order it computes them."""
        ...

    def contributors(self, tile: int) -> int: ...

    def slot_base(self, tile: int) -> int:
        """Where the slots of a split tile start in the workspace; a tile that one unit owns has
        none."""
        ...

    def split_tiles(self) -> tuple[int, ...]:
        """Tiles with two contributors or more, in ascending order."""
        ...
