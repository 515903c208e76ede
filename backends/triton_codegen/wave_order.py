"""That the waves of a loop may run in any order, or all at once: none needs what another one
did."""

from dataclasses import replace

from backends.triton_codegen.wave_axes import Splits
from backends.triton_codegen.wave_loop import Wave
from loopir.deps import Kind, dependences
from loopir.nodes import Stmt, Store
from loopir.walk import Path

_ALONE: Path = ("body", 0)


def check_order(wave: Wave, splits: Splits) -> None:
    """CodegenError: a tile that a wave leaves for the next one, or an element of a buffer that two
    waves use and one writes. Every wave may store the same values to the same place."""
    # What stands around the loop is as good as constant inside it.
    graph = dependences(replace(wave.kernel, body=(wave.loop,)))
    for source, target, edge in graph.edges(data=True):
        if edge["carried_by"] != _ALONE:
            continue
        name, path = edge["object"], target[len(_ALONE) :]
        if name not in wave.types and not _stores_the_same(graph, (source, target), splits):
            wave.refuse(path, f"two waves may meet in one element of {name}", name)
        if name in wave.types and edge["kind"] is Kind.RAW:
            wave.refuse(path, f"{name} passes from each wave to the next", name)


def _stores_the_same(graph, ends: tuple[Path, Path], splits: Splits) -> bool:
    stmts: list[Stmt] = [graph.nodes[path]["stmt"] for path in ends]
    return all(isinstance(s, Store) and splits[s.tile] is None for s in stmts)
