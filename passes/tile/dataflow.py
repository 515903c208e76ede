"""TI07, TI08: what the dependence graph of a nest says against tiling it."""

from collections.abc import Iterator
from typing import Any

from loopir.deps import Kind
from loopir.printer import stmt_text
from loopir.walk import Path
from passes.base import Refusal
from passes.tile.nest import Nest


def independent_iterations(nest: Nest) -> Iterator[Refusal]:
    """TI07"""
    rule = "no iteration of the band writes what another one reads or writes"
    carriers = {path[2:]: loop.iv for path, loop in nest.band}
    found: dict[tuple[Path, Path], str] = {}
    for source, target, edge in nest.dependences.edges(data=True):
        if edge["in_memory"] and edge["carried_by"] in carriers and (target, source) not in found:
            found.setdefault((source, target), carriers[edge["carried_by"]])
    for (source, target), iv in found.items():
        other = stmt_text(nest.dependences.nodes[target]["stmt"])
        text = f"`{other}` in another iteration of {iv} may touch the same element"
        hint = "index what is stored by every parallel index, and read only that element of it"
        yield Refusal("TI07", rule, (*nest.reduce_path[:2], *source), text, hint)


def nothing_carried(nest: Nest) -> Iterator[Refusal]:
    """TI08"""
    rule = "only accumulators pass from one summed iteration to the next, or out of the loops"
    carriers = {path[2:] for path, _ in nest.loops}
    innermost = nest.loops[-1][0][2:]
    found: dict[tuple[Path, str], None] = {}
    for source, target, edge in nest.dependences.edges(data=True):
        leaves = edge["carried_by"] in carriers or not _is_below(target, innermost)
        if leaves and _is_below(source, innermost) and _is_value(nest, edge):
            found[source, edge["object"]] = None
    for source, name in found:
        text = f"{name} is used by a later iteration, or behind the loops"
        hint = f"make {name} an accumulator of the reduce, or compute it anew"
        yield Refusal("TI08", rule, (*nest.reduce_path[:2], *source), text, hint, name)


def _is_below(path: Path, loop: Path) -> bool:
    return len(path) > len(loop) and path[: len(loop)] == loop


def _is_value(nest: Nest, edge: dict[str, Any]) -> bool:
    """Whether the dependence brings a value, other than an accumulator's, that is in no memory."""
    is_raw = edge["kind"] is Kind.RAW and not edge["in_memory"]
    return is_raw and edge["object"] not in nest.accumulators
