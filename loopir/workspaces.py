"""The workspaces of a program as parts of one stretch of device memory.

Counters come first, in a region of their own: they are zero between launches whatever the sizes of
those launches are, and no partial tile of one launch lies where a counter of the next one does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from loopir.nodes import Arrive, Program, Workspace
from loopir.symbols import Expr, ceildiv, evaluate, to_expr
from loopir.walk import walk_program

#: bytes: each part starts at a multiple of it
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
        """What a launch needs, over the names of the first kernel's header."""
        rooms = (ALIGNMENT * ceildiv(part_bytes(w), to_expr(ALIGNMENT)) for w in self.all)
        return sum(rooms, to_expr(0))

    def bytes_at(self, env: Mapping[str, int]) -> int:
        """`total_bytes` where names have the values of `env`. KeyError: one has none.
        ZeroDivisionError: a zero divisor. ValueError: a workspace of negative size."""
        for workspace in self.all:
            if (size := evaluate(part_bytes(workspace), env)) < 0:
                raise ValueError(f"{workspace.name}: expected at least 0 bytes, got {size}")
        return evaluate(self.total_bytes, env)


def parts_of(program: Program) -> Parts:
    """A workspace that an `arrive` names holds counters."""
    arrivals = (s.counter.buffer for _, s in walk_program(program) if isinstance(s, Arrive))
    counting = frozenset(arrivals)
    return Parts(
        tuple(w for w in program.workspaces if w.name in counting),
        tuple(w for w in program.workspaces if w.name not in counting),
    )


def part_bytes(workspace: Workspace) -> Expr:
    """The bytes of one part, without padding."""
    return workspace.dtype.bytes * sympy.Mul(*workspace.shape)
