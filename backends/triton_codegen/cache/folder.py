"""Where the caches of a user lie, and how they are opened: as input that may be hostile."""

import errno
import os
import stat
from pathlib import Path

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NoHome(FileNotFoundError):
    """Nothing says where this user's files lie."""


def cache_folder() -> Path:
    """LOOPIR_CACHE_DIR, else `loopir` under XDG_CACHE_HOME if that is absolute, else under
    ~/.cache. NoHome."""
    if given := os.environ.get("LOOPIR_CACHE_DIR"):
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else _home() / ".cache") / "loopir"


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and the user has no entry in the password file
        home = Path()
    if not home.is_absolute():
        reason = "no home folder is known; set LOOPIR_CACHE_DIR"
        raise NoHome(errno.ENOENT, reason, "the user's cache")
    return home


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone. OSError."""
    for each in (*reversed(folder.parents), folder):
        each.mkdir(mode=0o700, exist_ok=True)


def open_private(folder: Path) -> int:
    """A descriptor of a folder, which is made if it is missing. Files are reached through it, so
    that what was checked is what is used. OSError: it cannot be made, is a link, belongs to another
    user, or may be written by others."""
    make_private(folder)
    handle = open_folder(folder)
    status = os.fstat(handle)
    reason = None
    if status.st_uid != os.geteuid():
        reason = f"it belongs to user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & _FOR_OTHERS:
        reason = f"others may write it (mode {stat.S_IMODE(status.st_mode):o}); chmod 700"
    if reason is not None:
        os.close(handle)
        raise PermissionError(errno.EPERM, f"refused, {reason}", str(folder))
    return handle


def open_folder(name: str | Path, at: int | None = None) -> int:
    """A descriptor of a folder, in the folder `at` if given, which is no link. OSError."""
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)


def read_regular(name: str | Path, most_bytes: int, at: int | None = None) -> bytes:
    """The content of a regular file; in the folder `at` it may be no link. FileNotFoundError,
    NotADirectoryError; ValueError: it is something else, or larger, or cannot be read."""
    flags = os.O_RDONLY | os.O_NONBLOCK  # a pipe would wait for its writer
    try:
        handle = os.open(name, flags if at is None else flags | os.O_NOFOLLOW, dir_fd=at)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise ValueError(str(error)) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is no regular file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    return data
