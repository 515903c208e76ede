"""Global memory as the blocks of a launch see it.

A block's plain stores are pending, visible to itself alone, until it arrives somewhere or ends. An
atomic acts at once, on the element that its own block would read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from loopir.interp.errors import CounterError, PoisonError, RaceError
from loopir.interp.formats import STORAGE
from loopir.interp.races import Clock, Histories, Use
from loopir.interp.regions import Index, Region, coordinates
from loopir.interp.tiles import combine
from loopir.types import DType, ReduceOp


@dataclass
class Buffer:
    """A parameter or a workspace. `defined`: which elements hold a value, None where all do.
    `shadow`: the history of each element, None where no statement of the launch writes any."""

    name: str
    dtype: DType
    array: np.ndarray
    defined: np.ndarray | None = None
    shadow: np.ndarray | None = None


@dataclass(frozen=True)
class _PendingStore:
    buffer: Buffer
    index: Index
    values: np.ndarray


@dataclass
class View:
    """One block's view of memory: its clock, and its stores that others cannot see yet."""

    clock: Clock
    pending: list[_PendingStore] = field(default_factory=list)

    def publish(self) -> None:
        for store in self.pending:
            store.buffer.array[store.index] = store.values
        self.pending.clear()


class Memory:
    """The buffers of a launch by name, and what its blocks do to them."""

    def __init__(self, buffers: dict[str, Buffer]):
        self.buffers = buffers
        self._histories = Histories()
        self._counter_clocks: dict[tuple[str, tuple[int, ...]], dict[int, int]] = {}

    def load(self, view: View, name: str, index: Index) -> np.ndarray:
        """Values, of the storage type of the buffer's dtype. PoisonError, RaceError."""
        buffer = self.buffers[name]
        self._check(view, buffer, index, Use.READ)
        with _own_stores(view, buffer):
            return buffer.array[index].astype(STORAGE[buffer.dtype])

    def store(self, view: View, name: str, region: Region, values: np.ndarray) -> None:
        """RaceError: another block's access, or two values for one element."""
        buffer = self.buffers[name]
        self._touch(view, buffer, region.index, Use.STORE)
        if not region.distinct:
            _refuse_two_values(buffer, region.index, values)
        view.pending.append(_PendingStore(buffer, region.index, values.copy()))
        if buffer.defined is not None:
            buffer.defined[region.index] = True

    def atomic(
        self, view: View, op: ReduceOp, name: str, region: Region, values: np.ndarray
    ) -> None:
        """One read-modify-write an element. PoisonError, RaceError."""
        buffer = self.buffers[name]
        self._check(view, buffer, region.index, Use.ATOMIC)
        if any(store.buffer.array is buffer.array for store in view.pending):
            view.publish()
        for index, chosen in _distinct_parts(region, values, buffer.array.shape):
            old = buffer.array[index].astype(STORAGE[buffer.dtype])
            buffer.array[index] = combine(op, old, chosen, buffer.dtype)

    def arrive(self, view: View, name: str, index: Index, expected: int) -> bool:
        """Publish, count, and learn of earlier arrivals; the last sets the counter to zero."""
        buffer = self.buffers[name]
        self._check(view, buffer, index, Use.ATOMIC)
        view.publish()
        key = (name, tuple(i.start for i in index))
        view.clock.meet(self._counter_clocks.setdefault(key, {}))
        buffer.array[index] += 1
        is_last = bool(buffer.array[index] == expected)
        if is_last:
            buffer.array[index] = 0
            self._counter_clocks.pop(key)
        return is_last

    def _check(self, view: View, buffer: Buffer, index: Index, use: Use) -> None:
        self._touch(view, buffer, index, use)
        if buffer.defined is None:
            return
        defined = buffer.defined[index]
        if not defined.all():
            where = coordinates(index, tuple(np.argwhere(~defined)[0]))
            raise PoisonError(f"{buffer.name}{where} is {use.value}, and nothing has written it")

    def _touch(self, view: View, buffer: Buffer, index: Index, use: Use) -> None:
        if buffer.shadow is not None:
            self._histories.touch(buffer.shadow, index, use, view.clock, buffer.name)


def check_counter(buffer: Buffer) -> None:
    """CounterError unless every element is zero."""
    left = np.argwhere(buffer.array != 0)
    if len(left):
        where = tuple(map(int, left[0]))
        found = buffer.array[where]
        raise CounterError(f"{buffer.name}{list(where)} is {found} after the launch, not zero")


@contextmanager
def _own_stores(view: View, buffer: Buffer) -> Iterator[None]:
    """Put the block's pending stores into memory for a moment."""
    saved = []
    for store in view.pending:
        if np.may_share_memory(store.buffer.array, buffer.array):
            saved.append((store, store.buffer.array[store.index].copy()))
            store.buffer.array[store.index] = store.values
    yield
    for store, values in reversed(saved):
        store.buffer.array[store.index] = values


def _flat(index: Index, shape: tuple[int, ...]) -> np.ndarray:
    arrays = np.broadcast_arrays(*index)
    return np.ravel_multi_index([a.ravel() for a in arrays], shape)


def _refuse_two_values(buffer: Buffer, index: Index, values: np.ndarray) -> None:
    flat, values = _flat(index, buffer.array.shape), values.ravel()
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    kept = values[first][inverse]
    differs = (kept != values) & ~((kept != kept) & (values != values))
    if differs.any():
        where = np.unravel_index(flat[np.argmax(differs)], buffer.array.shape)
        element = f"{buffer.name}{[int(i) for i in where]}"
        raise RaceError(f"one store writes {element} twice, with different values")


def _distinct_parts(
    region: Region, values: np.ndarray, shape: tuple[int, ...]
) -> Iterator[tuple[Index, np.ndarray]]:
    """`region.index` and `values` in parts, none of which has an element twice."""
    if region.distinct:
        yield region.index, values
        return
    flat, values = _flat(region.index, shape), values.ravel()
    while flat.size:
        _, first = np.unique(flat, return_index=True)
        yield np.unravel_index(flat[first], shape), values[first]
        flat, values = np.delete(flat, first), np.delete(values, first)
