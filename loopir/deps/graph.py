"""The dependence graph of a kernel."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from loopir.deps.edges import Edge, Kind
from loopir.deps.memory import memory_edges
from loopir.deps.values import value_edges
from loopir.nodes import Kernel, Reduce
from loopir.walk import Path, walk

if TYPE_CHECKING:
    import networkx as nx


def dependences(kernel: Kernel) -> "nx.MultiDiGraph":
    """Which statement of a verified kernel must stay behind which, for any sizes and inputs.

    Nodes are the paths of statements from the kernel, ("body", 0, "body", 3), in text order, with
    the statement as attribute `stmt`. A `while`, `if`, `for` and `grid` is a node for its
    condition, bounds and variables; a `reduce` is none. Edges have the fields of `Edge` as
    attributes; there is one for each loop that a dependence can cross. They are kept in text order
    too.

    Not in the graph: that a statement runs only under a condition (the path tells), and that
    `barrier` and `arrive` order what blocks and warps see.
    """
    import networkx as nx  # here, so that programs that ask no dependence question start faster

    graph = nx.MultiDiGraph(kernel=kernel.name)
    for path, stmt in walk(kernel.body, ("body",)):
        if not isinstance(stmt, Reduce):
            graph.add_node(path, stmt=stmt)
    place = {path: n for n, path in enumerate(graph)}
    found = _with_must(value_edges(kernel)) + list(memory_edges(kernel))
    for e in sorted(found, key=lambda e: _rank(e, place)):
        graph.add_edge(e.source, e.target, **_attributes(e))
    return graph


def _attributes(e: Edge) -> dict[str, Any]:
    return {f.name: getattr(e, f.name) for f in fields(e) if f.name not in ("source", "target")}


def _with_must(found: Iterable[Edge]) -> list[Edge]:
    """Each raw edge that is the only one to what its target reads, marked so."""
    unique = list(dict.fromkeys(found))
    sources = Counter((e.target, e.object) for e in unique if e.kind is Kind.RAW)
    return [
        replace(e, must=e.kind is Kind.RAW and sources[e.target, e.object] == 1) for e in unique
    ]


def _rank(e: Edge, place: dict[Path, int]) -> tuple[int, int, str, str, int]:
    carrier = -1 if e.carried_by is None else place[e.carried_by]
    return place[e.source], place[e.target], e.object, e.kind.value, carrier
