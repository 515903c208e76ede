"""An entry of the cache: a folder with `entry.json`, a binary and its assembly.

    {"loopir_cache": 1, "sha256": OF_THE_REST, "entry": {"identity": {...}, "metadata": {...},
     "registers": 90, "spill_bytes": 0, "warnings": [], "binary": FILE, "assembly": FILE}}

where FILE is {"name": "kernel.cubin", "sha256": ..., "size": ...}. The name of the folder is the
SHA-256 of `identity`: all that the result of a compilation depends on.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

HEADER = "entry.json"
_FORMAT = 1
_MOST_HEADER, _MOST_FILE = 1 << 20, 1 << 28
_FILE = re.compile(r"kernel\.[a-z]{1,16}")

#: a file's content by name and the most bytes that it may have; OSError, ValueError
Read: TypeAlias = Callable[[str, int], bytes]
Identity: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


class Damaged(Exception):
    """What lies on disk is no whole entry: why."""


@dataclass(frozen=True)
class Built:
    """What compiling one function gives. `suffixes`: of the files of the binary and of the
    assembly; `metadata`: values of JSON."""

    binary: bytes
    assembly: str
    suffixes: tuple[str, str]
    metadata: Mapping[str, Any]
    registers: int
    spill_bytes: int
    warnings: tuple[str, ...]


def key_of(identity: Identity) -> str:
    """The name of an entry: 64 hexadecimal digits."""
    return _digest(_text(identity).encode())


def files_of(identity: Identity, built: Built) -> dict[str, bytes]:
    """The files of an entry."""
    contents = built.binary, built.assembly.encode()
    names = [f"kernel.{suffix}" for suffix in built.suffixes]
    binary, assembly = (
        {"name": name, "sha256": _digest(data), "size": len(data)}
        for name, data in zip(names, contents, strict=True)
    )
    entry = {
        "identity": identity,
        "binary": binary,
        "assembly": assembly,
        "metadata": built.metadata,
        "registers": built.registers,
        "spill_bytes": built.spill_bytes,
        "warnings": built.warnings,
    }
    whole = {"loopir_cache": _FORMAT, "sha256": _digest(_text(entry).encode()), "entry": entry}
    header = json.dumps(whole, indent=1, sort_keys=True, default=repr) + "\n"
    return {**dict(zip(names, contents, strict=True)), HEADER: header.encode()}


def parsed(key: str, read: Read) -> Built:
    """The entry of that name out of its files. Damaged."""
    entry = _entry(key, read)
    binary, assembly = (_file(_field(entry, role, dict), read) for role in ("binary", "assembly"))
    metadata = _field(entry, "metadata", dict)
    _field(metadata, "shared", int)
    return Built(
        binary[1],
        assembly[1].decode(),
        (binary[0], assembly[0]),
        metadata,
        _field(entry, "registers", int),
        _field(entry, "spill_bytes", int),
        tuple(map(str, _field(entry, "warnings", list))),
    )


def kernel_and_target(key: str, read: Read) -> tuple[str, str]:
    """What an entry is of, by its header alone. Damaged."""
    identity = _field(_entry(key, read), "identity", dict)
    names = _field(identity, "kernel", str), _field(identity, "target", str)
    if not all(map(str.isprintable, names)):
        raise Damaged(f"{HEADER}: names that cannot be printed")
    return names


def _entry(key: str, read: Read) -> dict[str, Any]:
    try:
        whole = json.loads(_read(HEADER, _MOST_HEADER, read))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{HEADER}: {error}") from None
    if not isinstance(whole, dict) or whole.get("loopir_cache") != _FORMAT:
        raise Damaged(f"{HEADER}: it does not say loopir_cache: {_FORMAT}")
    entry = _field(whole, "entry", dict)
    if whole.get("sha256") != _digest(_text(entry).encode()):
        raise Damaged(f"{HEADER}: not what was written, by its SHA-256")
    if key_of(_field(entry, "identity", dict)) != key:
        raise Damaged(f"{HEADER}: it is of another kernel")
    return entry


def _file(described: dict[str, Any], read: Read) -> tuple[str, bytes]:
    """The suffix and the content of a file."""
    name, size = _field(described, "name", str), _field(described, "size", int)
    if not _FILE.fullmatch(name):
        raise Damaged(f"{HEADER}: {name!r} is no name of a file")
    data = _read(name, min(max(size, 0), _MOST_FILE), read)
    if _digest(data) != _field(described, "sha256", str):
        raise Damaged(f"{name}: not what was written, by its SHA-256")
    return name.partition(".")[2], data


def _read(name: str, most_bytes: int, read: Read) -> bytes:
    try:
        return read(name, most_bytes)
    except (OSError, ValueError) as error:
        raise Damaged(f"{name}: {error}") from None


def _field(data: dict[str, Any], name: str, kind: type[T]) -> T:
    value = data.get(name)
    if type(value) is not kind:
        raise Damaged(f"{HEADER}: {name} is no {kind.__name__}")
    return value


def _text(data: Any) -> str:
    """The same for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=repr)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
