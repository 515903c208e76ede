"""A timeline as SVG: self-contained, without scripts, the same bytes for the same timeline.

Split tiles have a colour each, whole tiles are grey. A store is a black bar, a load a white one, a
wait a dashed line, an epilogue dark grey. A browser tells of each bar what it is as a tooltip.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from passes.decomposition.timeline import Event, EventKind, Timeline
from passes.drawing import shapes
from passes.drawing.palette import tile_colour
from passes.drawing.rows import Row, describe, headline, round_step, rows, split_tiles
from passes.drawing.shapes import BLACK, CHARACTER, FONT, WHITE

WIDTH = 1000
LEFT, RIGHT, TOP, BOTTOM = 72, 28, 58, 78
ROOM_FOR_ROWS = 760
ROW_MOST, ROW_LEAST = 30, 6
WHOLE_TILE, EPILOGUE = "#c4c4c4", "#6e6e6e"
IDLE, GRID = "#f3f3f3", "#d5d5d5"
_LEGEND = (
    ("whole tile", WHOLE_TILE),
    ("split tile, a colour each", ""),
    ("store of a part", BLACK),
    ("load of a part", WHITE),
    ("wait", "wait"),
    ("epilogue", EPILOGUE),
    ("ideal end", "ideal"),
)


def to_svg(timeline: Timeline, title: str = "", *, time_unit: str = "panels") -> str:
    """The text of an SVG file: a row a unit, time from left to right, a legend below.

    `title`: any text, above the figures. `time_unit`: what one unit of the costs is.
    """
    return _Page(timeline, title, time_unit).text()


@dataclass(frozen=True)
class _Page:
    timeline: Timeline
    title: str
    time_unit: str

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return rows(self.timeline)

    @cached_property
    def split(self) -> frozenset[int]:
        return split_tiles(self.timeline)

    @cached_property
    def span(self) -> float:
        return max(self.timeline.makespan, self.timeline.ideal) or 1.0

    @cached_property
    def row_height(self) -> float:
        fair = ROOM_FOR_ROWS // max(1, len(self.rows))
        return max(ROW_LEAST, min(ROW_MOST, fair))

    @cached_property
    def gap(self) -> float:
        return 4 if self.row_height >= 16 else 1

    @property
    def bottom(self) -> float:
        return TOP + self.row_height * max(1, len(self.rows))

    @property
    def height(self) -> float:
        return self.bottom + BOTTOM

    def x(self, time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * time / self.span

    def text(self) -> str:
        return shapes.page(
            WIDTH,
            self.height,
            (
                *self._head(),
                shapes.rect(LEFT, TOP, WIDTH - LEFT - RIGHT, self.bottom - TOP, IDLE),
                *self._axis(),
                *(line for i, row in enumerate(self.rows) for line in self._row(i, row)),
                self._ideal(),
                *self._legend(),
            ),
        )

    def _head(self) -> Iterator[str]:
        if self.title:
            most = int((WIDTH - 2 * RIGHT) / CHARACTER)
            yield shapes.text(LEFT, 22, self.title[:most], 'font-weight="bold"')
        yield shapes.text(LEFT, 42, headline(self.timeline))

    def _axis(self) -> Iterator[str]:
        step = round_step(self.span / 12)
        for i in range(int(self.span / step + 1e-9) + 1):
            x = self.x(i * step)
            yield shapes.line(x, TOP, x, self.bottom, GRID)
            yield shapes.text(x, self.bottom + 15, f"{i * step:g}", 'text-anchor="middle"')
        middle, told = (LEFT + WIDTH - RIGHT) / 2, f"time in {self.time_unit}"
        yield shapes.text(middle, self.bottom + 33, told, 'text-anchor="middle"')

    def _row(self, index: int, row: Row) -> Iterator[str]:
        top = TOP + index * self.row_height
        every = -(-(FONT + 2) // int(self.row_height))
        if index % every == 0:
            anchor = 'text-anchor="end"'
            yield shapes.text(LEFT - 6, top + self.row_height / 2 + 0.36 * FONT, row.label, anchor)
        for event in row.events:
            yield from self._bar(row, event, top + self.gap / 2)

    def _bar(self, row: Row, event: Event, top: float) -> Iterator[str]:
        left, right = self.x(event.start), self.x(event.end)
        if event.kind in (EventKind.STORE, EventKind.LOAD):
            left = min(left, right - 1)  # a part that moves is seen at every scale
        height = self.row_height - self.gap
        told = f"{row.label}: {event.kind.value} {describe(event)}, time "
        told += f"{event.start:g}..{event.end:g}"
        title = shapes.tooltip(told)
        if event.kind is EventKind.WAIT:
            yield _wait(left, top, right - left, height, title)
        else:
            yield shapes.rect(left, top, right - left, height, *self._fill(event), title)
        yield from self._label(event, left, right, top + height / 2)

    def _fill(self, event: Event) -> tuple[str, bool]:
        """A colour, and whether the bar needs an outline."""
        match event.kind:
            case EventKind.STORE:
                return BLACK, False
            case EventKind.LOAD:
                return WHITE, True
            case EventKind.EPILOGUE:
                return EPILOGUE, False
            case _:
                return tile_colour(event.tile) if event.tile in self.split else WHOLE_TILE, False

    def _label(self, event: Event, left: float, right: float, middle: float) -> Iterator[str]:
        """The longest text that fits the bar, if one does."""
        texts = [event.kind.value]
        if event.kind is EventKind.COMPUTE:
            short = f"tile {event.tile}"
            texts = [f"{short}, panels {event.k0}..{event.k1}", short, str(event.tile)]
        if self.row_height < FONT + 6:
            return
        for text in texts:
            if len(text) * CHARACTER + 4 <= right - left:
                dark = event.kind in (EventKind.STORE, EventKind.EPILOGUE)
                extra = f'text-anchor="middle" fill="{WHITE if dark else BLACK}"'
                if event.kind is EventKind.WAIT:
                    middle -= FONT * 0.7
                yield shapes.text((left + right) / 2, middle + 0.36 * FONT, text, extra)
                return

    def _ideal(self) -> str:
        x = self.x(self.timeline.ideal)
        return shapes.line(x, TOP, x, self.bottom, BLACK, 'stroke-dasharray="5 3"')

    def _legend(self) -> Iterator[str]:
        x, y = float(LEFT), self.bottom + 48
        for text, fill in _LEGEND:
            yield from _swatch(x, y, fill)
            yield shapes.text(x + 26, y + 10, text)
            x += 26 + len(text) * CHARACTER + 14


def _swatch(x: float, y: float, fill: str) -> Iterator[str]:
    match fill:
        case "":
            yield from (shapes.rect(x + 7 * i, y, 7, 12, tile_colour(i)) for i in range(3))
        case "wait":
            yield _wait(x, y, 21, 12)
        case "ideal":
            yield shapes.line(x + 10, y, x + 10, y + 12, BLACK, 'stroke-dasharray="5 3"')
        case _:
            yield shapes.rect(x, y, 21, 12, fill, fill == WHITE)


def _wait(x: float, y: float, w: float, h: float, inner: str = "") -> str:
    """A dashed line at half height."""
    middle = shapes.line(x, y + h / 2, x + w, y + h / 2, BLACK, 'stroke-dasharray="2 2"')
    return f"<g>{inner}{middle}</g>"
