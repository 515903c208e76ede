"""Workspaces: memory that outlives a launch."""

import numpy as np

from loopir.interp.formats import STORAGE
from loopir.interp.memory import Buffer
from loopir.nodes import Arrive, Program, Workspace
from loopir.types import DType
from loopir.walk import walk_program

POISON = 7  # of integers; floats are NaN


class WorkspaceMemory:
    """The workspaces of one program between its launches.

    Partial tiles start poisoned: NaN, or 7, and a read of what was never written is an error. A
    workspace that an `arrive` names holds counters, which start at zero. A workspace whose sizes
    change from one launch to the next starts anew, and all do after a launch that raised.
    """

    def __init__(self):
        self._buffers: dict[str, Buffer] = {}

    def buffer(self, workspace: Workspace, shape: tuple[int, ...], is_counter: bool) -> Buffer:
        held = self._buffers.get(workspace.name)
        if held and (held.dtype, held.array.shape) == (workspace.dtype, shape):
            return held
        array = poisoned(shape, workspace.dtype)
        defined = None if is_counter else np.zeros(shape, bool)
        if is_counter:
            array[...] = 0
        self._buffers[workspace.name] = Buffer(workspace.name, workspace.dtype, array, defined)
        return self._buffers[workspace.name]

    def array(self, name: str) -> np.ndarray:
        """What a workspace holds now. KeyError: no launch has made it."""
        return self._buffers[name].array

    def drop(self) -> None:
        self._buffers.clear()


def counters(program: Program) -> frozenset[str]:
    """The workspaces that an `arrive` counts in."""
    statements = (s for _, s in walk_program(program))
    return frozenset(s.counter.buffer for s in statements if isinstance(s, Arrive))


def poisoned(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """NaN, or 7 where the type has none (True of bool)."""
    return np.full(shape, np.nan if dtype.is_float else POISON, STORAGE[dtype])
