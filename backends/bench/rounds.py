"""In which order the arms of a shape take their turns."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
LEAST_ROUNDS = 6  # fewer have no 95 % interval


def turns(arms: Sequence[_T], rounds: int) -> Iterator[tuple[_T, ...]]:
    """The arms of each round: every one once, rotated by one from round to round, so that each
    follows each place; in the second half of the rounds backwards, so that each is also followed
    by the one that it followed."""
    for r in range(rounds):
        start = r % len(arms) if arms else 0
        turn = (*arms[start:], *arms[:start])
        yield turn if r < rounds // 2 else turn[::-1]


def fitting(rounds: int, seconds: float, round_seconds: float) -> int:
    """How many of `rounds` there is time for: known before the first, so that both halves are as
    long; never fewer than LEAST_ROUNDS of what was asked."""
    if rounds * round_seconds <= seconds:
        return rounds
    return max(min(rounds, LEAST_ROUNDS), int(seconds / round_seconds))
