"""What the interpreter reports: mistakes of a program that show when it runs."""

from loopir.errors import LoopIRError
from loopir.nodes import Program
from loopir.printer import excerpt
from loopir.walk import Path


class InterpError(LoopIRError):
    """Base of them; the text shows the statement inside the IR and the schedule that led there.

    `message` says what happened, `path` leads to the statement, `schedule` repeats the run.
    """

    kind = "error"

    def __init__(self, message: str):
        super().__init__(message)
        self.message, self.path, self.schedule = message, (), ""
        self._program: Program | None = None

    def inside(self, place: Path) -> None:
        """Note one more step of the way from the program to the statement, the innermost first."""
        self.path: Path = (*place, *self.path)

    def locate(self, program: Program, schedule: str) -> None:
        self._program, self.schedule = program, schedule

    def __str__(self) -> str:
        head = f"{self.kind}: {self.message}"
        if self._program is None:
            return head
        return f"{head}\n{excerpt(self._program, self.path)}\n  schedule: {self.schedule}"


class RaceError(InterpError):
    """Two blocks touch one element, at least one of them by a plain store or both in different
    ways, and no `arrive` orders them."""

    kind = "race"


class PoisonError(InterpError):
    """A read of something that nothing has written: a tile, an output, a workspace."""

    kind = "read of poison"


class OutOfBoundsError(InterpError):
    """An access without a mask, or an element read, that leaves its buffer."""

    kind = "out of bounds"


class CounterError(InterpError):
    """A counter that is not back at zero when the launch ends."""

    kind = "counter"


class DivisorError(InterpError):
    """An index expression that divides by zero or by a negative number."""

    kind = "divisor"


class RunawayError(InterpError):
    """A `while` that does not end, or a search over more schedules than its limit."""

    kind = "no end"
