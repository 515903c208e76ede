"""The criteria SK03 .. SK17 over a matched nest: each a pure function that yields its refusals."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from loopir.effects import access_of, buffers_read, buffers_written, has_side_effect
from loopir.nodes import Access, Alloc, Barrier, Let, Load, Stmt, Store
from loopir.ranges import dimension_is_in_bounds, ranges
from loopir.scope import allocs, launch_symbols
from loopir.symbols import Expr, Max, names_of, substitute
from loopir.types import Direction, ReduceOp, Space
from loopir.walk import Path, substitute_node
from passes.base import Refusal
from passes.stream_k.atomics import has_atomic_add
from passes.stream_k.dataflow import (
    Writeback,
    carried_scalars,
    carried_tiles,
    initial_value,
    scalar_values,
    writebacks,
)
from passes.stream_k.injective import unproven_axes
from passes.stream_k.nest import Nest, is_wave_loop, tile_count
from passes.stream_k.options import Options

Criterion: TypeAlias = Callable[[Nest, Options], Iterator[Refusal]]


def associative_add(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK03"""
    rule = "every operator is associative, and an atomic merge adds"
    for acc in nest.reduce.accumulators:
        if acc.op is ReduceOp.ADD:
            continue
        found = f"accumulator {acc.tile} combines by {acc.op.value}"
        hint = "atomic merges add only; keep the grid form for other operators"
        if not acc.op.is_associative:
            hint = f"{acc.op.value} over a split panel range is not {acc.op.value} over the whole; do not split it"
        yield Refusal("SK03", rule, nest.reduce_path, found, hint, f"{acc.tile}: {acc.op.value}")


