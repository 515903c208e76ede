"""Which stores of a kernel may come to one element twice in one block."""

from loopir.deps.edges import Edge, Kind
from loopir.deps.memory import memory_edges
from loopir.nodes import ElementRead, For, Grid, Grid1D, Kernel, Let, Set, Store, While
from loopir.symbols import names_of
from loopir.walk import Path, enclosing, node_at, symbol_names, walk


def repeated_stores(kernel: Kernel) -> frozenset[Path]:
    """The stores, by path from the kernel, that may come to an element which the same block stores
    again, in another turn of a loop or by another store.

    Of a persistent kernel it is trusted that a walk, and the walks after it, come to each place
    once: there a store is repeated only where its place stays while a loop around it goes on.
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
    """Whether both ends move along with what could bring them to one element: the loop that carries
    the edge, or the loops around each, of which the outermost differ."""
    ends = (edge.source, edge.target)
    if edge.carried_by is not None:
        return all(_moves(kernel, path, edge.carried_by) for path in ends)
    first, second = (_loops(kernel, path) for path in ends)
    is_later_walk = first[:1] != second[:1]
    return is_later_walk and all(
        _moves(kernel, path, loop)
        for path, loops in zip(ends, (first, second), strict=True)
        for loop in loops
    )


def _loops(kernel: Kernel, path: Path) -> list[Path]:
    around = enclosing(kernel.body, path[1:])
    return [("body", *p) for p, stmt in around if isinstance(stmt, For | While)]


def _moves(kernel: Kernel, path: Path, loop: Path) -> bool:
    """Whether the place of a store depends on what the loop changes."""
    store = node_at(kernel, path)
    place = store.target if isinstance(store, Store) else store
    return bool(symbol_names(place) & _changing(node_at(kernel, loop)))


def _changing(loop: For | While) -> set[str]:
    """The scalars that differ from turn to turn."""
    inside = [stmt for _, stmt in walk(loop.body)]
    names = {s.name for s in inside if isinstance(s, Set)}
    names |= {loop.iv} if isinstance(loop, For) else set()
    for stmt in inside:
        if isinstance(stmt, Let) and (
            isinstance(stmt.expr, ElementRead) or names_of(stmt.expr) & names
        ):
            names.add(stmt.name)
        if isinstance(stmt, For) and symbol_names(stmt) & names:
            names.add(stmt.iv)
    return names
