"""How near to the reference interpreter a compiled kernel must come."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from loopir.nodes import Apply, Dot, Literal, Program
from loopir.scope import allocs
from loopir.types import Precision
from loopir.walk import walk_program
from passes.opt_compare import ROUNDING

_EXACT = frozenset({"add", "sub", "mul", "neg", "max", "min", "and", "or", "abs"})
_TF32_ROUNDING = 2.0**-8


def is_exact(program: Program) -> bool:
    """Whether small integers give the same bits wherever and in whichever order they are added: no
    division or transcendental function, no fraction, no accumulator narrower than 32 bits."""
    wide = {name for k in program.kernels for name, a in allocs(k).items() if a.dtype.bits >= 32}
    for _, stmt in walk_program(program):
        if isinstance(stmt, Dot) and stmt.acc not in wide:
            return False
        if not all(map(_keeps_integers, _parts(getattr(stmt, "expr", None)))):
            return False
    return True


def rounding(program: Program) -> float:
    """The tolerance of `compared`: tf32 operands keep 11 bits, and devices cut the rest off or
    round it."""
    dots = (stmt for _, stmt in walk_program(program) if isinstance(stmt, Dot))
    return _TF32_ROUNDING if any(d.precision is Precision.TF32 for d in dots) else ROUNDING


def _keeps_integers(node: Any) -> bool:
    if isinstance(node, Literal):
        return node.value - node.value != 0 or node.value == int(node.value)
    return not isinstance(node, Apply) or node.fn in _EXACT


def _parts(node: Any) -> Iterator[Any]:
    """A node of an element-wise expression, and those below it."""
    yield node
    below = [getattr(node, f.name) for f in fields(node)] if is_dataclass(node) else []
    for part in below if not isinstance(node, tuple) else node:
        yield from _parts(part)
