"""The workspaces of a program as parts of one stretch of device memory.

Counters come first, in a region of their own: they are zero between launches whatever the sizes of
those launches are, and no partial tile of one launch lies where a counter of the next one does.
"""

from dataclasses import dataclass

import sympy

from loopir.nodes import Arrive, Program, Workspace
from loopir.symbols import Expr, ceildiv, to_expr
from loopir.walk import walk_program

ALIGNMENT = 256


@dataclass(frozen=True)
class Parts:
    """Counters and the other workspaces, each in the order of the program."""

    counters: tuple[Workspace, ...]
    tiles: tuple[Workspace, ...]

    @property
    def sides(self) -> tuple[tuple[Workspace, ...], tuple[Workspace, ...]]:
        return self.counters, self.tiles

    @property
    def all(self) -> tuple[Workspace, ...]:
        return (*self.counters, *self.tiles)

    @property
    def total_bytes(self) -> Expr:
        """What a launch needs, over the names of the first kernel's header: each part starts at a
        multiple of ALIGNMENT bytes."""
        rooms = (ALIGNMENT * ceildiv(part_bytes(w), to_expr(ALIGNMENT)) for w in self.all)
        return sum(rooms, to_expr(0))


def parts_of(program: Program) -> Parts:
    """A workspace that an `arrive` names holds counters."""
    arrivals = (s.counter.buffer for _, s in walk_program(program) if isinstance(s, Arrive))
    counting = frozenset(arrivals)
    return Parts(
        tuple(w for w in program.workspaces if w.name in counting),
        tuple(w for w in program.workspaces if w.name not in counting),
    )


def part_bytes(workspace: Workspace) -> Expr:
    return workspace.dtype.bytes * sympy.Mul(*workspace.shape)
