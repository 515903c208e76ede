"""An entry's files: what is read back, and what is no entry."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.triton_codegen.cache import entry
from backends.triton_codegen.cache.entry import (
    HEADER,
    Damaged,
    files_of,
    kernel_and_target,
    key_of,
    parsed,
)
from tests.support.cache_entries import built, identity

KEY, FILES = key_of(identity(3)), files_of(identity(3), built(3))


def read_from(files: dict[str, bytes]):
    def read(name: str, most_bytes: int) -> bytes:
        if name not in files:
            raise FileNotFoundError(name)
        if len(files[name]) > most_bytes:
            raise ValueError(f"it has more than {most_bytes:,} bytes")
        return files[name]

    return read


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, bytes]:
    """The files with another entry in the header, and the digest that goes with it."""
    whole = json.loads(FILES[HEADER])
    change(whole["entry"])
    whole["sha256"] = entry._digest(entry._text(whole["entry"]).encode())
    return {**FILES, HEADER: json.dumps(whole).encode()}


def test_an_entry_reads_back():
    assert set(FILES) == {"entry.json", "kernel.cubin", "kernel.ptx"}
    assert parsed(KEY, read_from(FILES)) == built(3)
    assert kernel_and_target(KEY, read_from(FILES)) == ("kernel_3", "cuda:90")


def test_control_a_changed_entry_with_its_digest_reads_back():
    files = changed(lambda e: e.update(registers=7))
    assert parsed(KEY, read_from(files)) == replace(built(3), registers=7)


def test_names_depend_on_all_of_the_identity_and_not_on_its_order():
    assert len(KEY) == 64
    assert key_of(dict(reversed(identity(3).items()))) == KEY
    assert key_of({**identity(3), "target": "cuda:80"}) != KEY


def test_the_header_is_json_that_a_person_reads():
    whole = json.loads(FILES[HEADER])
    assert whole["entry"]["identity"] == identity(3)
    assert FILES[HEADER].count(b"\n") > 20


def test_an_entry_under_the_name_of_another_is_damaged():
    with pytest.raises(Damaged, match="it is of another kernel"):
        parsed(key_of(identity(4)), read_from(FILES))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_damage(name: str):
    files = {n: data for n, data in FILES.items() if n != name}
    with pytest.raises(Damaged, match=name):
        parsed(KEY, read_from(files))


TEXTS = (b"", b"{", b"null", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_header_that_is_no_object_is_damage(text: bytes):
    with pytest.raises(Damaged, match=r"entry\.json"):
        parsed(KEY, read_from({**FILES, HEADER: text}))


@pytest.mark.parametrize("name", ["loopir_cache", "sha256", "entry"])
def test_each_field_of_the_header_is_needed(name: str):
    whole = {k: v for k, v in json.loads(FILES[HEADER]).items() if k != name}
    with pytest.raises(Damaged):
        parsed(KEY, read_from({**FILES, HEADER: json.dumps(whole).encode()}))


@pytest.mark.parametrize("name", list(json.loads(FILES[HEADER])["entry"]))
@pytest.mark.parametrize("value", [None, True, [3], {"a": 1}, -0.5])
def test_a_field_of_another_type_is_damage_or_kept_out(name: str, value: object):
    files = changed(lambda e: e.update({name: value}))
    if isinstance(value, list) and name == "warnings":
        assert parsed(KEY, read_from(files)).warnings == ("3",)
        return
    with pytest.raises(Damaged):
        parsed(KEY, read_from(files))


@pytest.mark.parametrize(
    "name", ["../kernel.cubin", "/etc/passwd", "kernel", "entry.json", "kernel.so.1", "kernel.\n"]
)
def test_a_file_of_another_name_is_not_read(name: str):
    asked = []

    def read(file: str, most_bytes: int) -> bytes:
        asked.append(file)
        return files[HEADER] if file == HEADER else b""

    files = changed(lambda e: e["binary"].update(name=name))
    with pytest.raises(Damaged, match="is no name of a file"):
        parsed(KEY, read)
    assert asked == [HEADER]


@pytest.mark.parametrize("size", [-1, 0, 399, 10**30])
def test_a_size_that_is_not_the_file_s_bounds_what_is_read(size: int):
    asked = {}

    def read(file: str, most_bytes: int) -> bytes:
        asked[file] = most_bytes
        return read_from(files)(file, most_bytes)

    files = changed(lambda e: e["binary"].update(size=size, sha256="0"))
    with pytest.raises(Damaged, match=r"kernel\.cubin"):
        parsed(KEY, read)
    assert 0 <= asked["kernel.cubin"] <= 1 << 28


def test_names_that_would_control_a_terminal_are_damage():
    name = {**identity(3), "kernel": "\x1b[2J"}
    with pytest.raises(Damaged, match="cannot be printed"):
        kernel_and_target(key_of(name), read_from(files_of(name, built(3))))
