"""The launcher in C as files of a bundle: two fixed headers, the launcher, and its tables."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from backends.triton_codegen.bundle.c.tables import bundle_tables

_FOLDER = Path(__file__).parent
#: the launcher is one file, of these one after the other
PARTS = (
    "head",
    "errors",
    "sha256",
    "driver",
    "sizes",
    "checks",
    "files",
    "images",
    "arguments",
    "zeroing",
    "launch",
)


def c_files(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Name and text (ASCII) of each file. `manifest`: the JSON object of a valid manifest, of whose
    files the binaries suffice. CodegenError: more of something than the launcher has room for."""
    return {
        "loopir_bundle.c": bundle_tables(manifest),
        "loopir_bundle.h": _text("loopir_bundle.h"),
        "loopir_launch.c": launcher_text(),
        "loopir_launch.h": _text("loopir_launch.h"),
    }


@cache
def launcher_text() -> str:
    """loopir_launch.c, the same in every bundle."""
    return "\n".join(_text(f"{part}.c") for part in PARTS)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="ascii")
