"""Bytes of an entry flipped, cut off, put in, exchanged: it is compiled again with a warning, or
nothing has changed."""

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from backends.triton_codegen.cache import entry
from backends.triton_codegen.cache.cached import cached
from backends.triton_codegen.cache.entry import HEADER, files_of, key_of
from tests.support.cache_entries import built, identity

KEY, FILES = key_of(identity(1)), files_of(identity(1), built(1))
SEED, EACH = 20_261_130, 90  # of each kind, in each file


def flip(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def replace(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + random.randbytes(1) + data[at + 1 :]


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def insert(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.randrange(1, 9)) + data[at:]


def swap(data: bytes, random: Random) -> bytes:
    """Two parts exchanged: the length stays."""
    i, j = sorted(random.sample(range(len(data)), 2))
    return data[j:] + data[i:j] + data[:i]


CHANGES = (flip, replace, cut, insert, swap)


def changed(change: Callable[[bytes, Random], bytes], name: str) -> list[bytes]:
    random = Random(f"{SEED} {change.__name__} {name}")
    return [change(FILES[name], random) for _ in range(EACH)]


def outcome(folder: Path) -> tuple[bool, int, int]:
    """Whether the result is right, the times it was compiled, the warnings."""
    compiled = []

    def build():
        compiled.append(1)
        return built(1)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = cached(lambda: identity(1), build)
    return found == built(1), len(compiled), len(told)


def test_the_number_of_changes_is_what_it_should_be():
    assert len(CHANGES) * len(FILES) * EACH >= 500


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", FILES)
def test_a_changed_entry_is_compiled_again_or_is_the_same(
    change: Callable[[bytes, Random], bytes], name: str, folder: Path
):
    seen = []
    assert outcome(folder) == (True, 1, 0)
    for data in changed(change, name):
        (folder / KEY / name).write_bytes(data)
        found = outcome(folder)
        assert found in ((True, 0, 0), (True, 1, 1)), (data, FILES[name])
        if name != HEADER and data != FILES[name]:
            assert found == (True, 1, 1)
        seen.append(found)
        assert outcome(folder) == (True, 0, 0)
    assert (True, 1, 1) in seen


@pytest.mark.parametrize("name", FILES)
def test_control_without_digests_changes_are_served(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """The digest of what is read counts as the one that is expected."""
    outcome(folder)

    class Anything(str):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    monkeypatch.setattr(entry, "_digest", lambda data: Anything(""))
    wrong = 0
    for data in changed(flip, name):
        try:
            read = {**FILES, name: data}
            wrong += entry.parsed(KEY, lambda file, _, read=read: read[file]) != built(1)
        except (entry.Damaged, KeyError, UnicodeDecodeError):  # names of files change too
            continue
    assert wrong > 0
