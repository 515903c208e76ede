"""Data-parallel: every tile whole, in one unit. What every other decomposition is compared with."""

from dataclasses import dataclass
from functools import cached_property

from passes.decomposition.arithmetic import check_size
from passes.decomposition.closed_form import WholeTilesForm
from passes.decomposition.schedule import FormSchedule


@dataclass(frozen=True)
class DataParallel(FormSchedule):
    """Unit u computes the tiles u, u + units, u + 2 * units, ...

    units: one a tile if it is None or more than the tiles. ValueError names an argument that is no
    int, a negative size, or fewer than one unit asked for.
    """

    units: int = None  # pyright: ignore[reportAssignmentType]  # an int once it is made

    def __post_init__(self):
        super().__post_init__()
        useful = self.tiles if self.panels else 0
        if self.units is not None:
            check_size("units", self.units, 1 if useful else 0)
            useful = min(useful, self.units)
        object.__setattr__(self, "units", useful)

    @cached_property
    def forms(self) -> tuple[WholeTilesForm, ...]:
        return (WholeTilesForm(self.tiles, self.panels, self.units),) if self.units else ()

    @property
    def slots(self) -> int:
        return 0

    def split_tiles(self) -> tuple[int, ...]:
        return ()
