"""The words of JSON Schema (draft 2020-12) that the published schema uses, as they are defined
there; independent of the toolkit."""

import re
from typing import Any

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
_NO_RULES = frozenset({"$schema", "$defs", "title", "description"})


def is_valid(data: Any, schema: Any, root: Any = None) -> bool:
    """Whether `data` is what the schema says. KeyError: the schema uses another word."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    return all(
        _RULES[word](data, value, schema, root)
        for word, value in schema.items()
        if word not in _NO_RULES
    )


def _ref(data: Any, value: str, schema: Any, root: Any) -> bool:
    found = root
    for part in value.removeprefix("#/").split("/"):
        found = found[part]
    return is_valid(data, found, root)


def _type(data: Any, value: str, schema: Any, root: Any) -> bool:
    return type(data) is _TYPES[value]


def _properties(data: Any, value: Any, schema: Any, root: Any) -> bool:
    if not isinstance(data, dict):
        return True
    return all(is_valid(data[key], rule, root) for key, rule in value.items() if key in data)


def _required(data: Any, value: list[str], schema: Any, root: Any) -> bool:
    return not isinstance(data, dict) or set(value) <= data.keys()


def _additional(data: Any, value: bool, schema: Any, root: Any) -> bool:
    assert value is False
    return not isinstance(data, dict) or data.keys() <= schema["properties"].keys()


def _prefix(data: Any, value: list[Any], schema: Any, root: Any) -> bool:
    if not isinstance(data, list):
        return True
    return all(is_valid(item, rule, root) for item, rule in zip(data, value, strict=False))


def _items(data: Any, value: Any, schema: Any, root: Any) -> bool:
    if not isinstance(data, list):
        return True
    return all(is_valid(i, value, root) for i in data[len(schema.get("prefixItems", ())) :])


def _any_of(data: Any, value: list[Any], schema: Any, root: Any) -> bool:
    return any(is_valid(data, rule, root) for rule in value)


def _enum(data: Any, value: list[Any], schema: Any, root: Any) -> bool:
    return any(type(data) is type(word) and data == word for word in value)


def _pattern(data: Any, value: str, schema: Any, root: Any) -> bool:
    assert value.endswith("$")  # of Python also before a line break, of JSON Schema not
    return not isinstance(data, str) or re.search(rf"{value[:-1]}\Z", data) is not None


def _length(data: Any, most: int, schema: Any, root: Any) -> bool:
    return not isinstance(data, str) or len(data) <= most


def _least(data: Any, value: int, schema: Any, root: Any) -> bool:
    return type(data) is not int or data >= value


def _most(data: Any, value: int, schema: Any, root: Any) -> bool:
    return type(data) is not int or data <= value


def _min_items(data: Any, value: int, schema: Any, root: Any) -> bool:
    return not isinstance(data, list) or len(data) >= value


def _max_items(data: Any, value: int, schema: Any, root: Any) -> bool:
    return not isinstance(data, list) or len(data) <= value


_RULES = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "prefixItems": _prefix,
    "items": _items,
    "anyOf": _any_of,
    "enum": _enum,
    "pattern": _pattern,
    "maxLength": _length,
    "minimum": _least,
    "maximum": _most,
    "minItems": _min_items,
    "maxItems": _max_items,
}
