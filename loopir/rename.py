"""Giving a stretch of statements names of its own, so that it can stand in a kernel twice."""

from collections.abc import Collection
from dataclasses import fields, is_dataclass, replace
from typing import Any

import sympy

from loopir.nodes import Body
from loopir.symbols import substitute, sym
from loopir.tile_order import fresh_name
from loopir.walk import names_made, walk

#: fields that hold a word, or the name of what no statement makes
_NOT_LOCAL = frozenset({"fn", "op", "buffer"})


def renamed(body: Body, taken: Collection[str]) -> Body:
    """`body` with each name that its statements make (tiles, scalars, flags, loop variables)
    replaced by one that is not `taken`, wherever it occurs."""
    names: dict[str, str] = {}
    for _, stmt in walk(body):
        for name in sorted(names_made(stmt)):
            names[name] = fresh_name(name, {*taken, *names.values()})
    return _with_names(body, names)


def _with_names(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, str):
        return names.get(node, node)
    if isinstance(node, sympy.Expr):
        return substitute(node, {old: sym(new) for old, new in names.items()})
    if isinstance(node, tuple):
        return tuple(_with_names(n, names) for n in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in _NOT_LOCAL}
    return replace(node, **{n: _with_names(value, names) for n, value in parts.items()})