def atomic_dtype(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK04"""
    rule = "the accumulated type has a device atomic add on the target"
    for path, alloc in _accumulator_allocs(nest):
        if not has_atomic_add(alloc.dtype, options.target):
            found = f"{options.target} adds no {alloc.dtype.value} atomically"
            hint = "accumulate in f32 or i32, or name another target="
            yield Refusal("SK04", rule, path, found, hint, alloc.dtype.value)


def constant_panels(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK05"""
    rule = "one panel loop 0 .. P with P >= 1, the same for every tile"
    loop, path = nest.loop, nest.loop_path
    panels = substitute(loop.hi, scalar_values(nest))
    foreign = names_of(panels) - set(nest.env) - set(_launch_names(nest))
    if loop.lo != 0:
        yield Refusal("SK05", rule, path, "the panel loop does not start at 0", "shift its index expressions so that it starts at 0")
    elif foreign:
        found = f"the panel count depends on {', '.join(sorted(foreign))}"
        yield Refusal("SK05", rule, path, found, "ragged panel counts need a table of segments; pad to one count")
    elif nest.constant(panels) is None and not options.launch_constants:
        found = "the panel count is known at launch only"
        yield Refusal("SK05", rule, path, found, "bind its sizes in `where`, or set launch-constants=true")
    elif not _is_positive(nest, panels):
        hint = "write it as max(1, ...), so that an empty sum is still written"
        yield Refusal("SK05", rule, path, "the panel count may be zero", hint)


def constant_tiles(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK06, the counts"""
    rule = "tile counts are constants of the launch"
    known = set(nest.env) | set(_launch_names(nest))
    for axis in nest.axes:
        foreign = names_of(axis.extent) - known
        if foreign:
            found = f"the extent of {axis.iv} depends on {', '.join(sorted(foreign))}"
            yield Refusal("SK06", rule, nest.grid_path, found, "use a rectangular grid", axis.iv)
        elif nest.constant(axis.extent) is None and not options.launch_constants:
            found = f"the extent of {axis.iv} is known at launch only"
            yield Refusal("SK06", rule, nest.grid_path, found, "bind its sizes in `where`, or set launch-constants=true", axis.iv)


def masked_edges(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK06, the edges"""
    rule = "an access that may leave its buffer is masked"
    facts = ranges(nest.kernel)
    for path, stmt in _everything(nest):
        access = access_of(stmt)
        param = nest.param(access.buffer) if access else None
        if access is None or param is None or access.masked:
            continue
        env = facts[path[2:]]
        dims = range(len(access.index))
        if not all(dimension_is_in_bounds(access, d, env, param.shape[d]) for d in dims):
            found = f"an edge tile may leave {param.name}"
            yield Refusal("SK06", rule, path, found, "add `masked`", param.name)


def writeback_to_output(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK07"""
    rule = "the accumulators go to a global output that nothing else in the launch touches"
    backs = writebacks(nest)
    if not backs:
        yield Refusal("SK07", rule, nest.reduce_path, "no accumulator is stored after the reduce", "store it to an `out` parameter")
    for back in backs:
        name, param = back.store.target.buffer, nest.param(back.store.target.buffer)
        if param is None:
            yield Refusal("SK07", rule, back.path, f"{name} is a workspace", "store to an `out` parameter", name)
        elif param.direction is not Direction.OUT:
            found = f"{name} is {param.direction.value}: an atomic merge zeroes it first"
            yield Refusal("SK07", rule, back.path, found, f"declare `out {name}`", name)
        yield from (
            Refusal("SK07", rule, path, f"{name} is used here and written at the end of the tile", "use another buffer", name)
            for path, stmt in _everything(nest)
            if path != back.path and name in buffers_read(stmt) | buffers_written(stmt) and not _is_exact_read(stmt, back)
        )  # fmt: skip


def no_epilogue(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK08"""
    rule = "with merge=atomic nothing but the writeback follows the reduction"
    for path, stmt in nest.after:
        if isinstance(stmt, (Alloc, Let, Barrier)) or is_wave_loop(stmt) or has_side_effect(stmt):
            continue
        found = "an epilogue, which would run once for every partial tile"
        hint = "store the accumulator as it is (out_dtype of its own type) and run the epilogue in a second kernel"
        yield Refusal("SK08", rule, path, found, hint)
        return


def no_alias(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK09"""
    rule = "no input is an alias of the output"
    outputs = {b.store.target.buffer: b for b in writebacks(nest)}
    for alias in nest.kernel.aliases:
        for output, other in ((alias.a, alias.b), (alias.b, alias.a)):
            if output not in outputs or not _read_elsewhere(nest, other, outputs[output]):
                continue
            found = f"{other} may be the storage of {output}, and is read"
            hint = f"copy {other}, and drop the alias"
            yield Refusal("SK09", rule, nest.grid_path[:2], found, hint, output)


def injective_writeback(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK10"""
    rule = "no two tiles write one element"
    values = scalar_values(nest)
    for back in writebacks(nest):
        access: Access = substitute_node(back.store.target, values)
        axes = list(unproven_axes(access, nest.axes, nest.constant))
        if axes:
            found = f"the element written does not tell {', '.join(axes)}"
            hint = "index the output by every grid variable, tiles side by side; the grid form races too"
            yield Refusal("SK10", rule, back.path, found, hint, back.store.target.buffer)


def nothing_carried(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK11"""
    rule = "only accumulators pass from panel to panel"
    for path, name in (*carried_tiles(nest), *carried_scalars(nest)):
        found = f"{name} passes from one panel to the next, or out of the loop"
        yield Refusal("SK11", rule, path, found, "compute it from the panel's number, or name it as an accumulator", name)


def starts_at_identity(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK12"""
    rule = "an accumulator starts at its operator's identity"
    dtypes = {alloc.name: alloc.dtype for _, alloc in _accumulator_allocs(nest)}
    for acc in nest.reduce.accumulators:
        path, start = initial_value(nest, acc.tile)
        identity = acc.op.identity(dtypes[acc.tile])
        if acc.op.is_associative and (start is None or start.value != identity):
            value = "something else" if start is None else f"{start.value}"
            found = f"{acc.tile} starts at {value}, which every partial tile would count"
            hint = f"fill {acc.tile}, {identity} before the reduce, and add the rest in an epilogue"
            yield Refusal("SK12", rule, path, found, hint, acc.tile)


def no_side_effects(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK13"""
    rule = "no side effect but the writeback"
    early = [path for path, stmt in (*nest.before, *nest.inside) if has_side_effect(stmt)]
    late = [path for path, stmt in nest.after if _is_foreign_effect(nest, stmt)]
    for path in (*early, *late):
        found = "a store, atomic or arrive of its own, which would run once for every segment"
        yield Refusal("SK13", rule, path, found, "move it to another kernel")


def aligned_split(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK14"""
    rule = "splits divides the panel count, and units, if given, is tiles * splits"
    if options.splits is None:
        return
    panels, tiles = nest.constant(nest.loop.hi), nest.constant(tile_count(nest.axes))
    if panels is None or tiles is None:
        yield Refusal("SK14", rule, nest.loop_path, "panels or tiles are known at launch only", "bind the sizes in `where`")
    elif panels % options.splits:
        divisors = ", ".join(str(d) for d in range(2, panels + 1) if panels % d == 0) or "1"
        found = f"{options.splits} splits of {panels} panels"
        yield Refusal("SK14", rule, nest.loop_path, found, f"divisors of {panels}: {divisors}")
    elif options.units is not None and options.units != tiles * options.splits:
        found = f"units={options.units}, and {tiles} tiles * {options.splits} splits are {tiles * options.splits}"
        yield Refusal("SK14", rule, nest.grid_path, found, "leave units out")


def determinism(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK16"""
    if options.deterministic:
        rule = "a deterministic result needs a merge of fixed order"
        found = "merge=atomic adds in the order of arrival"
        yield Refusal("SK16", rule, nest.reduce_path, found, "drop deterministic=true, or keep the grid form")


def no_fragments(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK17"""
    rule = "merge=atomic needs accumulators with addressable elements"
    for path, alloc in _accumulator_allocs(nest):
        if alloc.space is Space.FRAGMENT:
            found = f"{alloc.name} is an MMA fragment"
            yield Refusal("SK17", rule, path, found, "apply stream-k before mma-expand", "fragment")


CRITERIA: tuple[Criterion, ...] = (
    associative_add, atomic_dtype, constant_panels, constant_tiles, masked_edges, writeback_to_output, no_epilogue, no_alias,
    injective_writeback, nothing_carried, starts_at_identity, no_side_effects, aligned_split, determinism, no_fragments,
)  # fmt: skip


def _accumulator_allocs(nest: Nest) -> Iterator[tuple[Path, Alloc]]:
    return ((p, s) for p, s in nest.before if isinstance(s, Alloc) and s.name in nest.accumulators)


def _everything(nest: Nest) -> Iterator[tuple[Path, Stmt]]:
    return iter((*nest.before, *nest.inside, *nest.after))


def _launch_names(nest: Nest) -> tuple[str, ...]:
    """Sizes that the launch fixes: unbound symbols, and names bound to expressions of them."""
    return (*launch_symbols(nest.kernel), *(b.name for b in nest.kernel.where))


def _is_positive(nest: Nest, panels: Expr) -> bool:
    value = nest.constant(panels)
    if value is not None:
        return value >= 1
    expr = substitute(panels, {b.name: b.expr for b in nest.kernel.where})
    return isinstance(expr, Max) and any((nest.constant(a) or 0) >= 1 for a in expr.args)


def _is_exact_read(stmt: Stmt, back: Writeback) -> bool:
    """Whether `stmt` loads just the elements that the writeback stores (in-place beta * C)."""
    target = back.store.target
    return isinstance(stmt, Load) and (stmt.source.index, stmt.source.axes) == (target.index, target.axes)


def _is_foreign_effect(nest: Nest, stmt: Stmt) -> bool:
    return has_side_effect(stmt) and stmt not in [b.store for b in writebacks(nest)]


def _read_elsewhere(nest: Nest, buffer: str, back: Writeback) -> bool:
    reads = [(path, stmt) for path, stmt in _everything(nest) if buffer in buffers_read(stmt)]
    return any(not (_follows(nest, path) and _is_exact_read(stmt, back)) for path, stmt in reads)


def _follows(nest: Nest, path: Path) -> bool:
    return any(path == p for p, _ in nest.after)
