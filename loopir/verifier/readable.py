"""The rule that stands around all others: a program is what its text says.

Nodes are ordinary dataclasses, and nothing checks what a caller puts into their fields: a Python
int where an expression belongs, a function without the right number of arguments, a NaN, an integer
beyond 64 bits. What is typed as `nodes.py` says, and reads back from its own text as itself, holds
none of these.
"""

import types
import typing
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from loopir.errors import ParseError
from loopir.nodes import Program, Stmt
from loopir.parser import parse
from loopir.printer import stmt_text, to_text
from loopir.walk import body_fields, walk_program


def ill_typed(program: Any) -> str | None:
    """The first field of a node that holds another type than `nodes.py` says; None if none does."""
    if not isinstance(program, Program):
        return f"a Program is needed, not {type(program).__name__}"
    return _misfit(program)


def unreadable(program: Program) -> str | None:
    """Why a well-typed `program` is not what its text says; None if it is."""
    if not program.kernels:
        return "a program has one kernel or more"
    try:
        again = parse(to_text(program))
    except ParseError as error:
        return f"its text does not parse: {error}"
    if again == program:
        return None
    return f"its text reads back as another program, {_where(program, again)}"


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _misfit(node: Any) -> str | None:
    for field in fields(node):
        value, hint = getattr(node, field.name), _hints(type(node))[field.name]
        if not _fits(value, hint):
            return f"{type(node).__name__}.{field.name} cannot be {value!r}"[:200]
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part) and (found := _misfit(part)):
                return found
    return None


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_fits(value, h) for h in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return isinstance(value, tuple) and all(_fits(v, item) for v in value)
    if hint in (int, float):
        return type(value) is hint
    return isinstance(value, hint)


def _where(program: Program, again: Program) -> str:
    pairs = zip(walk_program(program), walk_program(again), strict=False)
    for (_, old), (_, new) in pairs:
        if type(old) is not type(new) or _own_fields(old) != _own_fields(new):
            return f"at: {stmt_text(old)}"
    return "in its header"


def _own_fields(stmt: Stmt) -> list[object]:
    nested = body_fields(stmt)
    return [getattr(stmt, f.name) for f in fields(stmt) if f.name not in nested]
