"""What a simulated launch did: for each unit its events, as data."""

from dataclasses import dataclass
from enum import Enum
from math import isfinite


class EventKind(Enum):
    COMPUTE = "compute"
    STORE = "store"
    WAIT = "wait"
    LOAD = "load"
    EPILOGUE = "epilogue"


@dataclass(frozen=True, slots=True)
class Event:
    """What `unit` does from `start` to `end`, in the unit of time of the costs.

    panels k0 <= k < k1 of `tile`: those computed or stored; of the partial that is waited for or
    loaded; all of them for an epilogue.
    """

    unit: int
    kind: EventKind
    start: float
    end: float
    tile: int
    k0: int
    k1: int


@dataclass(frozen=True)
class UnitCost:
    """Costs in one unit of time: a panel of a tile, an epilogue, and the store or the load of one
    partial tile. ValueError: one is negative or no finite number."""

    mac: float = 1
    epilogue: float = 2
    partial: float = 2

    def __post_init__(self):
        for name in ("mac", "epilogue", "partial"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not isfinite(value) or value < 0:
                raise ValueError(f"{name}: a finite number >= 0, not {value!r}")


@dataclass(frozen=True)
class Timeline:
    """A launch on `places` places.

    events: of each unit, in order of time. place: where each unit ran. reduction: the events of a
    reduction wave after the units, each with the ordinal of its tile among the split ones for a
    unit. makespan: the last finish. ideal: all panels and one epilogue a tile, spread evenly over
    the places.
    """

    places: int
    events: tuple[tuple[Event, ...], ...]
    place: tuple[int, ...]
    reduction: tuple[Event, ...]
    makespan: float
    ideal: float
