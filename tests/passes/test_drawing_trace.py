"""The trace of a timeline: JSON in the trace event format, one thread a unit."""

import json
from itertools import groupby

import pytest

from passes.decomposition import StreamK, UnitCost, simulate
from passes.drawing import to_trace
from passes.drawing.rows import rows
from tests.support.drawings import SMALL, TIMELINES

KEYS = {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}


def records(text: str, phase: str) -> list[dict]:
    return [r for r in json.loads(text)["traceEvents"] if r["ph"] == phase]


@pytest.mark.parametrize("name", TIMELINES)
def test_every_unit_is_a_named_thread_with_its_events_in_order(name):
    text = to_trace(TIMELINES[name], "title")
    names = {(r["pid"], r["tid"]): r["args"]["name"]
             for r in records(text, "M") if r["name"] == "thread_name"}  # fmt: skip
    assert list(names.values()) == [row.label for row in rows(TIMELINES[name])]
    assert all(pid >= 1 and tid >= 1 for pid, tid in names)
    events = records(text, "X")
    threads = groupby(events, key=lambda r: (r["pid"], r["tid"]))
    assert [names[key] for key, _ in threads] == list(names.values())


@pytest.mark.parametrize("name", TIMELINES)
def test_an_event_has_its_time_and_tile_and_panels(name):
    events = records(to_trace(TIMELINES[name]), "X")
    wanted = [e for row in rows(TIMELINES[name]) for e in row.events]
    assert all(r.keys() == KEYS for r in events)
    assert [(r["cat"], r["ts"], r["args"]) for r in events] == [
        (e.kind.value, e.start, {"tile": e.tile, "k0": e.k0, "k1": e.k1}) for e in wanted
    ]
    assert [r["dur"] for r in events] == pytest.approx([e.end - e.start for e in wanted])


def test_events_are_named_after_their_tile_and_processes_after_the_title():
    text = to_trace(SMALL, 'a "title"')
    assert {"tile 1", "store tile 1", "load tile 1", "epilogue tile 1"} <= {
        r["name"] for r in records(text, "X")
    }
    (process,) = (r for r in records(text, "M") if r["name"] == "process_name")
    assert process["args"] == {"name": 'a "title"'}


def test_folds_are_threads_of_a_process_of_their_own():
    text = to_trace(TIMELINES["folds"], "t")
    titles = {
        r["pid"]: r["args"]["name"] for r in records(text, "M") if r["name"] == "process_name"
    }
    assert titles == {1: "t", 2: "t, reduction wave"}
    assert {r["pid"] for r in records(text, "X") if r["cat"] == "load"} == {2}


def test_equal_timelines_have_the_same_bytes_whatever_type_their_costs_are():
    whole, real = (simulate(StreamK(5, 8, 4), UnitCost(1, n, n)) for n in (2, 2.0))
    assert to_trace(whole) == to_trace(real) == to_trace(SMALL)


def test_control_another_timeline_is_another_trace():
    assert to_trace(TIMELINES["atomic"]) != to_trace(SMALL)
