"""Printer of the text form, and excerpts of it for errors. `docs/ir.md` has the grammar."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopir import nodes as ir
from loopir.expr_text import cond_text, expr_text
from loopir.stmt_text import shape_text, stmt_text
from loopir.types import Direction, ElementOrder
from loopir.walk import Path

__all__ = ["Line", "cond_text", "excerpt", "expr_text", "render", "stmt_text", "to_text"]

_INDENT = "  "
_CLAUSE_INDENT = "    "
_CONTEXT_LINES = 2


@dataclass(frozen=True)
class Line:
    """A line of a program's text and the path of the node that it belongs to: a closing brace to
    the statement that it closes, a blank line to the program."""

    text: str
    path: Path


def to_text(program: ir.Program) -> str:
    """The text of a program, a newline at its end; `parse` gives the equal program back."""
    return "".join(f"{line.text}\n" for line in render(program))


def render(program: ir.Program) -> tuple[Line, ...]:
    """The lines of `to_text`, each with its path."""
    return tuple(_program_lines(program))


def _program_lines(program: ir.Program) -> Iterator[Line]:
    for i, workspace in enumerate(program.workspaces):
        shape = shape_text(workspace.shape)
        order = "" if workspace.order is ElementOrder.ROWS else f" {workspace.order.value}"
        text = f"workspace {workspace.name}: {workspace.dtype.value}{shape}{order}"
        yield Line(text, ("workspaces", i))
    for i, kernel in enumerate(program.kernels):
        if i or program.workspaces:
            yield Line("", ())
        yield from _kernel_lines(kernel, ("kernels", i))


def _kernel_lines(kernel: ir.Kernel, path: Path) -> Iterator[Line]:
    *head, last = _header_lines(kernel, path)
    yield from head
    yield Line(f"{last.text} {{", last.path)
    yield from _body_lines(kernel.body, (*path, "body"), _INDENT)
    yield Line("}", path)


def _header_lines(kernel: ir.Kernel, path: Path) -> Iterator[Line]:
    yield Line(f"kernel @{kernel.name}({', '.join(map(param_text, kernel.params))})", path)
    if kernel.where:
        bindings = ", ".join(map(_item_text, kernel.where))
        yield Line(f"{_CLAUSE_INDENT}where {bindings}", (*path, "where"))
    for j, alias in enumerate(kernel.aliases):
        yield Line(f"{_CLAUSE_INDENT}alias({alias.a}, {alias.b})", (*path, "aliases", j))
    if kernel.requires:
        items = ", ".join(map(_item_text, kernel.requires))
        yield Line(f"{_CLAUSE_INDENT}requires {items}", (*path, "requires"))


def param_text(param: ir.Param) -> str:
    direction = "" if param.direction is Direction.IN else f"{param.direction.value} "
    shape = shape_text(param.shape)
    return f"{direction}{param.name}: {param.dtype.value}{shape}{_layout_text(param)}"


def _layout_text(param: ir.Param) -> str:
    if param.contiguous == len(param.shape) - 1:
        return ""
    return f" contiguous({'none' if param.contiguous is None else param.contiguous})"


def _item_text(item: ir.Binding | ir.Requirement) -> str:
    match item:
        case ir.Binding(name, expr):
            return f"{name} = {expr_text(expr)}"
        case ir.Zeroed(buffer):
            return f"zeroed({buffer})"
        case ir.AtMost(name, expr):
            return f"at_most({name}, {expr_text(expr)})"


def _body_lines(body: ir.Body, path: Path, indent: str) -> Iterator[Line]:
    for i, stmt in enumerate(body):
        yield from _stmt_lines(stmt, (*path, i), indent)


def _stmt_lines(stmt: ir.Stmt, path: Path, indent: str) -> Iterator[Line]:
    head = f"{indent}{stmt_text(stmt)}"
    match stmt:
        case ir.If(_, then, orelse):
            yield Line(f"{head} {{", path)
            yield from _body_lines(then, (*path, "then"), indent + _INDENT)
            if orelse:
                yield Line(f"{indent}}} else {{", (*path, "orelse"))
                yield from _body_lines(orelse, (*path, "orelse"), indent + _INDENT)
            yield Line(f"{indent}}}", path)
        case ir.For() | ir.While() | ir.Reduce() | ir.Grid() | ir.Grid1D():
            yield Line(f"{head} {{", path)
            yield from _body_lines(stmt.body, (*path, "body"), indent + _INDENT)
            yield Line(f"{indent}}}", path)
        case _:
            yield Line(head, path)


# --- excerpts -------------------------------------------------------------------------------------


def excerpt(program: ir.Program, path: Path, focus: str = "") -> str:
    """The numbered lines around the node at `path`, with carets under `focus`, a text on its line,
    or, where that is empty or absent, under the start of the node."""
    lines = render(program)
    hit = _line_of(lines, path)
    first, stop = max(0, hit - _CONTEXT_LINES), min(len(lines), hit + _CONTEXT_LINES + 1)
    gutter = len(str(stop))
    shown = [f"  {n + 1:>{gutter}} | {lines[n].text}".rstrip() for n in range(first, stop)]
    start, length = _span(lines[hit].text, _anchor(program, path), focus)
    shown.insert(hit - first + 1, f"  {' ' * gutter} | {' ' * start}{'^' * length}")
    return "\n".join(shown)


def _line_of(lines: tuple[Line, ...], path: Path) -> int:
    """The first line with the longest path that `path` begins with."""
    fits = [n for n, line in enumerate(lines) if line.path and line.path == path[: len(line.path)]]
    return max(fits, key=lambda n: (len(lines[n].path), -n), default=0)


def _anchor(program: ir.Program, path: Path) -> str:
    """The text of a node that shares its line: a parameter, a binding, a requirement."""
    match path:
        case ("kernels", int(i), "params", int(j), *_):
            return param_text(program.kernels[i].params[j])
        case ("kernels", int(i), "where", int(j), *_):
            return _item_text(program.kernels[i].where[j])
        case ("kernels", int(i), "requires", int(j), *_):
            return _item_text(program.kernels[i].requires[j])
    return ""


def _span(text: str, anchor: str, focus: str) -> tuple[int, int]:
    """Where the carets start, from 0, and how many: under `focus` in `anchor`, else in `text`."""
    anchored = text.find(anchor)
    start = anchored + len(text[anchored:]) - len(text[anchored:].lstrip())
    inside = _find(text[anchored : anchored + len(anchor)], focus)
    if inside >= 0:
        return anchored + inside, len(focus)
    anywhere = _find(text, focus)
    return (anywhere, len(focus)) if anywhere >= 0 else (start, 1)


def _find(text: str, focus: str) -> int:
    """Where `focus` begins, as a word of its own if it is one; -1 if it is empty or absent."""
    if not focus:
        return -1
    word = re.search(rf"(?<!\w){re.escape(focus)}(?!\w)", text)
    return word.start() if word else text.find(focus)
