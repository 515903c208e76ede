"""Where the seconds of a run go."""

import time
from collections.abc import Callable, Mapping
from enum import Enum


class Part(Enum):
    """What a run spends time on; the value is the text form. LOAD: operands, and kernels that are
    compiled, up to the first launch of each. REST: messages, files, and what was lost to a hang."""

    START = "start"
    PLAN = "plan"
    COMPILE = "compile"
    LOAD = "load"
    CHECK = "check"
    TIME = "time"
    REST = "rest"


class Stopwatch:
    """`seconds` of each part: what passes counts for the part that was begun last, REST at
    first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.now = clock
        self.seconds = dict.fromkeys(Part, 0.0)
        self._part, self._since = Part.REST, clock()

    def begin(self, part: Part) -> None:
        now = self.now()
        self.seconds[self._part] += now - self._since
        self._part, self._since = part, now

    def move(self, seconds: Mapping[Part, float]) -> None:
        """Count them for their parts, as somebody else measured them, and not for REST."""
        for part, value in seconds.items():
            self.seconds[part] += value
            self.seconds[Part.REST] -= value
