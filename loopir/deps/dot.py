"""The dependence graph as text for Graphviz."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopir.deps.edges import Kind
from loopir.printer import stmt_text

if TYPE_CHECKING:
    import networkx as nx

_STYLE = {Kind.RAW: "solid", Kind.WAR: "dotted", Kind.WAW: "dashed"}


def to_dot(graph: "nx.MultiDiGraph") -> str:
    """One `digraph`: the statements by their text, in text order, the edges by kind, object and
    loop. Equal kernels give equal text."""
    return "\n".join((f"digraph {_quoted(graph.graph['kernel'])} {{", *_lines(graph), "}\n"))


def _lines(graph: "nx.MultiDiGraph") -> Iterator[str]:
    yield "  node [shape=box, fontname=monospace];"
    names = {path: f"s{n}" for n, path in enumerate(graph)}
    for path, name in names.items():
        yield f"  {name} [label={_quoted(stmt_text(graph.nodes[path]['stmt']))}];"
    for source, target, edge in graph.edges(data=True):
        attributes = f"label={_quoted(_label(graph, edge))}, style={_STYLE[edge['kind']]}"
        yield f"  {names[source]} -> {names[target]} [{attributes}];"


def _label(graph: "nx.MultiDiGraph", edge: dict) -> str:
    text = f"{edge['kind'].value} {edge['object']}"
    if edge["carried_by"] is None:
        return text
    head = stmt_text(graph.nodes[edge["carried_by"]]["stmt"]).partition(" in ")[0]
    return f"{text} (carried by {head})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
