"""A logarithmic axis, and what both charts share: width, heads, texts that fit."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log

from passes.drawing import shapes
from passes.drawing.shapes import CHARACTER

WIDTH, MARGIN = 900, 24
GRID, GREY = "#e2e2e2", "#6e6e6e"
#: parts of a decade, the finest first
_PARTS = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7),
    (1, 2, 5),
    (1,),
)


@dataclass(frozen=True)
class LogAxis:
    """Values from `low` to `high`, both above 0, at coordinates from `start` to `end`. `gap`: least
    pixels between two ticks."""

    low: float
    high: float
    start: float
    end: float
    gap: float

    @classmethod
    def around(
        cls, values: Iterable[float], start: float, end: float, pad: float, gap: float = 44
    ) -> "LogAxis":
        """One that has all values, and a factor of `pad` beyond them."""
        found = list(values)
        return cls(min(found) / pad, max(found) * pad, start, end, gap)

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        return self.start + (self.end - self.start) * log(value / self.low) / self._span

    @property
    def _span(self) -> float:
        return log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Round values, as many as there is room for."""
        return next((found for found in self._choices() if self._is_wide(found)), [])

    def _choices(self) -> Iterator[list[float]]:
        first, last = floor(log(self.low, 10)), ceil(log(self.high, 10))
        powers = range(first, last + 1)
        yield from (self._inside(part * 10.0**p for p in powers for part in s) for s in _PARTS)
        for step in (2, 5, 10, 20, 50, 100):
            yield self._inside(10.0**p for p in powers if p % step == 0)

    def _inside(self, values: Iterable[float]) -> list[float]:
        slack = 1e-9
        return [v for v in values if self.low * (1 - slack) <= v <= self.high * (1 + slack)]

    def _is_wide(self, values: list[float]) -> bool:
        places = sorted(map(self, values))
        return all(b - a >= self.gap for a, b in pairwise(places))


def head(top: float, lines: Iterable[str]) -> Iterator[str]:
    """Lines of text, the first one bold, 18 pixels each."""
    for i, words in enumerate(lines):
        extra = f'fill="{GREY}"' if i else 'font-weight="bold"'
        yield shapes.text(MARGIN, top + 22 + 18 * i, fitted(words, WIDTH - 2 * MARGIN), extra)


def fitted(words: str, width: float) -> str:
    """As much of a text as a width holds."""
    most = int(width / CHARACTER)
    return words if len(words) <= most else f"{words[: most - 3]}..."
