"""Questions of data flow over a matched nest, asked of its dependence graph: what the panel loop
carries, what its accumulators start from, what becomes of them, who else uses the output."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from loopir.deps import Kind, scalar_values
from loopir.effects import has_side_effect
from loopir.nodes import Load, Store
from loopir.symbols import Expr, substitute
from loopir.walk import Path, Placed, is_wave_loop
from passes.stream_k.nest import Edge, Nest


def panel_count(nest: Nest) -> Expr:
    """The end of the panel loop, in terms of sizes, grid variables and unknowns only."""
    return substitute(nest.loop.hi, scalar_values(nest.body))


@dataclass(frozen=True)
class Writeback:
    """A store, after the Reduce, of a tile that holds accumulators or what an epilogue made of
    them."""

    path: Path
    store: Store


def writebacks(nest: Nest) -> tuple[Writeback, ...]:
    """Every writeback, in text order."""
    derived = _derived(nest)
    return tuple(
        Writeback(path, stmt)
        for path, stmt in nest.after
        if isinstance(stmt, Store) and (stmt.tile in nest.accumulators or path in derived)
    )


def starts(nest: Nest, accumulator: str) -> tuple[Placed, ...]:
    """The statements whose value of an accumulator the Reduce, or a writeback that no panel comes
    before, can find in it; an `alloc` where it may find none."""
    users = {b.path for b in writebacks(nest)}
    found = {
        source: None
        for source, target, edge in _values(nest)
        if edge["object"] == accumulator
        and not _is_inside(nest, source)
        and (_is_inside(nest, target) or (target in users and not _is_after(nest, source)))
    }
    return tuple((path, _stmt(nest, path)) for path in found)


def carried(nest: Nest) -> Iterator[tuple[Path, str]]:
    """Tiles, scalars and flags, accumulators apart, whose value leaves an iteration of the panel
    loop, each with the statement that makes it."""
    found = {
        (source, edge["object"]): None
        for source, target, edge in _values(nest)
        if _is_inside(nest, source)
        and (_crosses_panels(nest, edge) or not _is_inside(nest, target))
        and not has_side_effect(_stmt(nest, source))
    }
    return ((path, name) for path, name in found if name not in nest.accumulators)


def carried_by_waves(nest: Nest) -> Iterator[tuple[Path, str]]:
    """Tiles, scalars and buffers that one turn of a wave loop around the Reduce leaves in or behind
    its panels, and a later turn uses in or before its own; accumulators in the panels apart."""
    found = {
        (source, edge["object"]): None
        for source, target, edge in nest.edges
        if edge["kind"] is Kind.RAW
        and _crosses_waves(nest, edge)
        and not _is_after(nest, target)
        and not (edge["object"] in nest.accumulators and _is_inside(nest, target))
        and (_is_after(nest, source) or _is_inside(nest, source))
    }
    return iter(found)


def epilogue(nest: Nest) -> Iterator[Path]:
    """The statements outside the Reduce, in text order, that take part in what a writeback stores
    or read accumulators: computation, conditions, loops other than waves; and loads of what the
    output holds behind the Reduce."""
    found = writebacks(nest)
    backs = [b.path for b in found]
    feeds = {
        source
        for source, target, edge in _values(nest)
        if target in backs and edge["object"] == _stmt(nest, target).tile
    }
    feeds |= {path for b in found for path, s in other_uses(nest, b) if isinstance(s, Load)}
    computes = _derived(nest) | {path for path in feeds if _is_after(nest, path)}
    for path, stmt in (*nest.before, *nest.after):
        around_a_writeback = any(b[: len(path)] == path != b for b in backs)
        if around_a_writeback and not is_wave_loop(stmt):
            yield path
        if path in computes and not has_side_effect(stmt):
            yield path


def other_uses(nest: Nest, back: Writeback) -> Iterator[Placed]:
    """The other statements, in text order, that may access an element that the writeback stores,
    through its buffer or an alias of it."""
    touching = {
        path
        for a, b, edge in nest.edges
        if edge["in_memory"] and back.path in (a, b)
        for path in (a, b)
    }
    return (p for p in nest.statements if p[0] in touching and p[0] != back.path)


def unseparated(nest: Nest, back: Writeback) -> tuple[str, ...] | None:
    """None if no two runs of the writeback, and no two elements of its tile, meet in one element of
    the output. Else the variables that the element does not tell."""
    found = [edge for a, b, edge in nest.edges if edge["in_memory"] and a == b == back.path]
    names = (name for edge in found for name in edge["untold"])
    return tuple(dict.fromkeys(names)) if found else None


def _values(nest: Nest) -> Iterator[Edge]:
    """The raw dependences through tiles, scalars and flags."""
    return (e for e in nest.edges if e[2]["kind"] is Kind.RAW and not e[2]["in_memory"])


def _derived(nest: Nest) -> frozenset[Path]:
    """The statements outside the Reduce that read accumulators, or what is computed from them."""
    edges = [(a, b, e["object"]) for a, b, e in _values(nest) if not _is_inside(nest, b)]
    found: set[Path] = set()
    size = -1
    while size != len(found):
        size = len(found)
        for source, target, name in edges:
            from_panels = _is_inside(nest, source) and name in nest.accumulators
            if from_panels or source in found:
                found.add(target)
    return frozenset(found)


def _stmt(nest: Nest, path: Path) -> Any:
    return nest.dependences.nodes[path[2:]]["stmt"]


def _is_inside(nest: Nest, path: Path) -> bool:
    """Whether a statement runs once a panel; the panel loop itself does not."""
    loop = nest.loop_path
    return len(path) > len(loop) and path[: len(loop)] == loop


def _is_after(nest: Nest, path: Path) -> bool:
    return any(path == p for p, _ in nest.after)


def _crosses_waves(nest: Nest, edge: dict[str, Any]) -> bool:
    """Whether a loop between the grid and the Reduce carries the dependence."""
    carrier, around = edge["carried_by"], nest.reduce_path[2:]
    if carrier is None or around[: len(carrier)] != carrier:
        return False
    return len(nest.body_path[2:]) < len(carrier) < len(around)


def _crosses_panels(nest: Nest, edge: dict[str, Any]) -> bool:
    """Whether the panel loop, or something around it, carries the dependence."""
    carrier = edge["carried_by"]
    return carrier is not None and nest.loop_path[2:][: len(carrier)] == carrier
