"""Slots of a workspace in fragment order: the elements of a tile, the last two dimensions, lie as
the threads of a block have them in an MMA accumulator, so that they go there without an exchange.

A thread of an m16n8 fragment, two of which lie side by side, has elements (r, c), (r, c + 1),
(r, c + 8), (r, c + 9), r < 8, and the same eight rows below: four elements are 16 bytes, eight rows
of them the 512 bytes of a warp. Whole columns of 16 x 16 blocks are contiguous.
Source of the fragment: PTX ISA, matrix fragments of `mma.m16n8k16` and of `wgmma`.
"""

from collections.abc import Iterator, Mapping

import sympy

from loopir.boxes import is_multiple
from loopir.nodes import Access, Workspace
from loopir.symbols import Expr, names_of, substitute, sym

#: rows and columns of a block
SIDE = 16
#: that 16 bytes hold four of
ELEMENT_BYTES = 4


def position(row: int, column: int, rows: int) -> int:
    """Where element (row, column) of a slot of so many rows lies, counted from its start."""
    block = (column // SIDE * 2 + row // 8 % 2) * (rows // SIDE) + row // SIDE
    thread = row % 8 * 4 + column // 2 % 4
    return (block * 32 + thread) * 4 + column // 8 % 2 * 2 + column % 2


def unfit(workspace: Workspace, values: Mapping[str, Expr]) -> str:
    """Why the slots of a workspace cannot be in fragment order, or nothing. `values`: what names of
    its sizes stand for."""
    if len(workspace.shape) < 2:
        return "no rows and columns"
    if workspace.dtype.bytes != ELEMENT_BYTES:
        return f"elements of {workspace.dtype.bytes} bytes, not {ELEMENT_BYTES}"
    if not all(_is_side(size, values) for size in workspace.shape[-2:]):
        return f"sides that are no constant multiples of {SIDE}"
    return ""


def misfits(access: Access, values: Mapping[str, Expr]) -> Iterator[str]:
    """What keeps an access from moving whole blocks of a slot."""
    axes = tuple(sym(axis.name) for axis in access.axes)
    names = {axis.name for axis in access.axes}
    outer = frozenset[str]().union(*map(names_of, access.index[:-2]))
    if len(axes) != 2 or access.index[-2:] != axes or outer & names:
        yield "no rows and columns of one slot"
        return
    if access.masked or any(axis.limit is not None for axis in access.axes):
        yield "a mask"
    if not all(_is_side(axis.size, values) for axis in access.axes):
        yield f"a size that is no constant multiple of {SIDE}"
    starts = (sympy.expand(substitute(axis.start, values)) for axis in access.axes)
    if not all(is_multiple(start, SIDE) for start in starts):
        yield f"a start that is not surely a multiple of {SIDE}"


def _is_side(size: Expr, values: Mapping[str, Expr]) -> bool:
    known = substitute(size, values)
    return bool(known.is_Integer) and int(known) % SIDE == 0  # pyright: ignore[reportArgumentType]
