"""Bundles with one thing wrong: in the manifest's bytes, in what it says, or in a file."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends.triton_codegen.bundle.loading.folder import MANIFEST, SEAL, seal_text

WORDS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**63 - 1, 2**63, -(2**64), 10**40, 1.5, float("nan")),
    *(
        "",
        "x",
        "A",
        "..",
        "/etc/passwd",
        "a/../b",
        "C:\\x",
        "a\\b",
        "\0",
        "\ud800",
        "é",
        "x" * 9999,
    ),
    *([], {}, [[]], {"x": 1}, ["add"], ["extent", "A", 0], ["address", "A"], ["import", "os"]),
    *(["floordiv", 1, 0], ["add", 1, 2], ["stride", "A", 99], "manifest.json", "cuda:90"),
)


def seal(folder: Path, data: bytes) -> None:
    """Writes a manifest as one that nobody has damaged on the way."""
    (folder / MANIFEST).write_bytes(data)
    (folder / SEAL).write_bytes(seal_text(data))


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of JSON data but the whole."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(data[key], (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def edited(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of `data` with another value at the place."""
    found = copy.deepcopy(data)
    at(found, path[:-1])[path[-1]] = value
    return found


def mutated(data: Any, found: list[tuple[Any, ...]], rng: random.Random) -> Any:
    """A copy with one change: another value, a key more or less, an item more or less, two parts
    swapped. `found`: all places."""
    path, other = rng.choice(found), rng.choice(found)
    copied = copy.deepcopy(data)
    parent, key = at(copied, path[:-1]), path[-1]
    kind = rng.randrange(5)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[rng.choice(("x", "path", key.upper(), f"{key} ", ""))] = rng.choice(WORDS)
    elif kind == 2 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif kind == 3:
        parent[key] = copy.deepcopy(at(data, other))
    else:
        parent[key] = rng.choice(WORDS)
    return copied


def text(data: Any) -> bytes:
    """JSON that may be no JSON: NaN, lone surrogates as escapes."""
    return json.dumps(data).encode("ascii")
