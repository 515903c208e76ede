"""SK07, SK08, SK09, SK10, SK13: where the result goes, and that nothing else leaves the tile."""

from collections.abc import Iterator

from loopir.effects import buffers_read, buffers_written, has_side_effect
from loopir.nodes import Access, Alloc, Barrier, Let, Load, Stmt
from loopir.types import Direction
from loopir.walk import Path, substitute_node
from passes.base import Refusal
from passes.stream_k.dataflow import Writeback, scalar_values, writebacks
from passes.stream_k.injective import unproven_axes
from passes.stream_k.nest import Nest, is_wave_loop
from passes.stream_k.options import Options


def writeback_to_output(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK07"""
    backs = writebacks(nest)
    if not backs:
        found = "no accumulator is stored after the reduce"
        yield _sk07(nest.reduce_path, found, "store it to an `out` parameter")
    for back in backs:
        yield from _target_faults(nest, back)
        yield from _other_uses(nest, back)


def _target_faults(nest: Nest, back: Writeback) -> Iterator[Refusal]:
    name = back.store.target.buffer
    param = nest.param(name)
    if param is None:
        hint = "store to an `out` parameter"
        yield _sk07(back.path, f"{name} is a workspace", hint, name)
    elif param.direction is not Direction.OUT:
        found = f"{name} is {param.direction.value}: an atomic merge zeroes it first"
        yield _sk07(back.path, found, f"declare `out {name}`", name)


def _other_uses(nest: Nest, back: Writeback) -> Iterator[Refusal]:
    name = back.store.target.buffer
    for path, stmt in nest.statements:
        uses = name in buffers_read(stmt) | buffers_written(stmt)
        if uses and path != back.path and not _is_exact_read(stmt, back):
            found = f"{name} is used here and written at the end of the tile"
            yield _sk07(path, found, "use another buffer", name)


def _sk07(path: Path, found: str, hint: str, focus: str = "") -> Refusal:
    rule = "the accumulators go to a global output that nothing else in the launch touches"
    return Refusal("SK07", rule, path, found, hint, focus)


def no_epilogue(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK08"""
    rule = "with merge=atomic nothing but the writeback follows the reduction"
    for path, stmt in nest.after:
        if isinstance(stmt, (Alloc, Let, Barrier)) or is_wave_loop(stmt) or has_side_effect(stmt):
            continue
        found = "an epilogue, which would run once for every partial tile"
        hint = "store the accumulator in its own type, and run the epilogue in a second kernel"
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
            hint = "index the output by every grid variable, with tiles side by side"
            yield Refusal("SK10", rule, back.path, found, hint, back.store.target.buffer)


def no_side_effects(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK13"""
    rule = "no side effect but the writeback"
    early = [path for path, stmt in (*nest.before, *nest.inside) if has_side_effect(stmt)]
    late = [path for path, stmt in nest.after if _is_foreign_effect(nest, stmt)]
    for path in (*early, *late):
        found = "a store, atomic or arrive of its own, which would run once for every segment"
        yield Refusal("SK13", rule, path, found, "move it to another kernel")


def _is_exact_read(stmt: Stmt, back: Writeback) -> bool:
    """Whether `stmt` loads just the elements that the writeback stores (in-place beta * C)."""
    target = back.store.target
    return isinstance(stmt, Load) and (stmt.source.index, stmt.source.axes) == (
        target.index,
        target.axes,
    )


def _is_foreign_effect(nest: Nest, stmt: Stmt) -> bool:
    return has_side_effect(stmt) and stmt not in [b.store for b in writebacks(nest)]


def _read_elsewhere(nest: Nest, buffer: str, back: Writeback) -> bool:
    reads = [(path, stmt) for path, stmt in nest.statements if buffer in buffers_read(stmt)]
    return any(not (_follows(nest, path) and _is_exact_read(stmt, back)) for path, stmt in reads)


def _follows(nest: Nest, path: Path) -> bool:
    return any(path == p for p, _ in nest.after)
