"""A timeline as text for a terminal: units down, time across, a character a slice of time."""

from string import ascii_lowercase, ascii_uppercase, digits

from passes.decomposition.arithmetic import check_size
from passes.decomposition.timeline import Event, EventKind, Timeline
from passes.drawing.rows import FIXUP, Row, headline, round_step, rows, split_tiles, step_count

TILES = digits + ascii_lowercase + ascii_uppercase
WHOLE, IDLE = "=", "."
MARKS = {
    EventKind.STORE: ">",
    EventKind.WAIT: "~",
    EventKind.LOAD: "<",
    EventKind.EPILOGUE: "|",
}
LEAST_COLUMNS = 60
_TICK = 10  # columns


def to_text(
    timeline: Timeline, title: str = "", *, columns: int = 100, time_unit: str = "panels"
) -> str:
    """`timeline` in lines of at most `columns` characters, at least 60 of them.

    A slice of time shows what the unit does for most of it; but a store or a load has a character
    at least, if need be in place of another. A split tile is shown by its number, 0-9a-zA-Z modulo
    62, a whole one as `=`. `title` is the first line, cut where it is too long. `time_unit`: what
    one unit of the costs is. ValueError: too few columns.
    """
    check_size("columns", columns, LEAST_COLUMNS)
    drawn = rows(timeline)
    margin = max((len(row.label) for row in drawn), default=0) + 2
    span = max(timeline.makespan, 0)
    step = round_step(span / (columns - margin))
    count = step_count(span, step)
    split = split_tiles(timeline)
    lines = [
        *([title] if title else []),
        *headline(timeline).split("; "),
        "0-9a-zA-Z split tile (modulo 62)  = whole tile  | epilogue",
        "> store  < load  ~ wait  . idle",
        f"one character is {step:g} {time_unit} of time",
        " " * margin + _axis(count, step),
        *(f"{row.label:>{margin - 2}}  {_cells(row, count, step, split)}" for row in drawn),
    ]
    return "\n".join(line[:columns] for line in lines) + "\n"


def _axis(count: int, step: float) -> str:
    ticks = (f"{i * step:g}".ljust(_TICK) for i in range(0, count, _TICK))
    return "".join(ticks)[: max(count, 1)].rstrip()


def _cells(row: Row, count: int, step: float, split: frozenset[int]) -> str:
    cells, longest = [IDLE] * count, [step * 1e-9] * count
    drawn: set[Event] = set()
    shown: list[Event | None] = [None] * count
    for event in row.events:
        for i in _slices(event, count, step):
            share = min(event.end, (i + 1) * step) - max(event.start, i * step)
            if share > longest[i] * (1 + 1e-9):
                longest[i], shown[i] = share, event
    drawn.update(e for e in shown if e is not None)
    for event in row.events:
        if event.kind in FIXUP - {EventKind.WAIT} and event not in drawn:
            shown[_slices(event, count, step)[0]] = event
    for i, event in enumerate(shown):
        cells[i] = IDLE if event is None else _mark(event, split)
    return "".join(cells)


def _slices(event: Event, count: int, step: float) -> range:
    """The slices of time that an event touches, one at least."""
    first = min(int(event.start / step + 1e-9), count - 1)
    return range(first, max(first + 1, min(step_count(event.end, step), count)))


def _mark(event: Event, split: frozenset[int]) -> str:
    if event.kind is EventKind.COMPUTE:
        return TILES[event.tile % len(TILES)] if event.tile in split else WHOLE
    return MARKS[event.kind]
