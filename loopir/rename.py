"""Names that are not in use; giving a stretch of statements names of its own, so that it can stand
in a kernel twice."""

from collections.abc import Collection, Mapping
from typing import Any

import sympy

from loopir.lexer import MAX_NAME
from loopir.nodes import Body
from loopir.symbols import substitute, sym
from loopir.walk import map_leaves, names_made, walk

_LONGEST_NUMBER = 8

#: fields that hold a word, or the name of what no statement makes
_NOT_LOCAL = frozenset({"fn", "op", "buffer"})


def fresh_name(wanted: str, taken: Collection[str]) -> str:
    """`wanted`, or the first of `wanted_1`, `wanted_2`, ... that is not taken, cut to the length of
    a name."""
    wanted = wanted[:MAX_NAME]
    if wanted not in taken:
        return wanted
    stem, n = wanted[: MAX_NAME - _LONGEST_NUMBER], 1
    while f"{stem}_{n}" in taken:
        n += 1
    return f"{stem}_{n}"


def fresh_names(wanted: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """A fresh name in place of each that is wanted; no two of them are one."""
    made: dict[str, str] = {}
    used = set(taken)
    for key, name in wanted.items():
        made[key] = fresh_name(name, used)
        used.add(made[key])
    return made


def renamed(body: Body, taken: Collection[str]) -> Body:
    """`body` with each name that its statements make (tiles, scalars, flags, loop variables)
    replaced by one that is not `taken`, wherever it occurs."""
    return with_names(body, fresh_names({name: name for name in names_within(body)}, taken))


def names_within(body: Body) -> tuple[str, ...]:
    """The names that the statements of `body` make, in text order."""
    return tuple(name for _, stmt in walk(body) for name in sorted(names_made(stmt)))


def with_names(body: Body, names: Mapping[str, str]) -> Body:
    """`body` with other names for tiles, scalars, flags and loop variables, wherever they occur."""
    symbols = {old: sym(new) for old, new in names.items()}

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, sympy.Expr):
            return substitute(leaf, symbols)
        return names.get(leaf, leaf) if isinstance(leaf, str) else leaf

    return map_leaves(body, changed, _NOT_LOCAL)
