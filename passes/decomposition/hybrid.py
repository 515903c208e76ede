"""Hybrid: whole tiles in full waves, Stream-K for what does not fill one.

Source: Osama et al., "Stream-K", PPoPP 2023, section 5.2 (data-parallel with one-tile and two-tile
Stream-K).
"""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from passes.decomposition.arithmetic import check_kind, check_size
from passes.decomposition.bounds import Bounds
from passes.decomposition.closed_form import ClosedForm, Direction
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.schedule import FormSchedule
from passes.decomposition.stream_k import StreamK


class HybridKind(Enum):
    """Which tiles Stream-K covers; the value is the text form. Without a tail it covers none.

    ONE_TILE: those of the tail wave, less than a tile a unit. TWO_TILE: those of the last full wave
    and the tail, less than two tiles a unit.
    """

    ONE_TILE = "one-tile"
    TWO_TILE = "two-tile"


@dataclass(frozen=True)
class Hybrid(FormSchedule):
    """A Stream-K part, and a data-parallel part of full waves; the part that comes first has the
    lower tiles.

    units: blocks asked for; fewer are left where no wave is full and the Stream-K part has no work
    for all. bounds, min_panels, direction: of the Stream-K part, as in `StreamK`; with no more
    than `min_panels` panels a tile there is no such part. wave: tiles a full wave; the units asked
    for, unless said. ValueError names an argument of a wrong type or out of range.
    """

    units: int
    kind: HybridKind = HybridKind.TWO_TILE
    stream_k_first: bool = True
    bounds: Bounds = Bounds.FLOOR
    min_panels: int = 1
    direction: Direction = Direction.FORWARD
    wave: int = 0

    def __post_init__(self):
        super().__post_init__()
        check_size("units", self.units, 1 if self.total else 0)
        check_kind("kind", self.kind, HybridKind)
        check_kind("stream_k_first", self.stream_k_first, bool)
        check_size("wave", self.wave, 0)
        object.__setattr__(self, "wave", self.wave or self.units)
        object.__setattr__(self, "units", max(self.stream_k.units, self.data_parallel.units))

    @cached_property
    def stream_k(self) -> StreamK:
        """The Stream-K part, its tiles numbered from 0."""
        options = (self.bounds, self.min_panels, self.direction)
        return StreamK(self.tiles - self._whole_tiles, self.panels, self.wave, *options)

    @cached_property
    def data_parallel(self) -> DataParallel:
        """The data-parallel part, its tiles numbered from 0."""
        return DataParallel(self._whole_tiles, self.panels, self.wave)

    @cached_property
    def forms(self) -> tuple[ClosedForm, ...]:
        parts = (self.stream_k, self.data_parallel)
        first, second = parts if self.stream_k_first else parts[::-1]
        later = (replace(form, first_tile=first.tiles) for form in second.forms)
        return *first.forms, *later

    @property
    def slots(self) -> int:
        """How many partial tiles a workspace holds; every `slot_base(tile) + slot` is below it."""
        return self.stream_k.slots

    def split_tiles(self) -> tuple[int, ...]:
        """Tiles with two contributors or more, in ascending order."""
        first_tile = 0 if self.stream_k_first else self.data_parallel.tiles
        return tuple(first_tile + tile for tile in self.stream_k.split_tiles())

    @property
    def _whole_tiles(self) -> int:
        full, tail = divmod(self.tiles, self.wave) if self.wave else (0, 0)
        if tail == 0 or self.panels <= self.min_panels:
            return self.tiles
        return self.wave * (full if self.kind is HybridKind.ONE_TILE else max(0, full - 1))
