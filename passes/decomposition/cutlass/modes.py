"""What can be asked of the rule, and which part of it decided."""

from enum import Enum


class Mode(Enum):
    """A decomposition mode; HEURISTIC is a request only, never a result."""

    HEURISTIC = "heuristic"
    DATA_PARALLEL = "data-parallel"
    SPLIT_K = "split-k"
    STREAM_K = "stream-k"


class Reason(Enum):
    """Which part of the rule fired."""

    ASKED = "the mode was asked for"
    FULL_WAVES = "the tiles fill their waves"
    SHORT_K = "a tile has at most 8 k tiles"
    TAIL_HALF_FULL = "the tail fills at least half of a wave"
    EVEN_SPLIT = "fewer tiles than units, which are a multiple of them"
    TAIL = "the tail fills less than half of a wave"
