"""`loopir-triton cache list|verify|clear`."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from backends.triton_codegen.cache.entry import files_of, key_of
from backends.triton_codegen.cache.store import open_store
from backends.triton_codegen.tool import main
from passes.cli import DONE, REFUSED, USAGE
from tests.support.cache_entries import built, identity


def saved(*numbers: int) -> int:
    """Entries used one second after the other; their bytes."""
    total = 0
    with closing(open_store(1 << 30)) as store:
        for number in numbers:
            files = files_of(identity(number), built(number))
            store.save(key_of(identity(number)), files)
            os.utime(key_of(identity(number)), (number, number), dir_fd=store.handle)
            total += sum(map(len, files.values()))
    return total


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_list_shows_the_last_used_first_in_columns(folder: Path, capsys):
    total = saved(1, 10_000_000, 3)
    assert main(["cache", "list"]) == DONE
    head, *rows, end = lines(capsys)
    assert head.split() == ["key", "kernel", "target", "bytes", "last", "used"]
    assert [row.split()[1] for row in rows] == ["kernel_10000000", "kernel_3", "kernel_1"]
    assert [row.split()[0] for row in rows][1:] == [key_of(identity(n))[:12] for n in (3, 1)]
    assert {row.index("cuda:90") for row in rows} == {head.index("target")}
    times = [re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", row) for row in rows]
    assert {time and time.start() for time in times} == {head.index("last used")}
    assert end == f"3 entries, {total:,} bytes of 1,073,741,824 at most, in {folder}"


def test_list_says_which_are_damaged(folder: Path, capsys):
    saved(1, 2)
    (folder / key_of(identity(1)) / "entry.json").write_text("{")
    assert main(["cache", "list"]) == DONE
    assert "(damaged)" in lines(capsys)[2]


@pytest.mark.parametrize("action", ["list", "verify", "clear"])
def test_an_empty_cache_is_said_and_not_made(action: str, folder: Path, capsys):
    assert main(["cache", action]) == DONE
    assert lines(capsys) == [f"no entries: {folder} does not exist"]
    assert not folder.exists()


def test_verify_accepts_whole_entries(capsys):
    total = saved(1, 2)
    assert main(["cache", "verify"]) == DONE
    assert lines(capsys) == [f"2 entries, {total:,} bytes, 0 damaged"]


@pytest.mark.parametrize("file", ["entry.json", "kernel.cubin", "kernel.ptx"])
def test_verify_names_damage_and_touches_nothing(file: str, folder: Path, capsys):
    saved(1, 2)
    path = folder / key_of(identity(2)) / file
    path.write_bytes(path.read_bytes().replace(b"a", b"b"))
    before = {p: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert main(["cache", "verify"]) == REFUSED
    told = capsys.readouterr()
    assert told.err.startswith(f"{key_of(identity(2))[:12]}: {file}: ")
    assert told.out.endswith("1 damaged\n")
    assert {p: p.stat().st_mtime_ns for p in folder.iterdir()} == before


def test_clear_removes_entries_and_leaves_the_rest(folder: Path, capsys):
    total = saved(1)
    (folder / "\x1b[2Jnotes").write_text("mine")
    assert main(["cache", "clear"]) == DONE
    assert lines(capsys) == [f"1 entry, {total:,} bytes removed from {folder}"]
    assert [p.name for p in folder.iterdir()] == ["\x1b[2Jnotes"]
    assert main(["cache", "verify"]) == DONE
    assert lines(capsys)[0] == r"no entry, left alone: '\x1b[2Jnotes'"


def test_a_time_beyond_the_calendar_is_shown_as_unknown(folder: Path, capsys):
    saved(1)
    entry = folder / key_of(identity(1))
    os.utime(entry, ns=(2**62, 2**62))
    assert main(["cache", "list"]) == DONE
    shown = lines(capsys)[1]
    assert shown.endswith("?") or re.search(r"\d{4}-\d\d-\d\d", shown)


def test_a_folder_that_others_may_write_is_refused(folder: Path, capsys):
    saved(1)
    folder.chmod(0o770)
    assert main(["cache", "clear"]) == USAGE
    assert "others may write it (mode 770); chmod 700" in capsys.readouterr().err
    assert len(list(folder.iterdir())) == 1


def test_a_limit_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("LOOPIR_CACHE_LIMIT", "1G")
    assert main(["cache", "list"]) == REFUSED
    assert "LOOPIR_CACHE_LIMIT: a number of bytes" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["lists"], ["list", "more"]])
def test_usage_is_refused(arguments: list[str], capsys):
    assert main(["cache", *arguments]) == USAGE
    assert "usage: loopir-triton cache" in capsys.readouterr().err
