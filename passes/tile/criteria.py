"""The criteria TI03 .. TI11 over a matched nest: each a pure function that yields its refusals;
those about dependences are in `dataflow`."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from loopir.effects import access_of
from loopir.nodes import (
    Alloc,
    Apply,
    AxisReduce,
    Cast,
    ElementRead,
    Ewise,
    Ewise_,
    Expand,
    Fill,
    For,
    Let,
    Load,
    Mask,
    Part,
    Stmt,
    Store,
)
from loopir.printer import expr_text, stmt_text
from loopir.symbols import CeilDiv, Expr, FloorDiv, Mod, operands
from loopir.types import DType, Precision, Space
from loopir.walk import Path
from passes.base import Refusal
from passes.tile.contributions import Contributions
from passes.tile.dataflow import (
    independent_iterations,
    nothing_carried,
)
from passes.tile.flow import Step
from passes.tile.groups import GroupKind, Groups
from passes.tile.nest import Nest


def fixed_extents(nest: Nest) -> Iterator[Refusal]:
    """TI03"""
    rule = "each loop counts 0, 1, ... to an end that is the same for all iterations"
    for path, loop in (*nest.band, *nest.loops):
        if nest.resolved(loop.lo) != 0 or loop.step != 1:
            found = f"it starts at {expr_text(loop.lo)} with step {expr_text(loop.step)}"
            hint = "shift and scale the indices, so that the loop counts 0, 1, ..."
            yield Refusal("TI03", rule, path, found, hint, loop.iv)
        for name in sorted(nest.indices_of([loop.hi])):
            found = f"the end of {loop.iv} depends on {name}"
            hint = "loop to the largest end, and let a masked load give the identity beyond"
            yield Refusal("TI03", rule, path, found, hint, loop.iv)
        if nest.reads_memory(loop.hi) and not nest.indices_of([loop.hi]):
            found = f"the end of {loop.iv} is read from memory"
            yield Refusal("TI03", rule, path, found, "make it a launch symbol", loop.iv)


def tilable_statements(nest: Nest) -> Iterator[Refusal]:
    """TI04"""
    rule = "statements are alloc, fill, load, ewise, let, and outside the reduce store"
    inside = {path for path, _ in nest.inside}
    for path, stmt in nest.statements:
        allowed = (Alloc, Fill, Load, Ewise, Let) if path in inside else _OUTSIDE
        if not isinstance(stmt, allowed):
            found = f"`{stmt_text(stmt)}`"
            yield Refusal("TI04", rule, path, found, _hint_instead_of(stmt))
        if isinstance(stmt, Ewise) and _has_axes(stmt.expr):
            found = "an expression over an axis, which one element does not have"
            yield Refusal("TI04", rule, path, found, "write it without expand, sum and the like")


_OUTSIDE = (Alloc, Fill, Load, Ewise, Let, Store)


def _hint_instead_of(stmt: Stmt) -> str:
    match stmt:
        case Store():
            return "store behind the reduce"
        case For():
            return "nest the summed loops perfectly, inside the reduce"
    return "write it without conditions, inner loops and synchronisation"


def _has_axes(expr: Ewise_) -> bool:
    match expr:
        case Expand() | AxisReduce() | Mask() | Part():
            return True
        case Cast(_, arg):
            return _has_axes(arg)
        case Apply(_, args):
            return any(map(_has_axes, args))
    return False


def unplaced_scalars(nest: Nest) -> Iterator[Refusal]:
    """TI05"""
    rule = "every tile is one local element"
    for path, stmt in nest.statements:
        if isinstance(stmt, Alloc) and (stmt.shape or stmt.space is not Space.LOCAL):
            found = f"{stmt.name} is {stmt.space.value} and has {len(stmt.shape)} dimensions"
            hint = f"write `alloc {stmt.name}: local {stmt.dtype.value}[]`, or leave tile out"
            yield Refusal("TI05", rule, path, found, hint, stmt.name)


def computable_places(nest: Nest, groups: Groups) -> Iterator[Refusal]:
    """TI06"""
    inside = {path for path, _ in nest.inside}
    for path, stmt in nest.statements:
        yield from _read_of_an_element(nest, groups, path, stmt, path in inside)
        access = access_of(stmt)
        for divisor in sorted(_divisors(nest, access.index if access else ()), key=str):
            for name in sorted(nest.indices_of([divisor]) & groups.indices):
                found = f"a divisor, {expr_text(divisor)}, depends on {name}"
                hint = "a divisor may be zero beyond the edge of a tile: divide by sizes only"
                yield Refusal("TI06", _TI06, path, found, hint)


_TI06 = "places in memory are arithmetic of the indices that tiles run over"


def _read_of_an_element(
    nest: Nest, groups: Groups, path: Path, stmt: Stmt, is_inside: bool
) -> Iterator[Refusal]:
    if not (isinstance(stmt, Let) and isinstance(stmt.expr, ElementRead)):
        return
    depends = sorted(nest.indices_of(stmt.expr.index) & groups.indices)
    found = f"{stmt.name} is an element of {stmt.expr.buffer} that depends on {', '.join(depends)}"
    if depends:
        hint = "gather the rows before, or let every load use the index, so that it stays a loop"
        yield Refusal("TI06", _TI06, path, found, hint, stmt.name)
    elif is_inside:
        found = f"{stmt.name} is an element of {stmt.expr.buffer}, read inside the reduce"
        yield Refusal("TI06", _TI06, path, found, "read it before the reduce", stmt.name)


def _divisors(nest: Nest, index: tuple[Expr, ...]) -> set[Expr]:
    resolved = map(nest.resolved, index)
    return {operands(d)[1] for e in resolved for d in e.atoms(FloorDiv, Mod, CeilDiv)}


def associative_operators(nest: Nest) -> Iterator[Refusal]:
    """TI09"""
    rule = "every operator is associative"
    for acc in nest.reduce.accumulators:
        if not acc.op.is_associative:
            found = f"accumulator {acc.tile} combines by {acc.op.value}"
            hint = "a tile combines many elements at once, in no order: keep the loops"
            focus = f"{acc.tile}: {acc.op.value}"
            yield Refusal("TI09", rule, nest.reduce_path, found, hint, focus)


def stored_as_wide(nest: Nest, steps: tuple[Step, ...]) -> Iterator[Refusal]:
    """TI10"""
    rule = "what is stored depends on no index that the place of the store lacks"
    for step in steps:
        if not isinstance(step.stmt, Store):
            continue
        wider = set(step.reads[step.stmt.tile]) - {*step.axes, GroupKind.K}
        for kind in (kind for kind in GroupKind if kind in wider):
            found = f"{step.stmt.tile} has an element for each index of group {kind.value}"
            hint = "index the store by it, or leave the loop out, if it is one iteration"
            yield Refusal("TI10", rule, step.path, found, hint, step.stmt.tile)


def sizes_of_groups(nest: Nest, groups: Groups, n: int | None) -> Iterator[Refusal]:
    """TI11, of the option `n`"""
    if n is not None and GroupKind.N not in groups.kinds:
        found = f"n={n}, and all indices that tiles run over are of group m"
        yield Refusal("TI11", _TI11, nest.band[0][0], found, "leave n out")


_TI11 = "an option is about something that the nest has"


def precision_of_a_dot(nest: Nest, found: Contributions, precision: Precision) -> Iterator[Refusal]:
    """TI11, of the option `precision`"""
    operands = (c.factors[0] for c in found.of.values() if c.factors)
    if precision is not Precision.IEEE and DType.F32 not in map(nest.dtypes.get, operands):
        text = f"precision={precision.value}, and no dot of f32 operands"
        yield Refusal("TI11", _TI11, nest.reduce_path, text, "leave precision out")


Criterion: TypeAlias = Callable[[Nest], Iterator[Refusal]]

CRITERIA: tuple[Criterion, ...] = (
    fixed_extents,
    tilable_statements,
    unplaced_scalars,
    independent_iterations,
    nothing_carried,
    associative_operators,
)
