"""The files of a bundle on disk: read once, checked against the manifest, never through a link."""

import hashlib
import os
import stat
from pathlib import Path

from backends.triton_codegen.bundle.loading.errors import BundleError
from backends.triton_codegen.bundle.loading.model import File, Manifest
from backends.triton_codegen.bundle.loading.reading import read_manifest
from backends.triton_codegen.bundle.loading.references import check_references

MANIFEST, SEAL = "manifest.json", "manifest.sha256"
_MOST_BYTES = 64 * 2**20


class Folder:
    """A bundle in the folder `root`, checked as a whole: what it says, and each of its files.

    BundleError: what does not fit, or cannot be read.
    """

    def __init__(self, root: str | os.PathLike[str]):
        self.root = Path(root)
        data = self._bytes(MANIFEST, _MOST_BYTES)
        if self._bytes(SEAL, len(seal_text(data))) != seal_text(data):
            raise BundleError(f"{MANIFEST}: its SHA-256 is not the one in {SEAL}")
        self.manifest: Manifest = read_manifest(data)
        check_references(self.manifest)
        self._files = {f.path: f for f in self.manifest.files}
        for file in self.manifest.files:
            self._checked(file)

    def read(self, path: str) -> bytes:
        """The bytes of a file of the bundle, checked again as they are read."""
        return self._checked(self._files[path])

    def _checked(self, file: File) -> bytes:
        data = self._bytes(file.path, file.bytes)
        if len(data) != file.bytes:
            raise BundleError(f"{file.path}: {file.bytes} bytes expected, {len(data)} found")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise BundleError(f"{file.path}: its SHA-256 is not the one in the manifest")
        return data

    def _bytes(self, path: str, most: int) -> bytes:
        """At most one byte more than `most`, of a regular file that no link leads to."""
        try:
            return self._opened(path, most)
        except OSError as error:
            raise BundleError(f"{path}: {error.strerror or error}") from None

    def _opened(self, path: str, most: int) -> bytes:
        place = self.root
        for segment in path.split("/"):
            place = place / segment
            if stat.S_ISLNK(os.lstat(place).st_mode):
                raise BundleError(f"{path}: a link, which no bundle has")
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(place, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BundleError(f"{path}: no regular file")
            return file.read(most + 1)


def seal_text(manifest: bytes) -> bytes:
    """What `manifest.sha256` says of a manifest: a line that `sha256sum -c` reads."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()
