"""The buffers of a launch: which elements hold a value, and where accesses are noted."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from loopir.effects import buffers_written
from loopir.interp.arguments import Arrays, aliases, parameters
from loopir.interp.memory import Buffer
from loopir.nodes import Kernel, Program, Zeroed
from loopir.types import Direction
from loopir.walk import walk


def parameter_buffers(program: Program, arrays: Arrays) -> dict[str, Buffer]:
    """The parameters over their arrays. Outputs hold nothing yet, except aliased ones, which may
    hold an input."""
    aliased = {name for pair in aliases(program) for name in pair}
    buffers = {}
    for name, param in parameters(program).items():
        is_empty = param.direction is Direction.OUT and name not in aliased
        defined = np.zeros(arrays[name].shape, bool) if is_empty else None
        buffers[name] = Buffer(name, param.dtype, arrays[name], defined)
    return buffers


def fill_zeros(kernel: Kernel, buffers: Mapping[str, Buffer]) -> None:
    """Do what `requires zeroed(...)` asks of a launcher."""
    for need in kernel.requires:
        if isinstance(need, Zeroed):
            buffer = buffers[need.buffer]
            buffer.array[...] = 0
            if buffer.defined is not None:
                buffer.defined[...] = True


def with_shadows(
    program: Program, kernel: Kernel, buffers: Mapping[str, Buffer]
) -> dict[str, Buffer]:
    """The buffers, those that the kernel writes with a history for each element; buffers that share
    storage share histories."""
    written = {name for _, stmt in walk(kernel.body) for name in buffers_written(stmt)}
    shadows: dict[str, np.ndarray] = {}
    for group in _groups(program, buffers):
        if not written.isdisjoint(group):
            shadows |= _shadows({name: buffers[name].array for name in group})
    return {name: replace(b, shadow=shadows.get(name)) for name, b in buffers.items()}


def _groups(program: Program, buffers: Mapping[str, Buffer]) -> list[set[str]]:
    """Names of buffers whose arrays share storage."""
    groups = [{name} for name in buffers]
    for a, b in map(sorted, aliases(program)):
        if np.may_share_memory(buffers[a].array, buffers[b].array):
            joined = {name for group in groups if group & {a, b} for name in group}
            groups = [group for group in groups if not group & joined] + [joined]
    return groups


def _shadows(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Zeros for each array, laid out so that elements in one place of memory have one number."""
    if len(arrays) == 1:
        return {name: np.zeros(a.shape, np.int32) for name, a in arrays.items()}
    bounds = [np.lib.array_utils.byte_bounds(a) for a in arrays.values()]
    low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
    size = next(iter(arrays.values())).itemsize
    base = np.zeros((high - low) // size, np.int32)
    return {name: _laid_out(base, a, (a.ctypes.data - low) // size) for name, a in arrays.items()}


def _laid_out(base: np.ndarray, array: np.ndarray, start: int) -> np.ndarray:
    strides = [s // array.itemsize * base.itemsize for s in array.strides]
    return np.lib.stride_tricks.as_strided(base[start:], array.shape, strides)
