"""Printer of the text form, and excerpts of it for errors. `docs/ir.md` has the grammar."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopir.expr_text import cond_text, ewise_text, expr_text, literal_text
from loopir.nodes import (
    Access,
    Alloc,
    Arrive,
    AtMost,
    Atomic,
    Barrier,
    Binding,
    Body,
    Dot,
    ElementRead,
    Ewise,
    Fill,
    For,
    Grid,
    Grid1D,
    If,
    Kernel,
    Let,
    Literal,
    Load,
    Param,
    Precision,
    Program,
    Reduce,
    Requirement,
    Set,
    Stmt,
    Store,
    TileAxis,
    TileOrder,
    While,
    Workspace,
    Zeroed,
)
from loopir.symbols import Expr, names_of, sym
from loopir.types import Direction, OrderKind
from loopir.walk import Path

__all__ = ["Line", "cond_text", "excerpt", "expr_text", "render", "stmt_text", "to_text"]

_INDENT = "  "
_CLAUSE_INDENT = "    "
_CONTEXT_LINES = 2


@dataclass(frozen=True)
class Line:
    """One line of a program's text and the path of the node that it belongs to. A closing brace belongs to the
    statement it closes, a blank line to the program."""

    text: str
    path: Path


def to_text(program: Program) -> str:
    """The text of a program, with a newline at its end; `parse` gives the equal program back."""
    return "".join(f"{line.text}\n" for line in render(program))


def render(program: Program) -> tuple[Line, ...]:
    """The lines of `to_text`, each with its path."""
    return tuple(_program_lines(program))


def _program_lines(program: Program) -> Iterator[Line]:
    for i, workspace in enumerate(program.workspaces):
        yield Line(f"workspace {workspace_text(workspace)}", ("workspaces", i))
    for i, kernel in enumerate(program.kernels):
        if i or program.workspaces:
            yield Line("", ())
        yield from _kernel_lines(kernel, ("kernels", i))


def _kernel_lines(kernel: Kernel, path: Path) -> Iterator[Line]:
    *clauses, last = _header_lines(kernel, path)
    yield from clauses
    yield Line(f"{last.text} {{", last.path)
    yield from _body_lines(kernel.body, (*path, "body"), _INDENT)
    yield Line("}", path)


def _header_lines(kernel: Kernel, path: Path) -> Iterator[Line]:
    yield Line(f"kernel @{kernel.name}({', '.join(map(param_text, kernel.params))})", path)
    if kernel.where:
        bindings = ", ".join(map(_item_text, kernel.where))
        yield Line(f"{_CLAUSE_INDENT}where {bindings}", (*path, "where"))
    for j, alias in enumerate(kernel.aliases):
        yield Line(f"{_CLAUSE_INDENT}alias({alias.a}, {alias.b})", (*path, "aliases", j))
    if kernel.requires:
        required = ", ".join(map(_item_text, kernel.requires))
        yield Line(f"{_CLAUSE_INDENT}requires {required}", (*path, "requires"))


def _body_lines(body: Body, path: Path, indent: str) -> Iterator[Line]:
    for i, stmt in enumerate(body):
        yield from _stmt_lines(stmt, (*path, i), indent)


def _stmt_lines(stmt: Stmt, path: Path, indent: str) -> Iterator[Line]:
    head, deeper = f"{indent}{stmt_text(stmt)}", indent + _INDENT
    if isinstance(stmt, If):
        yield Line(f"{head} {{", path)
        yield from _body_lines(stmt.then, (*path, "then"), deeper)
        if stmt.orelse:
            yield Line(f"{indent}}} else {{", (*path, "orelse"))
            yield from _body_lines(stmt.orelse, (*path, "orelse"), deeper)
        yield Line(f"{indent}}}", path)
    elif isinstance(stmt, For | While | Reduce | Grid | Grid1D):
        yield Line(f"{head} {{", path)
        yield from _body_lines(stmt.body, (*path, "body"), deeper)
        yield Line(f"{indent}}}", path)
    else:
        yield Line(head, path)


# --- parts of the header ------------------------------------------------------------------------------------------


def param_text(param: Param) -> str:
    direction = "" if param.direction is Direction.IN else f"{param.direction.value} "
    return f"{direction}{param.name}: {param.dtype.value}{_shape_text(param.shape)}{_layout_text(param)}"


def _layout_text(param: Param) -> str:
    if param.contiguous == len(param.shape) - 1:
        return ""
    return f" contiguous({'none' if param.contiguous is None else param.contiguous})"


def workspace_text(workspace: Workspace) -> str:
    return f"{workspace.name}: {workspace.dtype.value}{_shape_text(workspace.shape)}"


def _shape_text(shape: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(expr_text, shape))}]"


def _item_text(item: Binding | Requirement) -> str:
    match item:
        case Binding(name, expr):
            return f"{name} = {expr_text(expr)}"
        case Zeroed(buffer):
            return f"zeroed({buffer})"
        case AtMost(name, expr):
            return f"at_most({name}, {expr_text(expr)})"


# --- statements ---------------------------------------------------------------------------------------------------


def stmt_text(stmt: Stmt) -> str:
    """A statement on one line; of one that holds a body, what stands before the brace."""
    match stmt:
        case Let(name, expr):
            return f"let {name} = {_scalar_text(expr)}"
        case Set(name, expr):
            return f"set {name} = {expr_text(expr)}"
        case Alloc(name, space, dtype, shape):
            return f"alloc {name}: {space.value} {dtype.value}{_shape_text(shape)}"
        case Fill(tile, value):
            return f"fill {tile}, {literal_text(value)}"
        case Load():
            return _load_text(stmt)
        case Store(target, tile):
            return f"store {_moved_text(target, tile)}"
        case Atomic(op, target, tile):
            return f"atomic {op.value} {_moved_text(target, tile)}"
        case Barrier():
            return "barrier"
        case Arrive(flag, counter, expected):
            return f"arrive {flag}, {_scalar_text(counter)}, {expr_text(expected)}"
        case Dot(acc, a, b, precision):
            suffix = "" if precision is Precision.IEEE else f" {precision.value}"
            return f"dot {acc}, {a}, {b}{suffix}"
        case Ewise(tile, expr):
            return f"ewise {tile} = {ewise_text(expr)}"
        case _:
            return _structure_text(stmt)


def _structure_text(stmt: For | While | If | Reduce | Grid | Grid1D) -> str:
    match stmt:
        case For(iv, lo, hi, step, _, kind):
            suffix = "" if step == 1 else f" step {expr_text(step)}"
            return f"{kind.value} {iv} in {expr_text(lo)} .. {expr_text(hi)}{suffix}"
        case While(cond, _):
            return f"while {cond_text(cond)}"
        case If(cond, _, _):
            return f"if {cond_text(cond)}"
        case Reduce(accumulators, _):
            return f"reduce ({', '.join(f'{a.tile}: {a.op.value}' for a in accumulators)})"
        case Grid(axes, _, order):
            names = ", ".join(axis.iv for axis in axes)
            extents = _shape_text(tuple(axis.extent for axis in axes))
            return f"grid ({names}) in {extents}{_order_text(order)}"
        case Grid1D(iv, extent, _):
            return f"grid1d ({iv}) in [{expr_text(extent)}] persistent"


def _order_text(order: TileOrder) -> str:
    if order.kind is OrderKind.ALONG_N:
        return ""
    return f" order {order.kind.value}" + (f"({order.group})" if order.kind is OrderKind.GROUPED else "")


def _scalar_text(value: Expr | ElementRead) -> str:
    if isinstance(value, ElementRead):
        return f"{value.buffer}{_shape_text(value.index)}"
    return expr_text(value)


def _load_text(load: Load) -> str:
    word = "coop_load" if load.cooperative else "load"
    masked = " masked" if load.source.masked else ""
    other = literal_text(load.otherwise)
    return f"{word} {load.tile}, {access_text(load.source)}{masked}" + ("" if other == "0" else f" else {other}")


def _moved_text(target: Access, tile: str) -> str:
    return f"{access_text(target)}, {tile}{' masked' if target.masked else ''}"


def access_text(access: Access) -> str:
    """An access without its `masked`, in short form where it has one."""
    if is_rectangular(access):
        starts = {sym(axis.name): f"{expr_text(axis.start)} +: {expr_text(axis.size)}" for axis in access.axes}
        return f"{access.buffer}[{', '.join(starts.get(e) or expr_text(e) for e in access.index)}]"
    axes = ", ".join(map(_axis_text, access.axes))
    return f"{access.buffer}{_shape_text(access.index)} over ({axes})"


def _axis_text(axis: TileAxis) -> str:
    limit = "" if axis.limit is None else f" < {expr_text(axis.limit)}"
    return f"{axis.name} = {expr_text(axis.start)} +: {expr_text(axis.size)}{limit}"


def is_rectangular(access: Access) -> bool:
    """Whether the access has the short text: axes `_0`, `_1`, ..., without limits, each of them one index, in order."""
    names = [f"_{i}" for i in range(len(access.axes))]
    if [a.name for a in access.axes] != names or any(a.limit is not None for a in access.axes):
        return False
    symbols = [sym(n) for n in names]
    scalars = [e for e in access.index if e not in symbols]
    used = frozenset().union(*map(names_of, scalars))
    return [e for e in access.index if e in symbols] == symbols and used.isdisjoint(names)


# --- excerpts -----------------------------------------------------------------------------------------------------


def excerpt(program: Program, path: Path, focus: str = "") -> str:
    """The lines around the node at `path`, numbered, with carets under `focus` (a text on that line) or, if that is
    empty or not there, under the start of the node."""
    lines = render(program)
    hit = _line_of(lines, path)
    first, stop = max(0, hit - _CONTEXT_LINES), min(len(lines), hit + _CONTEXT_LINES + 1)
    gutter = len(str(stop))
    shown = [f"  {n + 1:>{gutter}} | {lines[n].text}".rstrip() for n in range(first, stop)]
    start, length = _span(lines[hit].text, _anchor(program, path), focus)
    shown.insert(hit - first + 1, f"  {' ' * gutter} | {' ' * start}{'^' * length}")
    return "\n".join(shown)


def _line_of(lines: tuple[Line, ...], path: Path) -> int:
    """The first line whose path is the longest prefix of `path`."""
    fits = [i for i, line in enumerate(lines) if line.text and line.path == path[: len(line.path)]]
    return max(fits, key=lambda i: (len(lines[i].path), -i), default=0)


def _anchor(program: Program, path: Path) -> str:
    """The text of a node that shares its line with others: a parameter, a binding, a requirement."""
    match path:
        case ("kernels", int(i), "params", int(j), *_):
            return param_text(program.kernels[i].params[j])
        case ("kernels", int(i), ("where" | "requires") as field, int(j), *_):
            return _item_text(getattr(program.kernels[i], field)[j])
    return ""


def _span(text: str, anchor: str, focus: str) -> tuple[int, int]:
    """Column from 0 and length of what the carets mark: `focus` inside `anchor`, else on the line, else the start."""
    start = max(0, text.find(anchor)) if anchor else len(text) - len(text.lstrip())
    within = _find(text[start : start + len(anchor)] if anchor else text[start:], focus)
    if within >= 0:
        return start + within, len(focus)
    anywhere = _find(text, focus)
    return (anywhere, len(focus)) if anywhere >= 0 else (start, 1)


def _find(text: str, focus: str) -> int:
    """Where `focus` begins, as a word of its own if it is one somewhere; -1 if it is empty or absent."""
    if not focus:
        return -1
    word = re.search(rf"(?<!\w){re.escape(focus)}(?!\w)", text)
    return word.start() if word else text.find(focus)
