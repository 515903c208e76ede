"""SK07 to SK10, SK13, SK19: where and how the result goes; that nothing else leaves the tile."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import sympy

from loopir.deps import scalar_values
from loopir.effects import buffers_read, buffers_written, has_side_effect
from loopir.nodes import Access, Atomic, For, GridAxis, If, Load, Param, Stmt, Store, While
from loopir.printer import stmt_text
from loopir.scope import spelled
from loopir.symbols import Expr, names_of, substitute
from loopir.types import Direction
from loopir.walk import Path, node_at, substitute_node
from passes.base import Refusal
from passes.by_descriptor import descriptors_last
from passes.stream_k.coverage import Sizes, covers
from passes.stream_k.dataflow import Writeback, epilogue, other_uses, unseparated, writebacks
from passes.stream_k.nest import Nest
from passes.stream_k.options import Merge, Options, merge_of
from passes.stream_k.side_by_side import joined


def writeback_to_output(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK07"""
    backs = writebacks(nest)
    if not backs:
        found = "no accumulator is stored after the reduce"
        yield _sk07(nest.reduce_path, found, "store it to an `out` parameter")
    for back in backs:
        yield from _target_faults(nest, back, merge_of(options) is Merge.ATOMIC)
        for path, stmt in other_uses(nest, back):
            name = _buffer(stmt)
            if name == back.store.target.buffer and not _is_exact_read(nest, path, stmt, back):
                found = f"{name} is used here and written at the end of the tile"
                yield _sk07(path, found, "use another buffer", name)


def _target_faults(nest: Nest, back: Writeback, is_zeroed: bool) -> Iterator[Refusal]:
    name = back.store.target.buffer
    param = nest.param(name)
    if param is None:
        hint = "store to an `out` parameter"
        yield _sk07(back.path, f"{name} is a workspace", hint, name)
    elif not is_zeroed:
        return
    elif param.direction is not Direction.OUT:
        found = f"{name} is {param.direction.value}: an atomic merge zeroes it first"
        yield _sk07(back.path, found, f"declare `out {name}`", name)
    elif unseparated(nest, back) is None and not _covers(nest, back, param):
        found = f"elements of {name} may be left as they were: an atomic merge zeroes them"
        hint = f"store every element of {name}, or pass only the part of it that is stored"
        yield _sk07(back.path, found, hint, name)


def _covers(nest: Nest, back: Writeback, param: Param) -> bool:
    """Whether the tiles reach all of the output, as far as the grid is one that SK06 accepts."""
    if any(names_of(axis.extent) & nest.grid_names for axis in nest.axes):
        return True
    where = spelled(nest.kernel)
    sizes = Sizes(nest.constant, lambda e: substitute(e, where))
    variables = (*nest.axes, *_waves_from_zero(nest, back.path))
    whole = joined(_targets(nest, param), nest.constant)
    stored = (_together(nest, back, param), *((access, param.shape) for access in whole))
    return any(covers(access, shape, variables, sizes) for access, shape in stored)


def _together(nest: Nest, back: Writeback, param: Param) -> tuple[Access, tuple[Expr, ...]]:
    """What a writeback stores, and the shape of the output. A dimension that it gives a number, as
    in `C[i, j, 0]` beside `C[i, j, 1]`, has one element, 0, if the writebacks that differ from it
    in nothing else give every number there."""
    access = _target(nest, back)
    fixed = [d for d, index in enumerate(access.index) if nest.constant(index) is not None]
    targets = _targets(nest, param)
    alike = [x for x in targets if _at_zero(x, fixed) == _at_zero(access, fixed)]
    stored = {tuple(nest.constant(x.index[d]) for d in fixed) for x in alike}
    extents = [nest.constant(param.shape[d]) for d in fixed]
    if not stored.issuperset(_all_numbers(extents, len(stored))):
        return access, param.shape
    shape = tuple(sympy.Integer(1) if d in fixed else n for d, n in enumerate(param.shape))
    return _at_zero(access, fixed), shape


def _all_numbers(extents: list[int | None], most: int) -> Iterator[tuple[int, ...] | None]:
    """Every index of an array of these extents; just None if it has more than `most` elements, or
    nobody knows."""
    known = [n for n in extents if n is not None]
    if len(known) < len(extents) or math.prod(known) > most:
        return iter((None,))
    return product(*map(range, known))


