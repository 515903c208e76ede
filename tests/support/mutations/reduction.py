"""Changes of what is reduced: where accumulators start, what panels carry, the loop itself."""

from dataclasses import replace
from random import Random

from loopir.nodes import (
    Alloc,
    Barrier,
    Body,
    Dot,
    Ewise,
    Fill,
    For,
    Let,
    Literal,
    Program,
)
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import imin, sym, to_expr
from loopir.types import Direction, ReduceOp, Space
from loopir.walk import node_at, substitute_node
from tests.support.edits import put_after, put_before, replaced, spliced, statements
from tests.support.mutations.parts import Parts, around, mutation, retargeted, with_param, wrapped

# --- where an accumulator starts ------------------------------------------------------------------


@mutation("SK12")
def starts_elsewhere(rng: Random, parts: Parts) -> Program | None:
    path, _ = rng.choice(parts.starts)
    return replaced(parts.program, (*path, "value"), Literal(rng.choice((1, -1, 2, 7))))


@mutation("SK12")
def starts_elsewhere_in_one_row(rng: Random, parts: Parts) -> Program | None:
    text = f"if {rng.choice(parts.ivs)} == 0 {{\nfill {parts.accumulator.tile}, 1\n}}"
    return parts.at_start(text)


@mutation("SK12")
def starts_at_a_bias(rng: Random, parts: Parts) -> Program | None:
    store = parts.own_store()
    if store is None:
        return None
    access = store.target
    like = replace(parts.param(access.buffer), name="bias", direction=Direction.IN)
    load = retargeted(f"load {parts.accumulator.tile}, {{}}", access, "bias")
    return with_param(parts.at_start(load), like)


@mutation("V38")
def does_not_start(rng: Random, parts: Parts) -> Program | None:
    return spliced(parts.program, rng.choice(parts.starts)[0], ())


@mutation()
def starts_twice(rng: Random, parts: Parts) -> Program | None:
    """A first value that another fill replaces."""
    path, fill = rng.choice(parts.starts)
    return put_before(parts.program, path, (replace(fill, value=Literal(3)),))


# --- what the panel loop carries ------------------------------------------------------------------


@mutation("SK11")
def last_panels_tile(rng: Random, parts: Parts) -> Program | None:
    """A tile is used before the panel loads it."""
    path, load = parts.load(rng)
    if path[:-1] != (*parts.loop_path, "body"):
        return None
    if not any(s.name == load.tile for _, s in parts.before if isinstance(s, Alloc)):
        return None
    later = put_after(parts.program, (*path[:-1], len(parts.loop.body) - 1), (load,))
    without = spliced(later, path, ())
    return put_before(without, parts.reduce_path, (Fill(load.tile, Literal(0)),))


@mutation("SK11")
def carried_counter(rng: Random, parts: Parts) -> Program | None:
    text = "while passed < kp {\nset passed = passed + 1\n}"
    path, load = parts.load(rng)
    moved = substitute_node(load, {parts.loop.iv: sym("passed")})
    changed = replace(parts, program=spliced(parts.program, path, (moved,)))
    counting = replace(changed, program=changed.in_panel(text, at_end=False))
    return counting.at_start("let passed = 0")


@mutation("SK11")
def carried_tile(rng: Random, parts: Parts) -> Program | None:
    if parts.alloc.dtype.value == "f16":
        return None
    tile, acc = parts.alloc, parts.accumulator.tile
    inside = f"ewise steps = steps + 1\newise {acc} = {acc} + steps"
    made = (replace(tile, name="steps"), Fill("steps", Literal(0)))
    return put_before(parts.in_panel(inside), parts.reduce_path, made)


@mutation("SK11")
def loaded_in_the_first_panel_only(rng: Random, parts: Parts) -> Program | None:
    path, load = parts.load(rng)
    if len(path) != len(parts.loop_path) + 2:
        return None
    return spliced(parts.program, path, wrapped(f"if {parts.loop.iv} == 0", (load,)))


