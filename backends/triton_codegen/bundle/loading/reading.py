"""JSON text to a `Manifest`: strict, so that what it says of a type can be relied on."""

import json
import re
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from backends.triton_codegen.bundle.loading.errors import BundleError
from backends.triton_codegen.bundle.loading.model import (
    CHAINS,
    LEAVES,
    MOST,
    MOST_DEPTH,
    MOST_NODES,
    PAIRS,
    Items,
    Manifest,
    Matches,
    Tree,
    Within,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_SHOWN = 60


def read_manifest(data: bytes) -> Manifest:
    """The manifest that JSON text says. BundleError: what is wrong, and where."""
    found = _parsed(data)
    if type(found) is dict and found.get("format") == "loopir-bundle":
        _check_schema(found.get("schema"))
    return _read(Manifest, found, "manifest")


def _check_schema(schema: object) -> None:
    if type(schema) is int and schema != 1:
        raise BundleError(f"manifest.schema: {schema}, and this loader reads 1")


def _parsed(data: bytes) -> object:
    try:
        return json.loads(
            data.decode("ascii"),
            object_pairs_hook=_object,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except (ValueError, RecursionError) as error:  # of json, of the encoding, of a long number
        raise BundleError(f"manifest: no JSON that this loader reads: {error}"[:400]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_float(text: str) -> NoReturn:
    raise ValueError(f"{text[:_SHOWN]} is no integer")


# --- types


def _read(kind: Any, data: object, place: str) -> Any:
    """`data` as `kind`: a class of the model, or a type of one of its fields."""
    if is_dataclass(kind):
        return _instance(kind, data, place)
    if kind == Tree:
        return _Trees(place).read(data, 0)
    origin = get_origin(kind)
    if origin is Annotated:
        return _annotated(kind, data, place)
    if origin is tuple:
        return _items(get_args(kind)[0], data, place)
    if origin is Literal:
        return _literal(get_args(kind), data, place)
    if origin in (Union, UnionType):
        some = next(k for k in get_args(kind) if k is not NoneType)
        return None if data is None else _read(some, data, place)
    if type(data) is not kind:
        _refuse_value(place, _NOUNS[kind], data)
    return data


def _instance(kind: Any, data: object, place: str) -> Any:
    if type(data) is not dict:
        _refuse_value(place, "an object", data)
    types = _types(kind)
    for key in types:
        if key not in data:
            raise BundleError(f"{place}: {key} is missing")
    for key in data:
        if key not in types:
            raise BundleError(f"{place}: unknown key {_shown(key)}")
    return kind(**{key: _read(t, data[key], f"{place}.{key}") for key, t in types.items()})


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind)}


def _annotated(kind: Any, data: object, place: str) -> Any:
    base, *rules = get_args(kind)
    if get_origin(base) is tuple and type(data) is not list:
        _refuse_value(place, "a list", data)
    found = data if get_origin(base) is tuple else _read(base, data, place)
    for rule in rules:
        _check(rule, found, place)
    return _read(base, data, place)


def _check(rule: object, found: Any, place: str) -> None:
    match rule:
        case Within(least, most) if not least <= found <= most:
            _refuse_value(place, f"{least} to {most}" if least < most else str(least), found)
        case Items(least, most) if not least <= len(found) <= most:
            raise BundleError(f"{place}: expected {least} to {most} items, got {len(found)}")
        case Matches(_, longest) if len(found) > longest:
            raise BundleError(f"{place}: longer than {longest} characters")
        case Matches(pattern, _) if not re.fullmatch(pattern, found):
            _refuse_value(place, f"text like {pattern}", found)


def _items(kind: Any, data: object, place: str) -> tuple[Any, ...]:
    if type(data) is not list:
        _refuse_value(place, "a list", data)
    return tuple(_read(kind, item, f"{place}[{i}]") for i, item in enumerate(data))


def _literal(words: tuple[Any, ...], data: object, place: str) -> Any:
    if type(data) is not str or data not in words:
        _refuse_value(place, f"one of {', '.join(words)}", data)
    return data


_NOUNS = {int: "an integer", str: "text", bool: "true or false"}


# --- expressions


class _Trees:
    """Reads one tree; counts its nodes."""

    def __init__(self, place: str):
        self.place, self.nodes = place, 0

    def read(self, data: object, depth: int) -> Tree:
        self.nodes += 1
        if depth > MOST_DEPTH or self.nodes > MOST_NODES:
            limits = f"{MOST_DEPTH} deep, of {MOST_NODES} nodes"
            raise BundleError(f"{self.place}: an expression can be {limits}")
        if type(data) is list and data:
            return self._operation(data, depth)
        if type(data) is int and -MOST - 1 <= data <= MOST:
            return data
        if type(data) is str and _NAME.fullmatch(data):
            return data
        return _refuse_value(self.place, "an integer of 64 bits, a name or an operation", data)

    def _operation(self, data: list[Any], depth: int) -> Tree:
        word, *rest = data
        if type(word) is not str or not self._takes(word, rest):
            _refuse_value(self.place, "an operation and its operands", data)
        if word in LEAVES:
            return (word, *rest)
        return (word, *(self.read(part, depth + 1) for part in rest))

    def _takes(self, word: str, rest: list[Any]) -> bool:
        if word in LEAVES:
            return self._is_leaf(word, rest)
        return len(rest) == 2 if word in PAIRS else word in CHAINS and len(rest) >= 2

    def _is_leaf(self, word: str, rest: list[Any]) -> bool:
        if not rest or type(rest[0]) is not str or not _NAME.fullmatch(rest[0]):
            return False
        if word == "address":
            return len(rest) == 1
        return len(rest) == 2 and type(rest[1]) is int and 0 <= rest[1] <= 15


def _refuse_value(place: str, expected: str, given: object) -> NoReturn:
    raise BundleError(f"{place}: expected {expected}, got {_shown(given)}")


def _shown(given: object) -> str:
    if isinstance(given, dict | list):
        return "an object" if isinstance(given, dict) else "a list"
    text = ascii(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
