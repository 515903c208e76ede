"""A timeline as a trace in JSON, for chrome://tracing and ui.perfetto.dev."""

import json
from collections.abc import Iterator
from typing import Any

from passes.decomposition.timeline import Event, EventKind, Timeline
from passes.drawing.rows import rows

UNITS, FOLDS = 1, 2  # process ids; zero means the idle process to Perfetto


def to_trace(timeline: Timeline, title: str = "") -> str:
    """One thread a unit, one event a line; a unit of time is a microsecond.

    An event is named after its tile, so that viewers colour it by tile; its category is the kind,
    its args are tile, k0 and k1. The folds of a reduction wave are threads of a process of their
    own. `title` names the process.
    """
    lines = (json.dumps(record) for record in _records(timeline, title or "stream-k"))
    events = ",\n".join(lines)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n'


def _records(timeline: Timeline, title: str) -> Iterator[dict[str, Any]]:
    units = len(timeline.events)
    yield _name("process_name", UNITS, 0, title)
    if timeline.reduction:
        yield _name("process_name", FOLDS, 0, f"{title}, reduction wave")
    for i, row in enumerate(rows(timeline)):
        process, thread = (UNITS, i + 1) if i < units else (FOLDS, i - units + 1)
        yield _name("thread_name", process, thread, row.label)
        yield _meta("thread_sort_index", process, thread, {"sort_index": i})
        for event in row.events:
            yield _event(event, process, thread)


def _event(event: Event, process: int, thread: int) -> dict[str, Any]:
    verb = "" if event.kind is EventKind.COMPUTE else f"{event.kind.value} "
    return {
        "ph": "X",
        "name": f"{verb}tile {event.tile}",
        "cat": event.kind.value,
        "pid": process,
        "tid": thread,
        "ts": _number(event.start),
        "dur": _number(event.end - event.start),
        "args": {"tile": event.tile, "k0": event.k0, "k1": event.k1},
    }


def _number(value: float) -> float:
    """Of equal numbers the same text: 2.0 is 2."""
    return int(value) if value == int(value) else value


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return _meta(what, process, thread, {"name": name})


def _meta(what: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}
