"""Expressions of a manifest as programs for a stack, which is what the launcher in C runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backends.triton_codegen.bundle.c.writer import number, row
from loopir.errors import CodegenError

#: as LOOPIR_MOST_DEPTH of loopir_bundle.h
MOST_DEPTH = 32

_LEAVES = {"extent": "LOOPIR_EXTENT", "stride": "LOOPIR_STRIDE", "address": "LOOPIR_ADDRESS"}
_OPERATIONS = {
    "add": "LOOPIR_ADD",
    "sub": "LOOPIR_SUBTRACT",
    "mul": "LOOPIR_MULTIPLY",
    "floordiv": "LOOPIR_FLOOR_DIVIDE",
    "ceildiv": "LOOPIR_CEIL_DIVIDE",
    "mod": "LOOPIR_MODULO",
    "min": "LOOPIR_MINIMUM",
    "max": "LOOPIR_MAXIMUM",
}


@dataclass(frozen=True)
class Places:
    """The numbers that the tables give to values and buffers (tensors, then workspaces)."""

    values: Mapping[str, int]
    buffers: Mapping[str, int]

    def operations(self, tree: Any) -> tuple[str, ...]:
        """Initialisers of `loopir_op`. CodegenError: it needs a deeper stack than there is."""
        if _depth(tree) > MOST_DEPTH:
            raise CodegenError(f"an expression is nested deeper than {MOST_DEPTH}, as C allows")
        return tuple(self._operations(tree))

    def _operations(self, tree: Any) -> Iterator[str]:
        if isinstance(tree, int):
            yield row("LOOPIR_CONSTANT", number(tree), "0")
        elif isinstance(tree, str):
            yield row("LOOPIR_VALUE", str(self.values[tree]), "0")
        elif tree[0] in _LEAVES:
            dim = str(tree[2]) if len(tree) == 3 else "0"
            yield row(_LEAVES[tree[0]], str(self.buffers[tree[1]]), dim)
        else:
            yield from self._folded(*tree)

    def _folded(self, operation: str, first: Any, *rest: Any) -> Iterator[str]:
        yield from self._operations(first)
        for operand in rest:
            yield from self._operations(operand)
            yield row(_OPERATIONS[operation], "0", "0")


def _depth(tree: Any) -> int:
    """Places of the stack that the program for `tree` takes."""
    if not isinstance(tree, list | tuple) or tree[0] in _LEAVES:
        return 1
    first, *rest = map(_depth, tree[1:])
    return max([first, *(depth + 1 for depth in rest)])
