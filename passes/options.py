"""The options of a pass: typed fields of its dataclass, and their text in a pipeline string.

A field `launch_constants: bool = False` is the option `launch-constants=true`. The types are int,
bool, str and Enum, each also `| None`. Only options that differ from their default are printed, in
field order.
"""

import json
import re
import types
import typing
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from passes.base import Pass

NONE = "none"
_PLAIN = re.compile(r"[A-Za-z0-9_.:/+-]+")
_LARGEST = 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]+")
_UNIONS = (types.UnionType, typing.Union)


def option(default: Any, doc: str, *, bare: bool = False) -> Any:
    """A field of a pass, with a line of documentation for listings. `bare`: an enum that prints its
    value without the key, `tile-order{along_m}`."""
    return field(default=default, metadata={"doc": doc, "bare": bare})


@dataclass(frozen=True)
class Option:
    """One option as the text form sees it. `type` is int, bool, str or a class of Enum."""

    key: str
    field: str
    type: type
    optional: bool
    default: Any
    doc: str = ""
    bare: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def words(self) -> tuple[str, ...]:
        """The texts of an enum's values; none for the other types."""
        return tuple(str(e.value) for e in self.type) if issubclass(self.type, Enum) else ()

    @property
    def expected(self) -> str:
        """What a value must be, for messages and listings."""
        names = {int: "an integer", bool: "true or false", str: "text"}
        wanted = names.get(self.type) or "one of " + ", ".join(self.words)
        return f"{wanted} or {NONE}" if self.optional else wanted


@cache
def options_of(cls: "type[Pass]") -> tuple[Option, ...]:
    """The options of a pass class, in field order. TypeError: a field type that has no text, or a
    value without a key that another option of the class has too."""
    hints = typing.get_type_hints(cls)
    options = tuple(_option(cls, f, hints[f.name]) for f in fields(cls) if f.init)
    for o in options:
        taken = {w for other in options if other is not o for w in (other.key, *other.words)}
        if o.bare and taken & set(o.words):
            raise TypeError(f"{cls.__name__}.{o.field}: its values need the key")
    return options


def _option(cls: type, f: Field, hint: Any) -> Option:
    is_union = typing.get_origin(hint) in _UNIONS
    kinds = typing.get_args(hint) if is_union else (hint,)
    base = [k for k in kinds if k is not type(None)]
    if len(base) != 1 or not isinstance(base[0], type) or not _has_text(base[0]):
        raise TypeError(f"{cls.__name__}.{f.name}: an option cannot be {hint}")
    return Option(f.name.replace("_", "-"), f.name, base[0], is_union, f.default, **f.metadata)


def _has_text(kind: type) -> bool:
    return kind in (int, bool, str) or issubclass(kind, Enum)


def check_options(p: "Pass") -> None:
    """Turn the text of an enum's value into the enum, in place (`StreamKPass(merge="atomic")`).

    For `__post_init__`. TypeError or ValueError: the option's name, and what was expected.
    """
    for o in options_of(type(p)):
        value = getattr(p, o.field)
        if value is None and o.optional:
            continue
        if isinstance(value, str) and issubclass(o.type, Enum):
            object.__setattr__(p, o.field, read_value(o, value))
        elif type(value) is not o.type:
            raise TypeError(f"{p.name}: option '{o.key}' wants {o.expected}, not {value!r}")
        elif isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"{p.name}: option '{o.key}' wants {o.expected} of 63 bits")


def pass_text(p: "Pass") -> str:
    """The canonical text of a pass: `name`, or `name{key=value key=value}`. It parses to `p`."""
    items = ((o, getattr(p, o.field)) for o in options_of(type(p)))
    given = " ".join(_item_text(o, value) for o, value in items if value != o.default)
    return f"{p.name}{{{given}}}" if given else p.name


def _item_text(o: Option, value: Any) -> str:
    text = value_text(value)
    return text if o.bare and value is not None else f"{o.key}={text}"


def value_text(value: Any) -> str:
    """The text of one value. A str that is not one plain word, or is `none`, is a JSON string."""
    match value:
        case None:
            return NONE
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Enum():
            return str(value.value)
    return value if _PLAIN.fullmatch(value) and value != NONE else json.dumps(value)


def read_value(o: Option, text: str) -> Any:
    """The value that `text` spells. ValueError: there is none; the message says what is wanted."""
    if text == NONE and o.optional:
        return None
    try:
        return _READERS.get(o.type, o.type)(text)
    except (ValueError, KeyError):
        raise ValueError(f"option '{o.key}' wants {o.expected}, not {text}") from None


def _read_int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or abs(int(text)) > _LARGEST:
        raise ValueError(text)
    return int(text)


def _read_str(text: str) -> str:
    return json.loads(text) if text.startswith('"') else text


_READERS = {int: _read_int, bool: {"true": True, "false": False}.__getitem__, str: _read_str}
