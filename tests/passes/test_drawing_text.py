"""The text form of a timeline: fits its columns, and tells when each unit does what."""

from string import ascii_lowercase, digits

import pytest

from passes.decomposition import EventKind, Timeline
from passes.drawing import to_text
from passes.drawing.rows import round_step, rows, split_tiles
from tests.support.drawings import LARGE, SMALL, TIMELINES

MARKS = {"store": ">", "load": "<", "wait": "~", "epilogue": "|"}


def body(text: str) -> list[str]:
    """The cells of each row, below the axis."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("one character")) + 2
    width = len(lines[start - 1]) - len(lines[start - 1].lstrip())
    return [line[width:] for line in lines[start:]]


def step_of(text: str) -> float:
    line = next(line for line in text.splitlines() if line.startswith("one character"))
    return float(line.split()[3])


def wanted_mark(timeline: Timeline, row: int, time: float) -> str:
    """What a unit does at a time, looked up in its events."""
    for e in rows(timeline)[row].events:
        if e.start <= time < e.end:
            if e.kind is not EventKind.COMPUTE:
                return MARKS[e.kind.value]
            return (digits + ascii_lowercase)[e.tile] if e.tile in split_tiles(timeline) else "="
    return "."


def test_five_tiles_on_four_units():
    assert body(to_text(SMALL)) == [
        "=" * 40 + "|" * 10 + "1" * 10 + "<" * 10 + "|" * 10,
        "1" * 30 + ">" * 10 + "2" * 20 + "<" * 10 + "|" * 10,
        "2" * 20 + ">" * 10 + "3" * 30 + "<" * 10 + "|" * 10,
        "3" * 10 + ">" * 10 + "=" * 40 + "|" * 10 + "." * 10,
    ]


@pytest.mark.parametrize(
    "name", ["5 on 4", "waits", "folds", "atomic", "waves", "hybrid", "k-aligned"]
)
def test_a_character_is_what_the_unit_does_in_the_middle_of_its_slice(name):
    timeline = TIMELINES[name]
    text = to_text(timeline)
    step = step_of(text)
    for row, cells in enumerate(body(text)):
        middles = ((i + 0.5) * step for i in range(len(cells)))
        assert cells == "".join(wanted_mark(timeline, row, t) for t in middles)


@pytest.mark.parametrize("columns", [60, 80, 100, 143])
@pytest.mark.parametrize("name", TIMELINES)
def test_no_line_is_longer_than_the_columns(name, columns):
    text = to_text(TIMELINES[name], "t" * 300, columns=columns)
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert len(body(text)) == len(rows(TIMELINES[name]))
    assert text.isascii()


@pytest.mark.parametrize("name", ["144 on 132", "waits", "atomic", "uneven cost"])
def test_every_store_and_load_has_a_mark(name):
    timeline = TIMELINES[name]
    for row, cells in zip(rows(timeline), body(to_text(timeline)), strict=True):
        kinds = {e.kind for e in row.events}
        assert (EventKind.STORE in kinds) == (">" in cells)
        assert (EventKind.LOAD in kinds) == ("<" in cells)


def test_a_store_much_shorter_than_a_character_is_still_marked():
    text = to_text(TIMELINES["long"])
    assert step_of(text) > 2 * 2  # twice the cost of a store
    assert all(">" in row for row in body(text)[1:])


def test_neighbouring_split_tiles_have_other_characters():
    split = split_tiles(LARGE)
    for row, cells in zip(rows(LARGE), body(to_text(LARGE)), strict=True):
        tiles = {e.tile for e in row.events} & split
        assert len({c for c in cells if c.isalnum()}) == len(tiles) <= 2


def test_the_axis_names_the_time_of_every_tenth_character():
    text = to_text(LARGE, time_unit="us")
    axis = text.splitlines()[-len(LARGE.events) - 1]
    assert "one character is 1 us of time" in text
    margin = len("unit 131") + 2
    for time in range(0, 76, 10):
        assert axis[margin + time :].startswith(str(time))


def test_the_figures_are_above():
    head = to_text(LARGE, "a title").splitlines()[:4]
    assert head == [
        "a title",
        "144 tiles, 120 of them split",
        "132 units on 132 places",
        "makespan 76, ideal 72",
    ]


def test_control_another_timeline_is_another_text():
    assert body(to_text(TIMELINES["atomic"])) != body(to_text(SMALL))


def test_steps_are_round_and_no_smaller_than_asked():
    asked = [0.0, 0.1, 0.11, 0.2, 0.3, 0.84, 1, 1.01, 4, 5, 6, 99, 100]
    steps = [1, 0.1, 0.2, 0.2, 0.5, 1, 1, 2, 5, 5, 10, 100, 100]
    assert [round_step(a) for a in asked] == pytest.approx(steps)


@pytest.mark.parametrize("columns", [59, 0, True, 80.0])
def test_too_few_columns_are_refused_by_name(columns):
    with pytest.raises(ValueError, match=r"^columns: an int >= 60"):
        to_text(SMALL, columns=columns)
