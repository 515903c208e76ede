"""What each shape reached of what the device can do, by the flops that a byte of it is worth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from backends.bench.charts.axis import GREY, GRID, MARGIN, WIDTH, LogAxis, fitted, head
from backends.bench.results import Result
from passes.drawing import shapes
from passes.drawing.shapes import BLACK, CHARACTER, WHITE

#: of sets, in order: told apart by the colour-blind too (Okabe and Ito)
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
HEIGHT = 520
_LEFT, _RIGHT, _HEAD, _FOOT = 80, WIDTH - 30, 82, 74


@dataclass(frozen=True)
class Roof:
    """TFLOP/s that a device reaches at most, and TB/s of its memory."""

    name: str
    tflops: float
    tbps: float

    @property
    def ridge(self) -> float:
        """Flops a byte from which on products bind, not memory."""
        return self.tflops / self.tbps

    def at(self, intensity: float) -> float:
        return min(self.tflops, intensity * self.tbps)


@dataclass(frozen=True)
class Point:
    """A shape: what stands for it, and the fastest library, if there is one."""

    ours: Result
    library: Result | None = None

    @property
    def intensity(self) -> float:
        """Flops a byte that any way must move."""
        problem = self.ours.case.problem
        return problem.flops / problem.least_bytes

    @property
    def rates(self) -> list[float]:
        """TFLOP/s, ours first."""
        found = (self.ours, self.library)
        return [r.tflops for r in found if r is not None and r.tflops is not None]


@dataclass(frozen=True)
class RooflineChart:
    """`sets`: the points of each set. `lines`: above it. `top`: where on the page it begins."""

    sets: Mapping[str, Sequence[Point]]
    roofs: Sequence[Roof]
    lines: Sequence[str]
    top: float = 0

    @property
    def height(self) -> float:
        return HEIGHT

    @property
    def _ends(self) -> tuple[float, float]:
        return self.top + HEIGHT - _FOOT, self.top + _HEAD

    @cached_property
    def _points(self) -> list[Point]:
        return [point for points in self.sets.values() for point in points]

    @cached_property
    def _x(self) -> LogAxis:
        return LogAxis.around((p.intensity for p in self._points), _LEFT, _RIGHT, pad=1.4)

    @cached_property
    def _y(self) -> LogAxis:
        rates = [rate for point in self._points for rate in point.rates]
        roofs = [roof.at(x) for roof in self.roofs for x in (self._x.low, self._x.high)]
        return LogAxis.around((*rates, *roofs), *self._ends, pad=1.3, gap=24)

    def body(self) -> Iterator[str]:
        """The elements of the chart."""
        yield from head(self.top, self.lines)
        yield from self._grid()
        for roof in self.roofs:
            yield from self._roof(roof)
        for i, points in enumerate(self.sets.values()):
            for point in points:
                yield from self._point(point, COLOURS[i % len(COLOURS)])
        yield from self._foot()

    def _grid(self) -> Iterator[str]:
        bottom, top = self._ends
        for tick in self._x.ticks():
            x = self._x(tick)
            yield shapes.line(x, top, x, bottom, GRID)
            yield shapes.text(x, bottom + 15, f"{tick:g}", 'text-anchor="middle"')
        for tick in self._y.ticks():
            y = self._y(tick)
            yield shapes.line(_LEFT, y, _RIGHT, y, GRID)
            yield shapes.text(_LEFT - 8, y + 4, f"{tick:g}", 'text-anchor="end"')
        yield shapes.text(MARGIN, top - 10, "TFLOP/s")

    def _roof(self, roof: Roof) -> Iterator[str]:
        low, high = self._x.low, self._x.high
        ridge = min(max(roof.ridge, low), high)
        places = [(self._x(x), self._y(roof.at(x))) for x in (low, ridge, high)]
        for start, end in pairwise(places):
            yield shapes.line(*start, *end, BLACK)
        words = f"{roof.name}: {roof.tflops:g} TFLOP/s, {roof.tbps:g} TB/s"
        x, y = places[-1]
        yield shapes.text(x, y - 6, fitted(words, _RIGHT - _LEFT), 'text-anchor="end"')

    def _point(self, point: Point, colour: str) -> Iterator[str]:
        x, places = self._x(point.intensity), [self._y(rate) for rate in point.rates]
        tips = [shapes.tooltip(_told(r)) for r in (point.ours, point.library) if r is not None]
        if len(places) > 1:
            yield shapes.line(x, places[0], x, places[1], colour)
            yield shapes.circle(x, places[1], 3, WHITE, colour, tips[1])
        yield shapes.circle(x, places[0], 3.5, colour, inner=tips[0])

    def _foot(self) -> Iterator[str]:
        x, y = float(MARGIN), self._ends[0] + 56
        words = "flops a byte of A, B and C; filled: ours, hollow: the fastest of the libraries"
        yield shapes.text(_LEFT, y - 20, words, f'fill="{GREY}"')
        for i, name in enumerate(self.sets):
            text = fitted(name, 20 * CHARACTER)
            if x + len(text) * CHARACTER > WIDTH - MARGIN:
                return
            yield shapes.circle(x + 4, y - 4, 3.5, COLOURS[i % len(COLOURS)])
            yield shapes.text(x + 14, y, text)
            x += 30 + len(text) * CHARACTER


def _told(result: Result) -> str:
    name = result.arm.config or result.arm.name
    return f"{result.case.sizes_text}: {result.tflops:.1f} TFLOP/s, {result.us:.2f} us, {name}"
