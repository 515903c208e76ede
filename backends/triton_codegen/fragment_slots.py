"""Accesses to slots in fragment order (`loopir.fragment_order`) as Triton text.

The tile is a vector of what lies in the slot, one element after the other: `to_slot` and
`from_slot` relabel what a thread holds, which moves nothing where it is an MMA accumulator of
Hopper with warps along its rows; Triton sees to any other layout.
"""

from collections.abc import Iterator

from backends.triton_codegen.access import AccessWriter, Place
from loopir.fragment_order import SIDE
from loopir.ranges import index_is_below, index_is_nonnegative
from loopir.symbols import Expr

#: elements of a row of blocks that lie side by side, for each row of them
_RUN = SIDE // 2


def slot_place(writer: AccessWriter) -> Place:
    """Whole blocks of one slot. CodegenError: they may reach beyond it."""
    scalars, shape = writer.scalars, writer.buffer.source.shape
    rows, columns = writer.access.axes
    for dim, side in ((len(shape) - 2, "rows"), (len(shape) - 1, "columns")):
        if not _is_inside(writer, dim):
            name = writer.buffer.source.name
            writer.refuse(f"{side} that may lie outside a slot of {name}", name)
    name = writer.names.fresh(f"{writer.buffer.name}_at")
    start = columns.start * shape[-2] + _RUN * rows.start
    within = [name] if start == 0 else [scalars.summand(start), name]
    outer = ((dim, scalars.operand(e)) for dim, e in enumerate(writer.access.index[:-2]))
    mask = " & ".join(t for dim, text in outer for t in _compares(writer, dim, text))
    pointer = " + ".join([writer.buffer.name, *_slot_terms(writer), *within])
    return Place(tuple(_vector(writer, name)), pointer, mask)


def _vector(writer: AccessWriter, name: str) -> Iterator[str]:
    """Lines that number the elements from the first of the piece; all rows are one run."""
    operand, height = writer.scalars.operand, writer.buffer.source.shape[-2]
    rows, columns = (axis.size for axis in writer.access.axes)
    yield f"{name} = tl.arange(0, {operand(rows)} * {operand(columns)})"
    if operand(rows) != operand(height):
        run, step = operand(_RUN * rows), operand(_RUN * height)
        yield f"{name} = {name} // {run} * {step} + {name} % {run}"


def _slot_terms(writer: AccessWriter) -> Iterator[str]:
    """Where the slot starts, a term a dimension."""
    operand = writer.scalars.operand
    pairs = zip(writer.access.index[:-2], writer.buffer.strides[:-2], strict=True)
    for index, stride in pairs:
        assert isinstance(stride, Expr)
        if index != 0:
            yield f"{operand(index)} * {operand(stride)}"


def _is_inside(writer: AccessWriter, dim: int) -> bool:
    return not list(_compares(writer, dim, ""))


def _compares(writer: AccessWriter, dim: int, text: str) -> Iterator[str]:
    """Of a dimension's index, `text`: those that cannot be shown to hold."""
    extent = writer.buffer.source.shape[dim]
    if not index_is_nonnegative(writer.access, dim, writer.env):
        yield f"({text} >= 0)"
    if not index_is_below(writer.access, dim, writer.env, extent):
        yield f"({text} < {writer.scalars.text(extent)})"
