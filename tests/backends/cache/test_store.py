"""The folder of entries: what is kept, what goes first, what is left alone."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.triton_codegen.cache import store as module
from backends.triton_codegen.cache.entry import Damaged, files_of, key_of
from backends.triton_codegen.cache.store import Store, open_store
from tests.support.cache_entries import built, identity

LARGE = 1 << 30
SIZE = sum(map(len, files_of(identity(0), built(0)).values()))


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(open_store(LARGE)) as opened:
        yield opened


def key(number: int) -> str:
    return key_of(identity(number))


def save(store: Store, *numbers: int, used: int | None = None) -> None:
    for number in numbers:
        store.save(key(number), files_of(identity(number), built(number)))
        if used is not None:
            os.utime(key(number), ns=(used, used), dir_fd=store.handle)


def kept(store: Store, most: int = 20) -> list[int]:
    present = {e.key for e in store.entries()}
    return [n for n in range(most) if key(n) in present]


def test_an_entry_is_kept_for_its_owner_alone(store: Store, folder: Path):
    save(store, 1)
    assert store.load(key(1)) == built(1)
    assert store.load(key(2)) is None
    modes = {oct(p.stat().st_mode & 0o777) for p in (folder, folder / key(1))}
    assert modes == {"0o700"}
    assert {oct(p.stat().st_mode & 0o777) for p in (folder / key(1)).iterdir()} == {"0o600"}


def test_saving_twice_changes_nothing(store: Store, folder: Path):
    save(store, 1, 1)
    assert [p.name for p in folder.iterdir()] == [key(1)]
    assert store.load(key(1)) == built(1)


def test_what_is_removed_is_gone(store: Store, folder: Path):
    save(store, 1, 2)
    store.remove(key(1))
    store.remove(key(1))
    assert [p.name for p in folder.iterdir()] == [key(2)]


# --- the limit


def test_what_was_used_longest_ago_makes_room(store: Store):
    save(store, 1, used=1000)
    save(store, 2, used=2000)
    save(store, 3, used=3000)
    store.touch(key(1))
    save(Store(store.handle, 3 * SIZE + SIZE // 2), 4)
    assert kept(store) == [1, 3, 4]


def test_the_limit_holds_after_each_save(store: Store):
    limited = Store(store.handle, 4 * SIZE)
    for number in range(20):
        save(limited, number)
        assert sum(e.bytes for e in limited.entries()) <= 4 * SIZE
        assert limited.load(key(number)) == built(number)
    assert len(kept(limited)) == 3  # the entries of two digits are larger by some bytes


def test_control_without_trimming_the_limit_is_passed(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Store, "trim", lambda self: None)
    limited = Store(store.handle, 4 * SIZE)
    save(limited, *range(20))
    assert sum(e.bytes for e in limited.entries()) > 4 * SIZE


def test_an_entry_beyond_the_limit_displaces_nothing(store: Store, folder: Path):
    save(store, 1)
    large = {**files_of(identity(2), built(2)), "kernel.ptx": b"x" * 2 * SIZE}
    Store(store.handle, 2 * SIZE).save(key(2), large)
    assert [p.name for p in folder.iterdir()] == [key(1)]


@pytest.mark.parametrize("limit", [0, SIZE - 1])
def test_what_is_over_a_lower_limit_goes_with_the_next_entry(
    limit: int, store: Store, folder: Path
):
    save(store, 1)
    save(Store(store.handle, limit), 2)
    assert list(folder.iterdir()) == []


# --- what is no entry


def test_foreign_files_are_left_alone_and_not_counted(store: Store, folder: Path):
    (folder / "notes.txt").write_bytes(b"x" * 100)
    (folder / ("A" * 64)).mkdir()
    (folder / "link").symlink_to("/etc")
    save(store, 1)
    assert [e.key for e in store.entries()] == [key(1)]
    Store(store.handle, 0).trim()
    assert store.foreign() == sorted(["notes.txt", "A" * 64, "link"])
    assert sorted(p.name for p in folder.iterdir()) == store.foreign()


def hostile(place: Path, kind: str, outside: Path) -> None:
    match kind:
        case "link to a folder":
            place.symlink_to(outside)
        case "link to nothing":
            place.symlink_to("nowhere")
        case "file":
            place.write_bytes(b"x")
        case "pipe":
            os.mkfifo(place)
        case "empty folder":
            place.mkdir()


KINDS = ("link to a folder", "link to nothing", "file", "pipe", "empty folder")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_entry_under_an_entry_s_name_is_damage_and_can_be_removed(
    kind: str, store: Store, folder: Path, tmp_path: Path
):
    outside = tmp_path / "outside"
    save(store, 1)
    (folder / key(1)).rename(outside)
    hostile(folder / key(1), kind, outside)
    with pytest.raises(Damaged):
        store.load(key(1))
    assert len(store.entries()) == 1
    store.remove(key(1))
    assert list(folder.iterdir()) == []
    assert len(list(outside.iterdir())) == 3
    save(store, 1)
    assert store.load(key(1)) == built(1)


@pytest.mark.parametrize("file", ["entry.json", "kernel.cubin", "kernel.ptx"])
@pytest.mark.parametrize("kind", KINDS)
def test_links_and_the_like_inside_an_entry_are_damage(
    kind: str, file: str, store: Store, folder: Path, tmp_path: Path
):
    """Also a link to the very content: it may change after the check."""
    save(store, 1)
    path = folder / key(1) / file
    path.rename(tmp_path / "outside")
    hostile(path, kind, tmp_path / "outside")
    with pytest.raises(Damaged, match=file):
        store.load(key(1))
    store.remove(key(1))
    assert list(folder.iterdir()) == []
    assert (tmp_path / "outside").exists()


def test_more_files_in_an_entry_are_counted_and_removed_with_it(store: Store, folder: Path):
    save(store, 1)
    (folder / key(1) / "more").write_bytes(b"x" * 1000)
    assert store.load(key(1)) == built(1)
    (found,) = store.entries()
    assert found.bytes == 1000 + sum(map(len, files_of(identity(1), built(1)).values()))
    store.remove(key(1))
    assert list(folder.iterdir()) == []


# --- other processes


def test_what_a_process_left_behind_is_removed_after_an_hour(store: Store, folder: Path):
    for name, age_s in (
        (".new-" + "0" * 16, 3700),
        (".old-" + "1" * 16, 3700),
        (".new-" + "2" * 16, 60),
        (".new-" + "3" * 16, -3700),  # the clock was set back
    ):
        (folder / name).mkdir()
        (folder / name / "kernel.ptx").write_bytes(b"x")
        then = time.time() - age_s
        os.utime(folder / name, (then, then))
    save(store, 1)
    assert sorted(p.name for p in folder.iterdir()) == sorted([".new-" + "2" * 16, key(1)])


def test_a_folder_that_forbids_its_owner_to_delete_is_deleted(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    save(store, 1)
    (folder / key(1)).chmod(0o500)  # the mode alone is looked at: to root all is allowed
    modes, rmtree = [], module.shutil.rmtree

    def watched(name: str, **options) -> None:
        modes.append((folder / name).stat().st_mode & 0o777)
        rmtree(name, **options)

    monkeypatch.setattr(module.shutil, "rmtree", watched)
    store.remove(key(1))
    assert modes == [0o700]
    assert list(folder.iterdir()) == []


def test_an_entry_that_goes_while_it_is_read_is_none_and_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    save(store, 1)
    read, taken = module.read_regular, []

    def taking(name, most_bytes, at):
        if name == "kernel.ptx" and not taken:
            taken.append(name)
            store.remove(key(1))
        return read(name, most_bytes, at)

    monkeypatch.setattr(module, "read_regular", taking)
    assert store.load(key(1)) is None
    assert taken


def test_an_entry_that_is_replaced_while_it_is_read_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    save(store, 1)
    read, taken = module.read_regular, []

    def replacing(name, most_bytes, at):
        if name == "kernel.ptx" and not taken:
            taken.append(name)
            store.remove(key(1))
            save(store, 1)
        return read(name, most_bytes, at)

    monkeypatch.setattr(module, "read_regular", replacing)
    assert store.load(key(1)) == built(1)
    assert taken


def test_an_entry_that_another_process_makes_meanwhile_is_kept(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    rename, raced = os.rename, []

    def late(old, new, **options):
        if new == key(1) and not raced:
            raced.append(new)
            save(store, 1)
        rename(old, new, **options)

    monkeypatch.setattr(module.os, "rename", late)
    save(store, 1)
    assert raced
    assert [p.name for p in folder.iterdir()] == [key(1)]
    assert store.load(key(1)) == built(1)


def test_a_save_that_fails_leaves_nothing(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(old, new, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        save(store, 1)
    assert list(folder.iterdir()) == []


def test_entries_that_go_while_they_are_listed_do_not_stop_a_listing(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    save(store, 1, 2, 3)
    listdir = os.listdir

    def gone_behind(place: int) -> list[str]:
        names = listdir(place)
        if "kernel.ptx" in names:  # of the first that is looked into
            store.remove(key(1))
            store.remove(key(2))
        return names

    monkeypatch.setattr(module.os, "listdir", gone_behind)
    assert key(3) in {e.key for e in store.entries()}


def test_an_entry_that_its_owner_may_not_read_is_damage_and_can_be_removed(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    save(store, 1)
    opened = module.open_folder

    def denied(name: str, at: int | None = None) -> int:
        if name == key(1):
            raise PermissionError(13, "Permission denied")
        return opened(name, at)

    monkeypatch.setattr(module, "open_folder", denied)
    with pytest.raises(Damaged, match="Permission denied"):
        store.load(key(1))
    assert [e.key for e in store.entries()] == [key(1)]
    store.remove(key(1))
    assert list(folder.iterdir()) == []
