"""In which order the blocks of a launch move on, and every order that there is.

A block moves from one pause to the next: before an atomic, before an arrive, before its last stores
become visible. What it does up to its first pause is private to it, unless it races, which is
reported in any order; so a block runs up to there when it becomes resident, without a choice.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from loopir.interp.errors import RunawayError

T = TypeVar("T")


class Schedule(Protocol):
    """Picks which of several blocks moves next; `str` says how to repeat it."""

    def choose(self, count: int) -> int:
        """A number in [0, count), count >= 1."""
        ...


class Seeded:
    """Picks at random; the same seed picks the same."""

    def __init__(self, seed: int):
        self._seed, self._random = seed, random.Random(seed)

    def choose(self, count: int) -> int:
        return self._random.randrange(count)

    def __str__(self) -> str:
        return f"Seeded({self._seed})"


class Listed:
    """Takes given choices, then always the first block; `Listed()` runs block after block."""

    def __init__(self, choices: Sequence[int] = ()):
        self._choices = list(choices)
        self._counts: list[int] = []

    def choose(self, count: int) -> int:
        self._counts.append(count)
        if len(self._counts) > len(self._choices):
            self._choices.append(0)
        return self._choices[len(self._counts) - 1]

    def following(self) -> "Listed | None":
        """The schedule after this one, which has run, in lexicographic order."""
        choices = list(self._choices)
        for count in reversed(self._counts):
            last = choices.pop() + 1
            if last < count:
                return Listed([*choices, last])
        return None

    def __str__(self) -> str:
        return f"Listed({self._choices})"


def random_schedules(count: int, seed: int = 0) -> Iterator[Seeded]:
    """`count` seeded schedules, the same ones for the same `seed`."""
    return (Seeded(seed + i) for i in range(count))


def explore(run: Callable[[Schedule], T], limit: int = 10_000) -> Iterator[T]:
    """`run` under every schedule, depth first. RunawayError: there are more than `limit`."""
    schedule: Listed | None = Listed()
    for _ in range(limit):
        yield run(schedule)
        schedule = schedule.following()
        if schedule is None:
            return
    raise RunawayError(f"more than {limit} schedules")


def interleave(
    blocks: Iterator[Iterator[None]], schedule: Schedule, resident: int | None = None
) -> None:
    """Run blocks to their ends, at most `resident` of them under way at a time (None: all)."""
    running: list[Iterator[None]] = []
    while True:
        while resident is None or len(running) < resident:
            block = next(blocks, None)
            if block is None:
                break
            if _moves(block):
                running.append(block)
        if not running:
            return
        chosen = schedule.choose(len(running)) if len(running) > 1 else 0
        if not _moves(running[chosen]):
            running.pop(chosen)


def _moves(block: Iterator[None]) -> bool:
    """Whether a block reaches another pause, rather than its end."""
    return next(block, block) is None
