"""The JSON schema of a manifest, made of the classes of its model."""

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from backends.triton_codegen.bundle.loading.model import (
    CHAINS,
    LEAVES,
    MOST,
    PAIRS,
    Items,
    Manifest,
    Matches,
    Tree,
    Within,
)

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {int: "integer", str: "string", bool: "boolean"}
_NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 256}


def manifest_schema() -> dict[str, Any]:
    """The schema that `manifest.schema.json` holds. It says all that `reading` checks, but for the
    depth of a tree, and nothing of what `references` does."""
    definitions: dict[str, Any] = {"Tree": _tree()}
    root = _schema(Manifest, definitions)
    return {
        "$schema": _DRAFT,
        "title": "Manifest of a bundle of compiled kernels",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(kind):
        return _reference(kind, definitions)
    if kind == Tree:
        return {"$ref": "#/$defs/Tree"}
    origin = get_origin(kind)
    if origin is Annotated:
        base, *rules = get_args(kind)
        found = _schema(base, definitions)
        return {**found, **{k: v for rule in rules for k, v in _rule(rule).items()}}
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0], definitions)}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin in (Union, UnionType):
        some = next(k for k in get_args(kind) if k is not NoneType)
        return {"anyOf": [_schema(some, definitions), {"type": "null"}]}
    return {"type": _TYPES[kind]}


def _reference(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # of itself, while it is made
        definitions[name] = _object(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    properties = {f.name: _schema(hints[f.name], definitions) for f in fields(kind)}
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _rule(rule: object) -> dict[str, Any]:
    match rule:
        case Within(least, most):
            return {"minimum": least, "maximum": most}
        case Items(least, most):
            return {"minItems": least, "maxItems": most}
        case Matches(pattern, longest):
            return {"pattern": f"^(?:{pattern})$", "maxLength": longest}
    raise TypeError(f"no rule: {rule!r}")


def _tree() -> dict[str, Any]:
    tree, dim = {"$ref": "#/$defs/Tree"}, {"type": "integer", "minimum": 0, "maximum": 15}
    chains = _operation(CHAINS, [tree, tree]) | {"items": tree}
    pairs = _operation(PAIRS, [tree, tree])
    sided = _operation([w for w in LEAVES if w != "address"], [_NAME, dim])
    address = _operation(["address"], [_NAME])
    integer = {"type": "integer", "minimum": -MOST - 1, "maximum": MOST}
    text = "a number, the name of a value, or an operation and its operands"
    return {
        "description": f"Integer arithmetic of 64 bits: {text}.",
        "anyOf": [integer, _NAME, chains, pairs, sided, address],
    }


def _operation(words: Any, operands: list[Any]) -> dict[str, Any]:
    """A list that starts with one of the words; behind the operands, nothing else."""
    items = [{"enum": list(words)}, *operands]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
