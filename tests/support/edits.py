"""Cutting into programs: statements from text, statements put in the place of others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loopir.nodes import Body, Kernel, Program
from loopir.parser import parse
from loopir.walk import Path, node_at


def statements(text: str) -> Body:
    """The statements in `text`, one a line."""
    return parse(f"kernel @f() {{\n{text}\n}}\n").kernels[0].body


def replaced(root: Any, path: Path, new: Any) -> Any:
    """`root` with the node at `path` replaced by `new`."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(root, **{step: replaced(getattr(root, step), rest, new)})
    return (*root[:step], replaced(root[step], rest, new), *root[step + 1 :])


def spliced(program: Program, path: Path, new: Body) -> Program:
    """`program` with the statement at `path` replaced by the statements `new`."""
    body, at = node_at(program, path[:-1]), int(path[-1])
    return replaced(program, path[:-1], (*body[:at], *new, *body[at + 1 :]))


def put_before(program: Program, path: Path, new: Body) -> Program:
    return spliced(program, path, (*new, node_at(program, path)))


def put_after(program: Program, path: Path, new: Body) -> Program:
    return spliced(program, path, (node_at(program, path), *new))


def with_kernel(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """`program` with its first kernel changed."""
    first, *others = program.kernels
    return replace(program, kernels=(change(first), *others))
