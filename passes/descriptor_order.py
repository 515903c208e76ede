"""Which stores of a kernel may come to one element twice in one block."""

from itertools import product

from loopir.deps.accesses import Scope
from loopir.deps.edges import Edge, Kind
from loopir.deps.memory import memory_edges
from loopir.nodes import For, Grid, Grid1D, Kernel, Store, While
from loopir.walk import Path, enclosing, node_at
from passes.tile_cells import Cells
from passes.tile_numbers import numbers


def repeated_stores(kernel: Kernel) -> frozenset[Path]:
    """The stores, by path from the kernel, that may come to an element which the same block stores
    again, in another turn of a loop or by another store.

    Of a persistent kernel a place that tells the number of its tile is another one in each turn of
    a walk (`passes.tile_numbers`). Of two walks one after the other, a `for` and a `while`, as
    hybrid decompositions have, it is trusted that they share no tile.
    """
    found = (e for e in memory_edges(kernel) if e.kind is Kind.WAW and _is_repeat(kernel, e))
    return frozenset(path for e in found for path in (e.source, e.target))


def _is_repeat(kernel: Kernel, edge: Edge) -> bool:
    if edge.carried_by is None and edge.source == edge.target:
        return False  # within one tile, which is no box then
    if edge.carried_by and isinstance(node_at(kernel, edge.carried_by), Grid | Grid1D):
        return False  # of two blocks
    return not isinstance(kernel.body[0], Grid1D) or not _walks_on(kernel, edge)


def _walks_on(kernel: Kernel, edge: Edge) -> bool:
    """Whether both ends belong to tiles that differ: of two turns of a walk, or of two walks."""
    ends = (edge.source, edge.target)
    if edge.carried_by is not None:
        return _tell_tiles(kernel, ends, (edge.carried_by, edge.carried_by))
    around = [_loops(kernel, path) for path in ends]
    loops = tuple(loops[0] for loops in around if len(loops) == 1)
    kinds = {type(node_at(kernel, loop)) for loop in loops}
    return kinds == {For, While} and _tell_tiles(kernel, ends, loops)


def _tell_tiles(kernel: Kernel, ends: tuple[Path, ...], loops: tuple[Path, ...]) -> bool:
    """Whether two stores, each in a loop over tiles, share an element only within one tile."""
    (a, b), cells = (node_at(kernel, path) for path in ends), Cells(kernel, Scope(kernel))
    if not (isinstance(a, Store) and isinstance(b, Store)):
        return False
    first, second = (tuple(numbers(node_at(kernel, loop))) for loop in loops)
    pairs = zip(first, first, strict=True) if loops[0] == loops[1] else product(first, second)
    return any(cells.are_apart(a.target, b.target, t, u) for t, u in pairs)


def _loops(kernel: Kernel, path: Path) -> list[Path]:
    around = enclosing(kernel.body, path[1:])
    return [("body", *p) for p, stmt in around if isinstance(stmt, For | While)]
