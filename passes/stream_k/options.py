"""The words of the pass's options, and what the criteria may ask of them."""

from enum import Enum
from typing import Protocol


class Merge(Enum):
    """How the partial tiles of a split output tile meet. AUTO is ATOMIC, the only merge there is so
    far."""

    AUTO = "auto"
    ATOMIC = "atomic"


class Options(Protocol):
    """The fields of `StreamKPass` that the criteria read; documented there."""

    @property
    def units(self) -> int | None: ...
    @property
    def splits(self) -> int | None: ...
    @property
    def launch_constants(self) -> bool: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def target(self) -> str: ...
