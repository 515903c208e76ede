"""The ratio of every shape, with its interval, set by set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from backends.bench.arms import Group
from backends.bench.charts.axis import GREY, GRID, MARGIN, WIDTH, LogAxis, fitted, head
from backends.bench.report import mean_text, ratio_text
from backends.bench.results import Result
from backends.bench.stats import Ratio, Verdict, geometric_mean
from passes.drawing import shapes
from passes.drawing.shapes import BLACK, CHARACTER, FONT, WHITE

COLOURS = {Verdict.WIN: "#1b7f4d", Verdict.TIE: "#7d7d7d", Verdict.LOSS: "#c2452d"}
PEER_NAMES = {
    Group.BLAS: "cuBLAS",
    Group.INDUCTOR: "Inductor",
    Group.DATA_PARALLEL: "the best data-parallel kernel",
    Group.SWEEP: "the best of the sweep",
}
_LEGEND = {
    Verdict.WIN: "faster",
    Verdict.TIE: "tie: 1 is inside the interval",
    Verdict.LOSS: "slower",
}
_LEFT, _RIGHT = 150, WIDTH - 190
_HEAD, _HEADING, _ROW, _FOOT, _GAP = 76, 26, 15, 78, 12
_DASHED = 'stroke-dasharray="4 3"'


@dataclass(frozen=True)
class RatioChart:
    """`sets`: of each set the results that stand for its shapes, all with a ratio to `against`.
    `lines`: above it. `top`: where on the page it begins."""

    sets: Mapping[str, Sequence[Result]]
    against: Group
    lines: Sequence[str]
    top: float = 0

    @property
    def height(self) -> float:
        rows = sum(map(len, self.sets.values()))
        return _HEAD + _HEADING * len(self.sets) + _ROW * rows + _FOOT

    @property
    def _bottom(self) -> float:
        return self.top + self.height - _FOOT

    @cached_property
    def _axis(self) -> LogAxis:
        ratios = [self._ratio(r) for found in self.sets.values() for r in found]
        ends = (end for ratio in ratios for end in (ratio.low, ratio.high))
        return LogAxis.around((0.95, 1.05, *ends), _LEFT, _RIGHT, pad=1.02)

    def _ratio(self, result: Result) -> Ratio:
        return result.ratios[self.against]

    def body(self) -> Iterator[str]:
        """The elements of the chart."""
        yield from head(self.top, self.lines)
        yield from self._grid()
        y = self.top + _HEAD
        for name, found in self.sets.items():
            yield from self._set(name, found, y)
            y += _HEADING + _ROW * len(found)
        yield from self._foot()

    def _grid(self) -> Iterator[str]:
        top = self.top + _HEAD
        for tick in self._axis.ticks():
            x = self._axis(tick)
            yield shapes.line(x, top, x, self._bottom, GRID)
            for y in (top - 6, self._bottom + 15):
                yield shapes.text(x, y, f"{tick:g}", 'text-anchor="middle"')
        x = self._axis(1)
        yield shapes.line(x, top, x, self._bottom, BLACK)

    def _set(self, name: str, found: Sequence[Result], y: float) -> Iterator[str]:
        ratios = [self._ratio(r) for r in found]
        words = fitted(f"{name}: {mean_text(ratios)}", WIDTH - 2 * MARGIN)
        yield shapes.rect(0, y + 4, WIDTH, _HEADING - 8, WHITE)
        yield shapes.text(MARGIN, y + 17, words, 'font-weight="bold"')
        x, top = self._axis(geometric_mean(ratios).value), y + _HEADING
        yield shapes.line(x, top, x, top + _ROW * len(found), GREY, _DASHED)
        for i, result in enumerate(found):
            yield from self._row(result, top + _ROW * (i + 0.5))

    def _row(self, result: Result, y: float) -> Iterator[str]:
        ratio, label = self._ratio(result), result.case.sizes_text
        colour, figures = COLOURS[ratio.verdict], ratio_text(ratio)
        low, high, base = self._axis(ratio.low), self._axis(ratio.high), y + 0.36 * FONT
        name = fitted(label, _LEFT - MARGIN - _GAP)
        yield shapes.text(_LEFT - _GAP, base, name, 'text-anchor="end"')
        yield shapes.text(_RIGHT + _GAP, base, fitted(figures, WIDTH - _RIGHT - _GAP))
        yield shapes.line(low, y, high, y, colour, 'stroke-width="2"')
        tip = shapes.tooltip(f"{label}: {figures}, {result.us:.2f} us, {result.arm.config or ''}")
        yield shapes.circle(self._axis(ratio.value), y, 3.5, colour, inner=tip)

    def _foot(self) -> Iterator[str]:
        x, y = float(MARGIN), self._bottom + 44
        name = PEER_NAMES[self.against]
        words = f"time of {name} / ours: the median of the rounds and its 95 % interval"
        yield shapes.text(x, y, words, f'fill="{GREY}"')
        for verdict, text in _LEGEND.items():
            yield shapes.circle(x + 4, y + 16, 3.5, COLOURS[verdict])
            yield shapes.text(x + 14, y + 20, text)
            x += 30 + len(text) * CHARACTER
