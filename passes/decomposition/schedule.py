"""The one form of every decomposition: for each unit a sequence of segments."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from passes.decomposition.arithmetic import check_size
from passes.decomposition.closed_form import ClosedForm, Direction


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


@dataclass(frozen=True)
class FormSchedule(ABC):
    """A schedule that is read off closed forms. ValueError: a size that is no int, or negative.

    Indices out of range raise IndexError: of a unit, a tile, an iteration.
    """

    tiles: int
    panels: int

    def __post_init__(self):
        check_size("tiles", self.tiles, 0)
        check_size("panels", self.panels, 0)

    @cached_property
    @abstractmethod
    def forms(self) -> tuple[ClosedForm, ...]:
        """The parts, in the order in which a unit computes them; each tile is in one of them. None
        if there is no iteration."""

    @property
    def total(self) -> int:
        """Iterations of the launch, TOTAL in the IR."""
        return self.tiles * self.panels

    def owner(self, iteration: int) -> int:
        """The unit that computes `iteration`."""
        _check_index("iteration", iteration, self.total)
        return self._form_of(iteration // self.panels).owner(iteration)

    def segments(self, unit: int) -> tuple[Segment, ...]:
        """The segments of `unit`, in the order it computes them."""
        forms = self.forms
        _check_index("unit", unit, max((f.units for f in forms), default=0))
        return tuple(s for form in forms if unit < form.units for s in _form_segments(form, unit))

    def all_segments(self) -> Iterator[Segment]:
        """Every segment of the launch, unit by unit."""
        units = max((f.units for f in self.forms), default=0)
        return (segment for unit in range(units) for segment in self.segments(unit))

    def contributors(self, tile: int) -> int:
        """How many units compute a part of `tile`."""
        return self._form_of(tile).contributors(tile)

    def slot_base(self, tile: int) -> int:
        """Where the slots of a split tile start."""
        return self._form_of(tile).slot_base(tile)

    def _form_of(self, tile: int) -> ClosedForm:
        _check_index("tile", tile, self.tiles if self.panels else 0)
        return next(f for f in self.forms if f.first_tile <= tile < f.first_tile + f.tiles)


def _form_segments(form: ClosedForm, unit: int) -> Iterator[Segment]:
    for turn in range(form.turns(unit)):
        low, high = form.iterations(unit, turn)
        tiles = range(low // form.panels, (high - 1) // form.panels + 1)
        ordered = tiles if form.direction is Direction.FORWARD else reversed(tiles)
        yield from (_segment(form, unit, tile, low, high) for tile in ordered)


def _segment(form: ClosedForm, unit: int, tile: int, low: int, high: int) -> Segment:
    start = tile * form.panels
    k0, k1 = max(low - start, 0), min(high - start, form.panels)
    return Segment(unit, tile, k0, k1, form.slot(unit, tile), form.contributors(tile))


def _check_index(name: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise IndexError(f"{name} {index} of {count}")
