"""Changes of the grid, of the writeback, and of what else memory sees."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from loopir.effects import access_of
from loopir.nodes import (
    Access,
    Alias,
    Atomic,
    Barrier,
    Fill,
    Grid,
    Literal,
    Load,
    Program,
    Store,
    Workspace,
    Zeroed,
)
from loopir.scope import allocs
from loopir.symbols import imin, mod, sym, to_expr
from loopir.types import Direction, DType, ReduceOp
from loopir.walk import Path, node_at, substitute_node, walk_program
from tests.support.edits import put_after, put_before, replaced, spliced, with_kernel
from tests.support.mutations.parts import Parts, around, mutation, retargeted, with_param

# --- the grid -------------------------------------------------------------------------------------


def _grid(rng: Random, parts: Parts) -> tuple[Path, int]:
    """The path of the axes of a grid, and the number of one of them."""
    path, grid = rng.choice(parts.grids)
    return (*path, "axes"), rng.randrange(len(grid.axes))  # pyright: ignore


@mutation()
def a_row_of_tiles_too_many(rng: Random, parts: Parts) -> Program | None:
    path, i = _grid(rng, parts)
    extent = node_at(parts.program, path)[i].extent
    return replaced(parts.program, (*path, i, "extent"), extent + 1)


@mutation("SK07")
def a_row_of_tiles_too_few(rng: Random, parts: Parts) -> Program | None:
    path, i = _grid(rng, parts)
    extent = node_at(parts.program, path)[i].extent
    return replaced(parts.program, (*path, i, "extent"), extent - 1)


@mutation("SK06")
def triangular(rng: Random, parts: Parts) -> Program | None:
    path, grid = parts.grids[0]
    if not isinstance(grid, Grid) or len(parts.ivs) < 2 or len(parts.grids) > 1:
        return None
    first, *rest = grid.axes
    inner = (replace(rest[0], extent=imin(rest[0].extent, sym(first.iv) + 1)), *rest[1:])
    nested = Grid(inner, grid.body)
    return spliced(parts.program, path, (Grid((first,), (nested,)),))


@mutation()
def axes_reversed(rng: Random, parts: Parts) -> Program | None:
    path, grid = rng.choice(parts.grids)
    return replaced(parts.program, (*path, "axes"), tuple(reversed(grid.axes)))  # pyright: ignore


# --- the writeback --------------------------------------------------------------------------------


def _on_target(rng: Random, parts: Parts, change: Callable[[Access], Access]) -> Program:
    path, store = parts.store(rng)
    return replaced(parts.program, (*path, "target"), change(_spelled(store.target)))


def _spelled(access: Access) -> Access:
    """With names of the axes that have text."""
    names = {a.name: f"d{i}" for i, a in enumerate(access.axes) if a.name.startswith("_")}
    axes = tuple(replace(a, name=names.get(a.name, a.name)) for a in access.axes)
    index = substitute_node(access.index, {old: sym(new) for old, new in names.items()})
    return replace(access, index=index, axes=axes)


@mutation("SK10")
def overlapping_tiles(rng: Random, parts: Parts) -> Program | None:
    iv = sym(rng.choice(parts.ivs))

    def closer(access: Access) -> Access:
        moved = (
            replace(a, start=a.start - iv if a.start.has(iv) else a.start) for a in access.axes
        )
        return replace(access, axes=tuple(moved))

    return _on_target(rng, parts, closer)


@mutation("SK10")
def a_grid_axis_left_out(rng: Random, parts: Parts) -> Program | None:
    zero = {rng.choice(parts.ivs): to_expr(0)}
    return _on_target(rng, parts, lambda access: substitute_node(access, zero))


@mutation("SK10")
def wrapped_around(rng: Random, parts: Parts) -> Program | None:
    def wrap(access: Access) -> Access:
        i = rng.randrange(len(access.index))
        return replaced(access, ("index", i), mod(access.index[i], rng.choice((2, 3))))

    return _on_target(rng, parts, wrap)


@mutation("SK07")
def shifted(rng: Random, parts: Parts) -> Program | None:
    def shift(access: Access) -> Access:
        i = rng.randrange(len(access.index))
        return replaced(access, ("index", i), access.index[i] + rng.choice((-1, 1)))

    return _on_target(rng, parts, lambda access: replace(shift(access), masked=True))


@mutation("SK07")
def ends_early(rng: Random, parts: Parts) -> Program | None:
    def limited(access: Access) -> Access:
        i = rng.randrange(len(access.axes))
        limit = rng.choice((to_expr(1), to_expr(3), access.axes[i].start + 1))
        return replaced(replace(access, masked=True), ("axes", i, "limit"), limit)

    return _on_target(rng, parts, limited)


@mutation("SK07")
def a_larger_output(rng: Random, parts: Parts) -> Program | None:
    _, store = parts.store(rng)
    params = parts.program.kernels[0].params
    i = next(i for i, p in enumerate(params) if p.name == store.target.buffer)
    d = rng.randrange(len(params[i].shape))
    path = ("kernels", 0, "params", i, "shape", d)
    return replaced(parts.program, path, params[i].shape[d] + 1)


@mutation("SK06")
def unmasked(rng: Random, parts: Parts) -> Program | None:
    found = [p for p, s in walk_program(parts.program) if (a := access_of(s)) and a.masked]
    if not found:
        return None
    path = rng.choice(found)
    field = "source" if isinstance(node_at(parts.program, path), Load) else "target"
    return replaced(parts.program, (*path, field, "masked"), False)


@mutation("SK08")
def an_epilogue(rng: Random, parts: Parts) -> Program | None:
    acc = parts.accumulator.tile
    exprs = (f"{acc} * 2", f"max({acc}, 0)", f"{acc} + 1", f"0 - {acc}", acc)
    return parts.at_end(f"ewise {acc} = {rng.choice(exprs)}")


@mutation("SK08")
def a_conditional_writeback(rng: Random, parts: Parts) -> Program | None:
    return around(parts, parts.store(rng)[0], f"if {rng.choice(parts.ivs)} < 1")


@mutation("SK08")
def a_writeback_in_a_loop(rng: Random, parts: Parts) -> Program | None:
    return around(parts, parts.store(rng)[0], "for twice in 0 .. 2")


@mutation("SK10")
def a_writeback_in_waves(rng: Random, parts: Parts) -> Program | None:
    if any(isinstance(s, Barrier) for _, s in parts.after):
        return None
    return around(parts, parts.store(rng)[0], f"wave twice in 0 .. {rng.choice((0, 1, 2))}")


@mutation("SK07")
def stored_twice(rng: Random, parts: Parts) -> Program | None:
    path, store = parts.store(rng)
    return put_after(parts.program, path, (store,))


@mutation()
def a_second_output(rng: Random, parts: Parts) -> Program | None:
    path, store = parts.store(rng)
    like = replace(parts.param(store.target.buffer), name="second")
    again = replace(store, target=replace(store.target, buffer="second"))
    return with_param(put_after(parts.program, path, (again,)), like)


@mutation("SK09")
def outputs_that_are_one(rng: Random, parts: Parts) -> Program | None:
    program = a_second_output(rng, parts)
    assert program is not None
    named = Parts.of(program)
    first = rng.choice([s.target.buffer for _, s in named.after if isinstance(s, Store)])
    if first == "second":
        return None
    return with_kernel(program, lambda k: replace(k, aliases=(Alias(first, "second"),)))


@mutation("SK07")
def an_inout_output(rng: Random, parts: Parts) -> Program | None:
    name = parts.store(rng)[1].target.buffer
    params = parts.program.kernels[0].params
    i = next(i for i, p in enumerate(params) if p.name == name)
    return replaced(parts.program, ("kernels", 0, "params", i, "direction"), Direction.INOUT)


@mutation("SK07")
def stored_to_a_workspace(rng: Random, parts: Parts) -> Program | None:
    path, store = parts.store(rng)
    like = parts.param(store.target.buffer)
    made = Workspace("space", like.dtype, like.shape)
    program = replaced(parts.program, (*path, "target", "buffer"), "space")
    return replace(program, workspaces=(made,))


@mutation("SK13")
def an_atomic_writeback(rng: Random, parts: Parts) -> Program | None:
    path, store = parts.store(rng)
    need = Zeroed(store.target.buffer)
    atomic = Atomic(ReduceOp.ADD, store.target, store.tile)
    return with_kernel(
        spliced(parts.program, path, (atomic,)), lambda k: replace(k, requires=(need,))
    )


@mutation("SK13")
def another_tile_stored(rng: Random, parts: Parts) -> Program | None:
    path, store = parts.store(rng)
    made = allocs(parts.program.kernels[0])
    other = replace(made[store.tile], name="other")
    program = replaced(parts.program, (*path, "tile"), "other")
    return put_before(program, parts.reduce_path, (other, Fill("other", Literal(3))))


@mutation()
def zeroed_already(rng: Random, parts: Parts) -> Program | None:
    need = Zeroed(parts.store(rng)[1].target.buffer)
    return with_kernel(parts.program, lambda k: replace(k, requires=(need,)))


# --- other memory ---------------------------------------------------------------------------------


@mutation("SK09")
def an_input_is_the_output(rng: Random, parts: Parts) -> Program | None:
    """An operand of the loop is declared an alias."""
    output, source = parts.store(rng)[1].target.buffer, parts.load(rng)[1].source.buffer
    return with_kernel(parts.program, lambda k: replace(k, aliases=(Alias(source, output),)))


@mutation("SK09")
def the_output_is_read_in_the_loop(rng: Random, parts: Parts) -> Program | None:
    """By an alias, and where the block writes it, so that no other block minds."""
    return _old_output_read(parts, Parts.in_panel)


@mutation("SK09")
def the_output_is_read_before(rng: Random, parts: Parts) -> Program | None:
    return _old_output_read(parts, Parts.at_start)


def _old_output_read(parts: Parts, put: Callable[[Parts, str], Program]) -> Program | None:
    store, acc = parts.own_store(), parts.alloc
    if store is None or acc.dtype.value == "f16":
        return None
    like = replace(parts.param(store.target.buffer), name="old", direction=Direction.IN)
    loaded = put(parts, retargeted("load was, {}", store.target, "old"))
    program = Parts.of(loaded).in_panel(f"ewise {acc.name} = {acc.name} + was")
    at = next(p for p, s in walk_program(program) if s == acc)
    program = with_param(put_before(program, at, (replace(acc, name="was"),)), like)
    alias = Alias("old", store.target.buffer)
    return with_kernel(program, lambda k: replace(k, aliases=(alias,)))


@mutation()
def an_alias_that_nothing_reads(rng: Random, parts: Parts) -> Program | None:
    output = parts.store(rng)[1].target.buffer
    like = replace(parts.param(output), name="unread", direction=Direction.IN)
    program = with_param(parts.program, like)
    return with_kernel(program, lambda k: replace(k, aliases=(Alias(output, "unread"),)))


@mutation("SK13")
def a_store_before(rng: Random, parts: Parts) -> Program | None:
    store = parts.own_store()
    if store is None:
        return None
    target = store.target
    like = replace(parts.param(target.buffer), name="early")
    early = retargeted(f"store {{}}, {parts.accumulator.tile}", target, "early")
    return with_param(parts.at_start(early), like)


@mutation("SK13")
def an_atomic_in_the_loop(rng: Random, parts: Parts) -> Program | None:
    """Of every panel once, before and after."""
    _, load = parts.load(rng)
    like = replace(parts.param(load.source.buffer), name="total", direction=Direction.INOUT)
    text = retargeted(f"atomic add {{}}, {load.tile}", load.source, "total")
    return with_param(parts.in_panel(text), like)


@mutation("SK13")
def an_arrive(rng: Random, parts: Parts) -> Program | None:
    counter = Workspace("count", DType.I32, (to_expr(64),))
    program = parts.at_start(f"arrive last, count[{parts.ivs[0]}], 1")
    return replace(program, workspaces=(counter,))
