"""Text of single statements and of their parts."""

from loopir import nodes as ir
from loopir.ewise_text import ewise_text, literal_text
from loopir.expr_text import cond_text, expr_text
from loopir.symbols import Expr, names_of, sym
from loopir.types import OrderKind, Precision, Via


def stmt_text(stmt: ir.Stmt) -> str:
    """A statement on one line; of one that holds a body, what stands before the brace."""
    match stmt:
        case ir.Let(name, expr):
            return f"let {name} = {_scalar_text(expr)}"
        case ir.Set(name, expr):
            return f"set {name} = {expr_text(expr)}"
        case ir.Alloc(name, space, dtype, shape):
            return f"alloc {name}: {space.value} {dtype.value}{shape_text(shape)}"
        case ir.Fill(tile, value):
            return f"fill {tile}, {literal_text(value)}"
        case ir.Load():
            return _load_text(stmt)
        case ir.Store(target, tile, via):
            return f"store {_moved_text(target, tile)}{_via_text(via)}"
        case ir.Atomic(op, target, tile):
            return f"atomic {op.value} {_moved_text(target, tile)}"
        case ir.Barrier():
            return "barrier"
        case ir.Arrive(flag, counter, expected):
            return f"arrive {flag}, {_scalar_text(counter)}, {expr_text(expected)}"
        case ir.Dot(acc, a, b, precision):
            suffix = "" if precision is Precision.IEEE else f" {precision.value}"
            return f"dot {acc}, {a}, {b}{suffix}"
        case ir.Ewise(tile, expr):
            return f"ewise {tile} = {ewise_text(expr)}"
        case _:
            return _structure_text(stmt)


def _structure_text(
    stmt: ir.For | ir.While | ir.If | ir.Reduce | ir.Grid | ir.Grid1D,
) -> str:
    match stmt:
        case ir.For(iv, lo, hi, step, _, kind, flattened):
            suffix = "" if step == 1 else f" step {expr_text(step)}"
            suffix += " flattened" if flattened else ""
            return f"{kind.value} {iv} in {expr_text(lo)} .. {expr_text(hi)}{suffix}"
        case ir.While(cond, _):
            return f"while {cond_text(cond)}"
        case ir.If(cond, _, _):
            return f"if {cond_text(cond)}"
        case ir.Reduce(accumulators, _):
            return f"reduce ({', '.join(f'{a.tile}: {a.op.value}' for a in accumulators)})"
        case ir.Grid(axes, _, order):
            names = ", ".join(axis.iv for axis in axes)
            extents = shape_text(tuple(axis.extent for axis in axes))
            return f"grid ({names}) in {extents}{_order_text(order)}"
        case ir.Grid1D(iv, extent, _):
            return f"grid1d ({iv}) in [{expr_text(extent)}] persistent"


def _order_text(order: ir.TileOrder) -> str:
    match order.kind:
        case OrderKind.ALONG_N:
            return ""
        case OrderKind.ALONG_M:
            return " order along_m"
        case OrderKind.GROUPED:
            return f" order grouped({order.group})"


def _scalar_text(value: Expr | ir.ElementRead) -> str:
    if isinstance(value, ir.ElementRead):
        return f"{value.buffer}{shape_text(value.index)}"
    return expr_text(value)


def _load_text(load: ir.Load) -> str:
    word = "coop_load" if load.cooperative else "load"
    masked = " masked" if load.source.masked else ""
    other = literal_text(load.otherwise)
    otherwise = "" if other == "0" else f" else {other}"
    way = _via_text(load.via) + " evict_first" * load.evict_first
    return f"{word} {load.tile}, {access_text(load.source)}{masked}{otherwise}{way}"


def _via_text(via: Via) -> str:
    return "" if via is Via.POINTER else f" {via.value}"


def _moved_text(target: ir.Access, tile: str) -> str:
    return f"{access_text(target)}, {tile}{' masked' if target.masked else ''}"


def access_text(access: ir.Access) -> str:
    """An access without its `masked`, in short form where it has one."""
    if not is_rectangular(access):
        axes = ", ".join(map(_axis_text, access.axes))
        return f"{access.buffer}{shape_text(access.index)} over ({axes})"
    slices = {
        axis.name: f"{expr_text(axis.start)} +: {expr_text(axis.size)}" for axis in access.axes
    }
    texts = map(expr_text, access.index)
    return f"{access.buffer}[{', '.join(slices.get(text, text) for text in texts)}]"


def is_rectangular(access: ir.Access) -> bool:
    """Whether an access has the short text: its axes are `_0`, `_1`, ..., have no limits, and each
    is once, in order, an index of its own."""
    symbols = [sym(f"_{i}") for i in range(len(access.axes))]
    if [sym(axis.name) for axis in access.axes] != symbols:
        return False
    scalars = [e for e in access.index if e not in symbols]
    used = {name for e in scalars for name in names_of(e)}
    return (
        all(axis.limit is None for axis in access.axes)
        and [e for e in access.index if e in symbols] == symbols
        and used.isdisjoint(axis.name for axis in access.axes)
    )


def _axis_text(axis: ir.TileAxis) -> str:
    limit = "" if axis.limit is None else f" < {expr_text(axis.limit)}"
    return f"{axis.name} = {expr_text(axis.start)} +: {expr_text(axis.size)}{limit}"


def shape_text(shape: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(expr_text, shape))}]"
