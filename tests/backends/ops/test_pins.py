"""Pinned winners: what is read back, what is refused, and that a reader sees whole files."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from backends.planner import Config, Problem, choose, shipped
from backends.triton_codegen.ops import pins
from backends.triton_codegen.ops.devices import slug
from backends.triton_codegen.ops.pins import Pins, pin, pins_path, read_pins, write_whole
from tests.support.homes import unfindable_home

H200 = shipped()["NVIDIA H200"]
PROBLEM, TRITON = Problem(1536, 1536, 4096), "3.6.0"
WINNER = choose(PROBLEM)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    return tmp_path


def read() -> Pins:
    return read_pins(H200.name, TRITON)


def written(**changes) -> None:
    data = {
        "loopir_pins": 1,
        "device": H200.name,
        "triton": TRITON,
        "winners": {str(PROBLEM): str(WINNER)},
        **changes,
    }
    write_whole(pins_path(H200.name), json.dumps(data))


def test_a_winner_is_read_back():
    pin(H200.name, TRITON, PROBLEM, WINNER)
    assert read().config(PROBLEM, H200) == WINNER


def test_winners_add_up_and_replace():
    other = replace(PROBLEM, m=512)
    pin(H200.name, TRITON, PROBLEM, WINNER)
    pin(H200.name, TRITON, other, choose(other))
    pin(H200.name, TRITON, other, choose(other))
    assert set(read().winners) == {str(PROBLEM), str(other)}


def test_without_a_file_nothing_is_pinned():
    assert read().winners == {}
    assert read().config(PROBLEM, H200) is None


@pytest.mark.parametrize("changes", [{"triton": "3.5.0"}, {"device": "NVIDIA H100"}])
def test_pins_of_another_triton_or_device_are_left_alone(changes: dict[str, str]):
    written(**changes)
    assert read().winners == {}


def test_control_the_file_of_the_next_tests_is_read():
    written()
    assert read().config(PROBLEM, H200) == WINNER


HOSTILE = {
    "another version": {"loopir_pins": 2},
    "no version": {"loopir_pins": None},
    "more fields": {"evil": 1},
    "a list of winners": {"winners": []},
    "a winner that is no text": {"winners": {str(PROBLEM): {"kind": "gemm"}}},
    "a long text": {"winners": {str(PROBLEM): "x" * 501}},
    "text of two lines": {"winners": {str(PROBLEM): "gemm\n"}},
    "a device that is no text": {"device": 3},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_of_another_form_is_refused(name: str):
    written(**HOSTILE[name])
    with pytest.warns(UserWarning, match="refused"):
        assert read().winners == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00", '{"a":' * 9])
def test_text_that_is_no_json_is_refused(text: str):
    write_whole(pins_path(H200.name), text)
    with pytest.warns(UserWarning, match="refused"):
        assert read().winners == {}


def test_bytes_that_are_no_text_are_refused():
    pins_path(H200.name).parent.mkdir(parents=True)
    pins_path(H200.name).write_bytes(b"\xff\xfe")
    with pytest.warns(UserWarning, match="refused"):
        assert read().winners == {}


def test_a_large_file_is_refused_unread():
    write_whole(pins_path(H200.name), " " * ((1 << 22) + 1))
    with pytest.warns(UserWarning, match=r"refused, it has more than"):
        assert read().winners == {}


def test_a_pipe_is_refused_and_does_not_hang():
    pins_path(H200.name).parent.mkdir(parents=True)
    os.mkfifo(pins_path(H200.name))
    with pytest.warns(UserWarning, match="refused, it is no regular file"):
        assert read().winners == {}


def test_a_folder_in_the_place_of_the_file_is_refused():
    pins_path(H200.name).mkdir(parents=True)
    with pytest.warns(UserWarning, match="refused, it is no regular file"):
        assert read().winners == {}


NO_CANDIDATES = (
    "gemm 128x256x64 w8 s3: no-such-pass",
    "gemm 4096x4096x64 w8 s3",
    "gemm 16x16x16 w4 s2",
    "not a config",
)


@pytest.mark.parametrize("text", NO_CANDIDATES)
def test_what_the_planner_would_not_consider_is_not_used(text: str):
    written(winners={str(PROBLEM): text})
    with pytest.warns(UserWarning, match="refused"):
        assert read().config(PROBLEM, H200) is None


def test_a_refused_file_is_replaced_by_the_next_winner():
    write_whole(pins_path(H200.name), "{")
    with pytest.warns(UserWarning, match="refused"):
        pin(H200.name, TRITON, PROBLEM, WINNER)
    assert read().config(PROBLEM, H200) == WINNER


def test_the_oldest_winners_go_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pins, "_MOST_WINNERS", 2)
    problems = [replace(PROBLEM, m=m) for m in (256, 512, 768)]
    for problem in problems:
        pin(H200.name, TRITON, problem, WINNER)
    assert list(read().winners) == [str(p) for p in problems[1:]]


def test_a_write_that_fails_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch):
    path = pins_path(H200.name)
    write_whole(path, "old")

    def fails(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPIR_CACHE_DIR", "/proc/none")
    with pytest.raises(OSError, match="/proc/none"):
        pin(H200.name, TRITON, PROBLEM, WINNER)


def test_without_a_home_nothing_is_pinned_and_a_pin_is_refused(monkeypatch: pytest.MonkeyPatch):
    unfindable_home(monkeypatch)
    assert read().winners == {}
    with pytest.raises(OSError, match="no home folder is known; set LOOPIR_CACHE_DIR"):
        pin(H200.name, TRITON, PROBLEM, WINNER)


def test_only_the_owner_reads_it():
    pin(H200.name, TRITON, PROBLEM, WINNER)
    assert stat.S_IMODE(pins_path(H200.name).stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "...", "NVIDIA H200"])
def test_a_device_s_name_is_no_path(name: str):
    assert "/" not in slug(name)
    assert slug(name).strip(".") != ""


def test_config_text_is_what_a_person_reads():
    pin(H200.name, TRITON, PROBLEM, WINNER)
    assert str(WINNER) in pins_path(H200.name).read_text()
    assert Config.parse(read().winners[str(PROBLEM)]) == WINNER
