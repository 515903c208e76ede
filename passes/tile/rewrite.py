"""Writing the tiled kernel: each statement of one element as statements of a whole tile."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loopir.nodes import (
    Alloc,
    Apply,
    AxisReduce,
    Binding,
    Body,
    Dot,
    ElementRead,
    Ewise,
    Ewise_,
    Fill,
    For,
    Let,
    Literal,
    Load,
    Mask,
    Program,
    Reduce,
    Stmt,
    Store,
    TileRef,
)
from loopir.symbols import Expr, imax, sym, to_expr
from loopir.types import DType, ForKind, Precision
from passes.tile.axes import AxisOf, tiled_access
from passes.tile.contributions import Contribution, Contributions, Way
from passes.tile.flow import Step
from passes.tile.fold import Number
from passes.tile.groups import Axes, GroupKind, Groups, union
from passes.tile.nest import Nest
from passes.tile.spread import expanded, spread


@dataclass(frozen=True)
class Plan:
    """`tiles`: the name of each tile of the result, by the scalar that it is made of and its axes;
    `panels`: the name of the number of panels."""

    nest: Nest
    groups: Groups
    steps: tuple[Step, ...]
    contributions: Contributions
    axes: AxisOf
    tiles: Mapping[tuple[str, Axes], str]
    panels: str
    precision: Precision


def tiled(program: Program, plan: Plan) -> Program:
    """The program with the nest of `plan` as loops over tiles."""
    nest, kernel = plan.nest, plan.nest.kernel
    lines = iter(plan.steps)
    before, inside, after = (
        tuple(s for _ in part for s in _rewritten(plan, next(lines)))
        for part in (nest.before, nest.inside, nest.after)
    )
    reduce = Reduce(nest.reduce.accumulators, (_panel_loop(plan, inside),))
    body: Body = (*before, reduce, *after)
    for kind in reversed(plan.groups.of_output):
        body = (_loop(plan.axes[kind].tile, plan.axes[kind].tiles, body, ForKind.PARALLEL),)
    for loop in reversed(plan.groups.kept):
        body = (replace(loop, body=body),)
    where = (*kernel.where, *_bindings(plan))
    return replace(program, kernels=(replace(kernel, where=where, body=body),))


def _panel_loop(plan: Plan, body: Body) -> For:
    return _loop(plan.axes[GroupKind.K].tile, sym(plan.panels), body, ForKind.SEQUENTIAL)


def _loop(iv: str, extent: Expr, body: Body, kind: ForKind) -> For:
    return For(iv, to_expr(0), extent, to_expr(1), body, kind)


def _bindings(plan: Plan) -> Iterator[Binding]:
    """The tile sizes in the order m, n, k, and the number of panels, one at least, so that an empty
    sum is written too."""
    for kind in (*plan.groups.of_output, GroupKind.K):
        yield Binding(plan.axes[kind].size, to_expr(plan.axes[kind].width))
    yield Binding(plan.panels, imax(1, plan.axes[GroupKind.K].tiles))


def _rewritten(plan: Plan, step: Step) -> Iterator[Stmt]:
    match step.stmt:
        case Alloc():
            yield from _allocs(plan, step.stmt)
        case Let(name, ElementRead(buffer, index)):
            yield Let(name, ElementRead(buffer, tuple(map(plan.nest.resolved, index))))
        case Fill(tile, number):
            yield Fill(plan.tiles[tile, step.target], number)
        case Load():
            yield from _load(plan, step, step.stmt)
        case Store():
            yield from _store(plan, step, step.stmt)
        case Ewise() if step.path in plan.contributions.of:
            yield from _update(plan, plan.contributions.of[step.path])
        case Ewise(tile, expr):
            yield _assigned(plan, tile, step.target, *spread(expr, step.reads, plan.tiles))


def _allocs(plan: Plan, alloc: Alloc) -> Iterator[Alloc]:
    for (scalar, axes), name in plan.tiles.items():
        if scalar == alloc.name:
            shape = tuple(sym(plan.axes[kind].size) for kind in axes)
            yield replace(alloc, name=name, shape=shape)


def _assigned(plan: Plan, scalar: str, target: Axes, expr: Ewise_, axes: Axes) -> Ewise:
    return Ewise(plan.tiles[scalar, target], expanded(expr, axes, target))


def _load(plan: Plan, step: Step, load: Load) -> Iterator[Stmt]:
    """Into a tile of the axes of the access first, if the target has more."""
    access = tiled_access(plan.nest, load.source, step.axes, plan.axes)
    if any(step.path == path for path, _ in plan.nest.inside):
        access = replace(access, masked=True)  # the one panel of an empty sum reads nothing
    otherwise = plan.contributions.otherwise.get(step.path, load.otherwise)
    own = plan.tiles[load.tile, step.axes]
    yield replace(load, tile=own, source=access, otherwise=otherwise)
    if step.axes != step.target:
        yield _assigned(plan, load.tile, step.target, TileRef(own), step.axes)


def _store(plan: Plan, step: Step, store: Store) -> Iterator[Stmt]:
    """From a tile of the axes of the access, spread first if the value has fewer."""
    axes = step.reads[store.tile]
    if axes != step.axes:
        value = TileRef(plan.tiles[store.tile, axes])
        yield _assigned(plan, store.tile, step.axes, value, axes)
    target = tiled_access(plan.nest, store.target, step.axes, plan.axes)
    yield Store(target, plan.tiles[store.tile, step.axes])


def _update(plan: Plan, contribution: Contribution) -> Iterator[Stmt]:
    update = contribution.update
    reads, full = update.step.reads, plan.groups.of_output
    acc = plan.tiles[update.acc, full]
    if contribution.factors is not None:
        yield from _dot(plan, contribution, contribution.factors)
        return
    operand, axes = spread(update.operand, reads, plan.tiles)
    if contribution.way is Way.SPREAD:
        wide = union(axes, (GroupKind.K,))
        yield _assigned(plan, update.acc, wide, operand, axes)
        operand, axes = TileRef(plan.tiles[update.acc, wide]), wide
    if contribution.way is not Way.PLAIN:
        operand = _within(plan, operand, axes, update.identity)
    at = axes.index(GroupKind.K)
    left = tuple(kind for kind in axes if kind is not GroupKind.K)
    combined = expanded(AxisReduce(update.op, operand, at), left, full)
    yield Ewise(acc, Apply(update.op.value, (TileRef(acc), combined)))


def _dot(plan: Plan, contribution: Contribution, factors: tuple[str, str]) -> Iterator[Stmt]:
    update = contribution.update
    reads = update.step.reads
    for name in contribution.cleared:
        tile = plan.tiles[name, reads[name]]
        yield Ewise(tile, _within(plan, TileRef(tile), reads[name], 0))
    a, b = (plan.tiles[name, reads[name]] for name in factors)
    is_f32 = plan.nest.dtypes[factors[0]] is DType.F32
    precision = plan.precision if is_f32 else Precision.IEEE
    yield Dot(plan.tiles[update.acc, plan.groups.of_output], a, b, precision)


def _within(plan: Plan, expr: Ewise_, axes: Axes, otherwise: Number) -> Mask:
    """`expr` up to the end of the sum, and a number beyond."""
    k = plan.axes[GroupKind.K]
    return Mask(expr, axes.index(GroupKind.K), k.start, k.limit, Literal(otherwise))
