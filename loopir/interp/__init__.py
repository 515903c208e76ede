"""The reference interpreter: what a program means, on numpy arrays, its blocks interleaved.

`run(program, arrays)` writes the outputs; what a GPU would leave to luck (a race, a read of memory
that nobody wrote, an access outside its buffer, a counter left standing) is an error.
"""

from loopir.interp.errors import (
    CounterError,
    DivisorError,
    InterpError,
    OutOfBoundsError,
    PoisonError,
    RaceError,
    RunawayError,
)
from loopir.interp.formats import STORAGE, is_value, rounded
from loopir.interp.inputs import random_inputs
from loopir.interp.launch import Result, all_schedules, run
from loopir.interp.schedule import Listed, Schedule, Seeded, explore, random_schedules
from loopir.interp.workspace import WorkspaceMemory

__all__ = [
    "STORAGE",
    "CounterError",
    "DivisorError",
    "InterpError",
    "Listed",
    "OutOfBoundsError",
    "PoisonError",
    "RaceError",
    "Result",
    "RunawayError",
    "Schedule",
    "Seeded",
    "WorkspaceMemory",
    "all_schedules",
    "explore",
    "is_value",
    "random_inputs",
    "random_schedules",
    "rounded",
    "run",
]
