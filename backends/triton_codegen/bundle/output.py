"""Puts a bundle in place: all of it or nothing, and never over what is none."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from backends.triton_codegen.bundle.loading.folder import MANIFEST, SEAL, Folder
from loopir.errors import BundleError

#: what Python leaves beside a module that was imported
_LITTER = "__pycache__"
_PREFIX = ".loopir-bundle-"


def check_place(folder: Path) -> None:
    """BundleError: something is there that is no bundle, or a bundle with files of other origin."""
    if folder.name in ("", ".."):
        raise BundleError(f"{folder}: no name of a folder that a bundle can be; choose another")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise BundleError(f"{folder}: there is a file or a link of that name; choose another")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    try:
        known = {f.path for f in Folder(folder).manifest.files} | {MANIFEST, SEAL}
    except BundleError as error:
        text = f"the folder is there and is no bundle ({error}); choose another, or remove it"
        raise BundleError(f"{folder}: {text}") from None
    each = (p for p in sorted(folder.rglob("*")) if p.is_symlink() or not p.is_dir())
    for path in (p.relative_to(folder) for p in each):
        if path.as_posix() not in known and _LITTER not in path.parts:
            text = f"it holds {path.as_posix()}, which is no file of the bundle there"
            raise BundleError(f"{folder}: {text}; move it, or choose another folder")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """The files in a new folder, which takes the place of an old bundle as a whole. BundleError, as
    `check_place`; OSError."""
    check_place(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_PREFIX) as place:
        new, old = Path(place, "new"), Path(place, "old")
        for path, data in files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(data)
        check_place(folder)  # others may have written there since
        try:
            if folder.exists():
                os.replace(folder, old)
            os.replace(new, folder)
        except BaseException:  # an interruption too: what is in `place` goes with it
            if old.exists() and not folder.exists():
                os.replace(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