@mutation("V16")
def set_of_an_outer_scalar(rng: Random, parts: Parts) -> Program | None:
    changed = replace(parts, program=parts.in_panel(f"set seen = {parts.loop.iv}"))
    return changed.at_start("let seen = 0")


@mutation("SK11 SK13")
def the_last_panel_leaves(rng: Random, parts: Parts) -> Program | None:
    """A tile of the last panel is stored after the reduce."""
    _, load = parts.load(rng)
    if not any(s.name == load.tile for _, s in parts.before if isinstance(s, Alloc)):
        return None
    access = substitute_node(load.source, {parts.loop.iv: to_expr(0)})
    like = replace(parts.param(access.buffer), name="kept", direction=Direction.OUT)
    return with_param(parts.at_end(retargeted(f"store {{}}, {load.tile}", access, "kept")), like)


@mutation()
def loaded_once(rng: Random, parts: Parts) -> Program | None:
    """The same panel's tile for all panels."""
    path, load = parts.load(rng)
    if not any(s.name == load.tile for _, s in parts.before if isinstance(s, Alloc)):
        return None
    first = substitute_node(load, {parts.loop.iv: to_expr(0)})
    return put_before(spliced(parts.program, path, ()), parts.reduce_path, (first,))


# --- what the accumulators do in the loop ---------------------------------------------------------


@mutation("V39")
def rescaled(rng: Random, parts: Parts) -> Program | None:
    acc = parts.accumulator.tile
    return parts.in_panel(f"ewise {acc} = {acc} * 2")


@mutation("V39")
def overwritten(rng: Random, parts: Parts) -> Program | None:
    return parts.in_panel(f"fill {parts.accumulator.tile}, 0", at_end=rng.random() < 0.5)


@mutation("V39")
def read_in_the_loop(rng: Random, parts: Parts) -> Program | None:
    copy = replace(parts.alloc, name="copy")
    inside = parts.in_panel(f"ewise copy = {parts.accumulator.tile}")
    return put_before(inside, parts.reduce_path, (copy,))


@mutation("V39 SK13")
def stored_in_the_loop(rng: Random, parts: Parts) -> Program | None:
    """An accumulator, or a tile that was loaded."""
    store = parts.own_store()
    if store is None:
        return None
    tile, access = parts.accumulator.tile, store.target
    if rng.random() < 0.5:
        _, load = parts.load(rng)
        tile, access = load.tile, load.source
    like = replace(parts.param(access.buffer), name="kept", direction=Direction.OUT)
    return with_param(parts.in_panel(retargeted(f"store {{}}, {tile}", access, "kept")), like)


@mutation("V39 SK03")
def another_label(rng: Random, parts: Parts) -> Program | None:
    op = rng.choice([op for op in ReduceOp if op is not ReduceOp.ADD])
    return replaced(parts.program, (*parts.reduce_path, "accumulators", 0, "op"), op)


@mutation("SK03")
def another_operator(rng: Random, parts: Parts) -> Program | None:
    """The label, the update and the start."""
    op, acc = rng.choice((ReduceOp.MAX, ReduceOp.MIN, ReduceOp.MUL)), parts.accumulator.tile
    updates = [p for p in parts.inside if isinstance(p[1], Ewise) and p[1].tile == acc]
    if len(updates) != 1:
        return None
    path, update = updates[0]
    program = replaced(parts.program, (*path, "expr"), replace(update.expr, fn=op.value))  # pyright: ignore
    start = next(p for p, s in parts.starts if s.tile == acc)  # pyright: ignore
    identity = Literal(op.identity(parts.alloc.dtype) or 0)
    program = replaced(program, (*start, "value"), identity)
    return replaced(program, (*parts.reduce_path, "accumulators", 0, "op"), op)


