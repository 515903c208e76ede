"""What units do for their segments, as `tests.protocol_model` explores it."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Step(Enum):
    """What a unit does for one segment."""

    STORE = "each warp stores its part of a slot"
    ADD = "each warp adds its part to the tile's only slot, relaxed"
    BARRIER = "barrier"
    BARRIER_WITHOUT_MEMORY = "the warps wait for each other, and pass nothing on"
    ARRIVE = "warp 0 adds one to the counter, acquire and release"
    ARRIVE_RELEASE = "warp 0 adds one to the counter, release"
    ARRIVE_ACQUIRE = "warp 0 adds one to the counter, acquire"
    ARRIVE_RELAXED = "warp 0 adds one to the counter, relaxed"
    COUNT = "warp 0 adds one to the counter, acquire and release, and is none the wiser"
    LOOK = "warp 0 loads the counter, acquire: it is the last if all have arrived"
    CLEAR = "warp 0 stores zero to the counter, last or not"
    CLEAR_FIRST = "warp 0 stores zero to the counter if its unit has the first panels"
    RESET = "warp 0 of the last arriver stores zero to the counter"
    FOLD = "each warp of the last arriver loads a slot"
    FOLD_SUM = "each warp of the last arriver loads the slot that all have added to"
    FINALISE = "each warp of the last arriver runs the epilogue"


BARRIERS = frozenset({Step.BARRIER, Step.BARRIER_WITHOUT_MEMORY})
ACQUIRES = frozenset({Step.ARRIVE, Step.ARRIVE_ACQUIRE, Step.COUNT, Step.LOOK})
RELEASES = frozenset({Step.ARRIVE, Step.ARRIVE_RELEASE, Step.COUNT})
ARRIVALS = ACQUIRES | RELEASES | {Step.ARRIVE_RELAXED}
TELL_THE_LAST = ARRIVALS - {Step.COUNT}
CLEARS = frozenset({Step.CLEAR, Step.CLEAR_FIRST, Step.RESET})
FOLDS = frozenset({Step.FOLD, Step.FOLD_SUM})
OF_THE_LAST = FOLDS | {Step.RESET, Step.FINALISE}


class Label(NamedTuple):
    """A partial."""

    launch: int
    tile: int
    part: int  # ordinal of its unit among the contributors of the tile


Place = tuple[int, ...]  # of a slot in the workspaces; then which warp's part of it


@dataclass(frozen=True)
class Op:
    """A step of one unit. parts: how many partials its tile has (0: it was never split).

    expected: what the last arriver leaves in `counter`. flag: number of the flag that an arrival
    sets, and without which the last arriver's steps are skipped (None: they are not).
    """

    step: Step
    label: Label
    slot: Place
    parts: int
    counter: int = 0
    expected: int = 0
    flag: int | None = None

    @property
    def partials(self) -> frozenset[Label]:
        """What a FOLD or FOLD_SUM is to find."""
        all_of_tile = (self.label._replace(part=part) for part in range(self.parts))
        return frozenset({self.label} if self.step is Step.FOLD else all_of_tile)
