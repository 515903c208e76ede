"""Where a user's caches lie, and which folders and files are refused."""

import os
import stat
from pathlib import Path

import pytest

from backends.triton_codegen.cache.folder import (
    NoHome,
    cache_folder,
    make_private,
    open_private,
    read_regular,
)
from backends.triton_codegen.tool import main
from passes.cli import USAGE
from tests.support.homes import unfindable_home


def test_the_folder_that_is_said_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path / "said"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "said"
    monkeypatch.setenv("LOOPIR_CACHE_DIR", "")
    assert cache_folder() == tmp_path / "xdg" / "loopir"


@pytest.mark.parametrize("xdg", [None, "", "relative", "./here", "~/there"])
def test_else_it_is_in_the_home_folder(
    xdg: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("LOOPIR_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if xdg is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_folder() == tmp_path / ".cache" / "loopir"


def test_an_unfindable_home_is_refused_and_what_to_do_is_said(monkeypatch: pytest.MonkeyPatch):
    unfindable_home(monkeypatch)
    with pytest.raises(RuntimeError):
        Path.home()
    with pytest.raises(NoHome, match="no home folder is known; set LOOPIR_CACHE_DIR"):
        cache_folder()


def test_a_relative_home_is_none(monkeypatch: pytest.MonkeyPatch):
    unfindable_home(monkeypatch)
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(NoHome):
        cache_folder()


@pytest.mark.parametrize("command", [["plan", "--pins"], ["cache", "list"]])
def test_tools_say_it_without_a_traceback(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys
):
    unfindable_home(monkeypatch)
    assert main(command) == USAGE
    assert "no home folder is known; set LOOPIR_CACHE_DIR" in capsys.readouterr().err


# --- folders


def opens(folder: Path) -> bool:
    os.close(open_private(folder))
    return True


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_made_for_their_owner_alone(tmp_path: Path):
    assert opens(tmp_path / "a" / "b" / "c")
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert [mode(f) for f in made] == [0o700] * 3


def test_making_leaves_the_mode_of_what_is_there(tmp_path: Path):
    tmp_path.chmod(0o755)
    make_private(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("allowed", [0o700, 0o755, 0o750, 0o500])
def test_a_folder_that_only_its_owner_writes_is_taken(allowed: int, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(allowed)
    assert opens(tmp_path / "own")


@pytest.mark.parametrize("refused", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(refused: int, tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(refused)
    with pytest.raises(PermissionError, match=rf"others may write it \(mode {refused:o}\)"):
        open_private(tmp_path / "own")


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert opens(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="it belongs to user"):
        open_private(tmp_path)


def test_a_link_is_refused(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert opens(tmp_path / "real")
    with pytest.raises(OSError, match="link"):
        open_private(tmp_path / "link")


def test_a_refused_folder_is_not_left_open(tmp_path: Path):
    tmp_path.chmod(0o777)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(PermissionError):
            open_private(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


# --- files


def test_a_regular_file_is_read_and_one_beyond_the_limit_is_not(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"four")
    assert read_regular(path, 4) == b"four"
    with pytest.raises(ValueError, match="it has more than 3 bytes"):
        read_regular(path, 3)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 4)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_regular_file_is_refused(kind: str, tmp_path: Path):
    path = tmp_path / "file"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/zero")
    with pytest.raises(ValueError, match="it is no regular file"):
        read_regular(path, 4)


def test_a_link_in_an_open_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    folder = open_private(tmp_path)
    try:
        assert read_regular("file", 4, at=folder) == b"x"
        with pytest.raises(ValueError, match="symbolic link"):
            read_regular("link", 4, at=folder)
    finally:
        os.close(folder)