def _targets(nest: Nest, param: Param) -> list[Access]:
    """What the writebacks store of one output."""
    return [x for x in (_target(nest, b) for b in writebacks(nest)) if x.buffer == param.name]


def _target(nest: Nest, back: Writeback) -> Access:
    return substitute_node(back.store.target, scalar_values(nest.body))


def _at_zero(access: Access, dims: list[int]) -> Access:
    """`access` with 0 as the index of some dimensions."""
    index = (sympy.Integer(0) if d in dims else x for d, x in enumerate(access.index))
    return replace(access, index=tuple(index))


def _waves_from_zero(nest: Nest, path: Path) -> Iterator[GridAxis]:
    """The variables of the wave loops around a statement."""
    for loop in nest.loops_around(path):
        if loop.lo == 0 and nest.constant(loop.step) == 1:
            yield GridAxis(loop.iv, loop.hi)


def _sk07(path: Path, found: str, hint: str, focus: str = "") -> Refusal:
    rule = "the accumulators go to a global output that nothing else in the launch touches"
    return Refusal("SK07", rule, path, found, hint, focus)


def no_epilogue(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK08"""
    rule = "with merge=atomic nothing but the writeback follows the reduction"
    for path in epilogue(nest):
        stmt = node_at(nest.body, nest.inner(path))
        found = "an epilogue, which would run once for every partial tile"
        hint = "take merge=workspace, which runs an epilogue once, or store the accumulator itself"
        if isinstance(stmt, If | For | While):
            found = f"the writeback stands in `{stmt_text(stmt)}`"
            hint = "store every tile once, as it is, or take merge=workspace"
        yield Refusal("SK08", rule, path, found, hint)
        return


def no_alias(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK09"""
    rule = "no other buffer that the kernel uses is an alias of the output"
    for back in writebacks(nest):
        output = back.store.target.buffer
        for path, stmt in other_uses(nest, back):
            name = _buffer(stmt)
            if name != output and not _is_exact_read(nest, path, stmt, back):
                found = f"{name} may be the storage of {output}, and is used here"
                hint = f"copy {name}, and drop the alias"
                yield Refusal("SK09", rule, path, found, hint, name)


def injective_writeback(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK10"""
    rule = "no two tiles write one element"
    for back in writebacks(nest):
        names = unseparated(nest, back)
        if names is not None:
            found = f"the element written does not tell {', '.join(names) or 'the iteration'}"
            hint = "index the output by every grid variable, with tiles side by side"
            yield Refusal("SK10", rule, back.path, found, hint, back.store.target.buffer)


def no_descriptor(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK19"""
    return descriptors_last(nest.statements, "SK19")


def no_side_effects(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK13"""
    rule = "no side effect but the writeback"
    runs_once = {back.path for back in writebacks(nest)}
    if merge_of(options) is not Merge.ATOMIC:
        runs_once |= {path for path, stmt in nest.after if isinstance(stmt, Store | Atomic)}
    for path, stmt in nest.statements:
        if has_side_effect(stmt) and path not in runs_once:
            found = "a store, atomic or arrive of its own, which would run once for every segment"
            yield Refusal("SK13", rule, path, found, "move it to another kernel")


def zeroed_once(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK13, of merge=fixup"""
    rule = "with merge=fixup what follows the reduction adds into no zeroed output"
    if merge_of(options) is not Merge.FIXUP:
        return
    for path, stmt in nest.after:
        param = nest.param(stmt.target.buffer) if isinstance(stmt, Atomic) else None
        if param is not None and param.direction is Direction.OUT:
            found = f"{param.name} would be zeroed again before the second kernel"
            hint = f"take merge=workspace, or declare `inout {param.name}` and zero it yourself"
            yield Refusal("SK13", rule, path, found, hint, param.name)


def _buffer(stmt: Stmt) -> str:
    """The buffer that a statement accesses."""
    return next(iter(buffers_read(stmt) | buffers_written(stmt)), "")


def _is_exact_read(nest: Nest, path: Path, stmt: Stmt, back: Writeback) -> bool:
    """Whether `stmt` loads, behind the reduce, just the elements that the writeback stores
    (in-place beta * C)."""
    target = back.store.target
    return (
        isinstance(stmt, Load)
        and any(path == p for p, _ in nest.after)
        and (stmt.source.index, stmt.source.axes) == (target.index, target.axes)
    )
