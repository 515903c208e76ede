"""A folder of entries that processes share without waiting for one another.

An entry is made beside its place and renamed into it; it is taken away by a rename, and only then
deleted. A reader that finds files missing looks whether the entry is still there before it calls it
damaged.
"""

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from backends.triton_codegen.cache.entry import Built, Damaged, Read, kernel_and_target, parsed
from backends.triton_codegen.cache.folder import (
    cache_folder,
    open_folder,
    open_private,
    read_regular,
)

_KEY = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.(new|old)-[0-9a-f]{16}")
_ABANDONED_S = 3600
_TRIES = 3
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EACCES)
T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """An entry as a listing shows it: its bytes on disk, and when it was last used, in ns since
    1970."""

    key: str
    bytes: int
    used_ns: int


def store_folder() -> Path:
    """Where the entries lie. OSError: no home folder is known."""
    return cache_folder() / "kernels"


def open_store(limit_bytes: int) -> "Store":
    """The store of this user, to be closed. OSError: its folder cannot be made, or is refused."""
    return Store(open_private(store_folder()), limit_bytes)


@dataclass(frozen=True)
class Store:
    """Entries in the folder that `handle` is a descriptor of, `limit_bytes` in all."""

    handle: int
    limit_bytes: int

    def close(self) -> None:
        os.close(self.handle)

    # --- one entry

    def load(self, key: str) -> Built | None:
        """An entry; None: there is none. Damaged; OSError."""
        return self._read(key, parsed)

    def names(self, key: str) -> tuple[str, str] | None:
        """The kernel and the target of an entry; None: there is none. Damaged; OSError."""
        return self._read(key, kernel_and_target)

    def touch(self, key: str) -> None:
        """Say that an entry was used."""
        with suppress(OSError):
            os.utime(key, dir_fd=self.handle, follow_symlinks=False)

    def save(self, key: str, files: Mapping[str, bytes]) -> None:
        """Add an entry, unless it is there or has no room at all; those used longest ago make room.
        OSError."""
        if sum(map(len, files.values())) > self.limit_bytes:
            self.trim()  # the limit may be less than it was
            return
        new = f".new-{secrets.token_hex(8)}"
        os.mkdir(new, 0o700, dir_fd=self.handle)
        try:
            self._fill(new, files)
            self._rename(new, key)
        except BaseException as error:
            self._delete(new)
            if not _says_that_it_is_there(error):
                raise
        self.trim()

    def remove(self, key: str) -> None:
        """Take an entry away, if it is there. OSError."""
        old = f".old-{secrets.token_hex(8)}"
        with suppress(FileNotFoundError):
            self._rename(key, old)
            self._delete(old)

    # --- all of them

    def entries(self) -> list[Listed]:
        """All that has the name of an entry, that used longest ago first. OSError."""
        found = [self._listed(key) for key in self._names() if _KEY.fullmatch(key)]
        return sorted((e for e in found if e), key=lambda e: (e.used_ns, e.key))

    def foreign(self) -> list[str]:
        """Names of what is no entry and none in the making: it is left alone. OSError."""
        known = (_KEY, _UNFINISHED)
        return sorted(n for n in self._names() if not any(p.fullmatch(n) for p in known))

    def trim(self) -> None:
        """Remove what is over the limit, those used longest ago first, and what processes that
        ended have left behind. OSError."""
        entries = self.entries()
        total = sum(e.bytes for e in entries)
        for entry in entries:
            if total <= self.limit_bytes:
                break
            self.remove(entry.key)
            total -= entry.bytes
        for name in filter(_UNFINISHED.fullmatch, self._names()):
            if self._is_abandoned(name):
                self._delete(name)

    # --- files

    def _read(self, key: str, reader: Callable[[str, Read], T]) -> T | None:
        for _ in range(_TRIES):
            try:
                folder = open_folder(key, self.handle)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno not in _NO_FOLDER:
                    raise
                raise Damaged(f"it is no folder: {error.strerror}") from None
            try:
                return reader(key, partial(read_regular, at=folder))
            except Damaged:
                if self._is_at(key, folder):
                    raise
            finally:
                os.close(folder)
        return None

    def _is_at(self, key: str, folder: int) -> bool:
        """Whether an open folder is still the entry of that name."""
        try:
            now = os.stat(key, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(now, os.fstat(folder))

    def _fill(self, name: str, files: Mapping[str, bytes]) -> None:
        # No fsync: what a crash of the machine cuts short does not have its SHA-256.
        folder = open_folder(name, self.handle)
        try:
            for file, data in files.items():
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(file, flags, 0o600, dir_fd=folder), "wb") as out:
                    out.write(data)
        finally:
            os.close(folder)

    def _rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def _delete(self, name: str) -> None:
        """A file, a link or a whole folder, as far as it can be."""
        try:
            os.unlink(name, dir_fd=self.handle)
        except OSError:
            with suppress(OSError):  # a folder may forbid its owner what follows
                os.chmod(name, 0o700, dir_fd=self.handle)
            shutil.rmtree(name, ignore_errors=True, dir_fd=self.handle)

    def _names(self) -> list[str]:
        return os.listdir(self.handle)

    def _listed(self, key: str) -> Listed | None:
        try:
            status = os.stat(key, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None
        size = self._bytes_in(key) if stat.S_ISDIR(status.st_mode) else status.st_size
        return Listed(key, size, status.st_mtime_ns)

    def _bytes_in(self, key: str) -> int:
        """0 of a folder that has gone, or cannot be read."""
        try:
            folder = open_folder(key, self.handle)
        except OSError:
            return 0
        try:
            return sum(_size(name, folder) for name in os.listdir(folder))
        finally:
            os.close(folder)

    def _is_abandoned(self, name: str) -> bool:
        try:
            status = os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except OSError:
            return False
        return abs(time.time() - status.st_mtime) > _ABANDONED_S  # clocks are set back, too


def _size(name: str, folder: int) -> int:
    """Bytes of a file; 0 if it has gone."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    return 0


def _says_that_it_is_there(error: BaseException) -> bool:
    """Of a rename to an entry that another process has made meanwhile, which is the same."""
    return isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
