"""The files of a bundle on disk: read once, checked against the manifest, never through a link."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
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
            with _opened(self.root, path) as place:
                return _content(place, path, most)
        except MemoryError:
            raise BundleError(f"{path}: larger than the memory of this machine") from None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            text = "a link, which no bundle has" if is_link else error.strerror or error
            raise BundleError(f"{path}: {text}") from None


@contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    """What lies at a path below `root`, each segment opened in the one before it: nobody can put a
    link there between a look and the opening."""
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for segment in path.split("/"):
            found = os.open(segment, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
            os.close(place)
            place = found
        yield place
    finally:
        os.close(place)


def _content(place: int, path: str, most: int) -> bytes:
    about = os.fstat(place)
    if not stat.S_ISREG(about.st_mode):
        raise BundleError(f"{path}: no regular file")
    with os.fdopen(place, "rb", closefd=False) as file:
        return file.read(min(most, about.st_size) + 1)


def seal_text(manifest: bytes) -> bytes:
    """What `manifest.sha256` says of a manifest: a line that `sha256sum -c` reads."""
    return f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n".encode()
