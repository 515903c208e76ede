"""Which accesses of different blocks an `arrive` orders, and which race.

Blocks carry vector clocks. A block's epoch grows at each of its arrivals; an arrival publishes the
epochs that the block knows of to later arrivals at the same counter (acquire-release). Relaxed
atomics order nothing. What has happened to an element is one small number of a shadow array,
an index into a table of histories, since whole tiles share one history. A race is found in every
schedule in which the two accesses happen, in whichever order they do.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import numpy as np

from loopir.interp.errors import RaceError
from loopir.interp.regions import Index, coordinates

Stamp: TypeAlias = tuple[int, int]  # block, epoch


class Use(Enum):
    """How an access touches an element; the value is its form in a message."""

    READ = "read"
    STORE = "stored"
    ATOMIC = "changed atomically"


@dataclass
class Clock:
    """What `block` knows of the others: epochs up to `seen[other]` come before its next access."""

    block: int
    epoch: int = 0
    seen: dict[int, int] = field(default_factory=dict)

    def follows(self, stamp: Stamp) -> bool:
        block, epoch = stamp
        return block == self.block or self.seen.get(block, -1) >= epoch

    def meet(self, counter: dict[int, int]) -> None:
        """Acquire from and release to the clock of a counter."""
        for block, epoch in {**counter, self.block: self.epoch}.items():
            self.seen[block] = max(epoch, self.seen.get(block, -1))
        counter.update(self.seen)
        self.epoch += 1


@dataclass(frozen=True)
class _History:
    """The accesses to an element that a later one could race with."""

    stores: frozenset[Stamp] = frozenset()
    atomics: frozenset[Stamp] = frozenset()
    reads: frozenset[Stamp] = frozenset()

    def conflict(self, use: Use, clock: Clock) -> tuple[Use, int] | None:
        """An access of another block, and its block, that `clock` does not follow."""
        pairs = ((Use.STORE, self.stores), (Use.ATOMIC, self.atomics), (Use.READ, self.reads))
        for other, stamps in pairs:
            if use is other and use is not Use.STORE:
                continue
            loose = [s for s in stamps if not clock.follows(s)]
            if loose:
                return other, min(loose)[0]
        return None

    def after(self, use: Use, clock: Clock) -> "_History":
        stamp = (clock.block, clock.epoch)
        match use:
            case Use.STORE:
                return _History(stores=frozenset((stamp,)))
            case Use.ATOMIC:
                return _History(self.stores, _latest(self.atomics, stamp), self.reads)
            case Use.READ:
                return _History(self.stores, self.atomics, _latest(self.reads, stamp))


def _latest(stamps: frozenset[Stamp], stamp: Stamp) -> frozenset[Stamp]:
    return frozenset(s for s in stamps if s[0] != stamp[0]) | {stamp}


class Histories:
    """The table of histories of one launch; number 0 is the empty one."""

    def __init__(self):
        self._table = [_History()]
        self._numbers = {self._table[0]: 0}
        self._next: dict[tuple[int, Use, int, int], int] = {}

    def touch(self, shadow: np.ndarray, index: Index, use: Use, clock: Clock, name: str) -> None:
        """Note an access to `shadow[index]`. RaceError: another block's access races with it."""
        old = shadow[index]
        if not old.size:
            return
        first = int(old.flat[0])
        if (old == first).all():
            shadow[index] = self._following(first, use, clock, name, index, old)
            return
        unique, inverse = np.unique(old, return_inverse=True)
        new = [self._following(int(n), use, clock, name, index, old) for n in unique]
        shadow[index] = np.array(new, shadow.dtype)[inverse].reshape(old.shape)

    def _following(
        self, number: int, use: Use, clock: Clock, name: str, index: Index, old: np.ndarray
    ) -> int:
        key = (number, use, clock.block, clock.epoch)
        if key in self._next:
            return self._next[key]
        history = self._table[number]
        conflict = history.conflict(use, clock)
        if conflict:
            where = coordinates(index, tuple(np.argwhere(old == number)[0]))
            raise RaceError(_race_text(f"{name}{where}", use, clock.block, *conflict))
        self._next[key] = self._number(history.after(use, clock))
        return self._next[key]

    def _number(self, history: _History) -> int:
        if history not in self._numbers:
            self._numbers[history] = len(self._table)
            self._table.append(history)
        return self._numbers[history]


def _race_text(element: str, use: Use, block: int, other: Use, other_block: int) -> str:
    return (
        f"{element} is {use.value} by block {block} and {other.value} by block {other_block}, "
        f"with no arrive between them"
    )