@mutation()
def updated_in_some_panels(rng: Random, parts: Parts) -> Program | None:
    path, update = rng.choice([p for p in parts.inside if isinstance(p[1], Ewise | Dot)])
    cond = rng.choice((f"{parts.loop.iv} < 1", f"{parts.ivs[0]} > 0", "kp % 3 == 1"))
    return spliced(parts.program, path, wrapped(f"if {cond}", (update,)))


@mutation("SK17")
def in_a_fragment(rng: Random, parts: Parts) -> Program | None:
    path = next(p for p, s in parts.before if s == parts.alloc)
    return replaced(parts.program, (*path, "space"), Space.FRAGMENT)


# --- the panel loop -------------------------------------------------------------------------------


@mutation("SK05")
def panels_from_one(rng: Random, parts: Parts) -> Program | None:
    return replaced(parts.program, (*parts.loop_path, "lo"), to_expr(1))


@mutation("SK05")
def panels_by_tile(rng: Random, parts: Parts) -> Program | None:
    hi = imin(parts.loop.hi, sym(rng.choice(parts.ivs)) + 1)
    return replaced(parts.program, (*parts.loop_path, "hi"), hi)


@mutation("SK05")
def one_panel_less(rng: Random, parts: Parts) -> Program | None:
    return replaced(parts.program, (*parts.loop_path, "hi"), parts.loop.hi - 1)


@mutation()
def panels_by_a_let(rng: Random, parts: Parts) -> Program | None:
    program = replaced(parts.program, (*parts.loop_path, "hi"), sym("last") + 1)
    return put_before(program, parts.reduce_path, (Let("last", parts.loop.hi - 1),))


@mutation("SK02")
def two_reduces(rng: Random, parts: Parts) -> Program | None:
    """The second with other names for its loop variables and its own tiles."""
    text = to_text(parts.program)
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("reduce "))
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = next(i for i in range(start, len(lines)) if lines[i] == " " * depth + "}")
    again = "\n".join(lines[start : end + 1]).replace("kp", "kq")
    for name in [s.name for _, s in parts.inside if isinstance(s, Alloc | Let)]:
        again = again.replace(name, f"{name}q")
    for loop in [s for _, s in parts.inside if isinstance(s, For)]:
        again = again.replace(loop.iv, f"{loop.iv}q")
    return parse("\n".join([*lines[: end + 1], again, *lines[end + 1 :], ""]))


@mutation("SK01")
def reduce_in_a_loop(rng: Random, parts: Parts) -> Program | None:
    return around(parts, parts.reduce_path, "for again in 0 .. 2")


@mutation("SK01")
def reduce_in_a_condition(rng: Random, parts: Parts) -> Program | None:
    return around(parts, parts.reduce_path, f"if {rng.choice(parts.ivs)} == 0")


@mutation()
def reduce_in_a_wave(rng: Random, parts: Parts) -> Program | None:
    """Every wave adds all panels, before and after."""
    return _in_waves(parts, rng.choice((0, 1, 2, 3)), ())


@mutation()
def left_to_the_next_wave(rng: Random, parts: Parts) -> Program | None:
    """Every wave adds, in each panel, what the wave before it left."""
    tile, acc = parts.alloc, parts.accumulator.tile
    if tile.dtype.value == "f16":
        return None
    adding = Parts.of(parts.in_panel(f"ewise {acc} = {acc} + left"))
    program = _in_waves(adding, 2, statements("ewise left = left + 1"))
    made = (replace(tile, name="left"), Fill("left", Literal(0)))
    return put_before(program, parts.reduce_path, made)


def _in_waves(parts: Parts, trip: int, behind: Body) -> Program:
    program = parts.program
    barriers = [path for path, s in parts.inside if isinstance(s, Barrier)]
    for path in reversed(barriers):
        program = spliced(program, path, ())
    inner = node_at(program, parts.reduce_path), *behind
    return spliced(program, parts.reduce_path, wrapped(f"wave again in 0 .. {trip}", inner))
