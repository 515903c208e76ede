"""Whether a tail can be done for its columns piece by piece, and what goes with them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from loopir.deps import Kind
from loopir.effects import tiles_written
from loopir.nodes import Arrive, Atomic, Set, Stmt, Store
from loopir.printer import stmt_text
from loopir.tile_types import Tiles
from loopir.walk import Path, names_made
from passes.pieces.tails import Tail
from passes.pieces.ties import Dim, Tie, memory_ties, obstacles, reached, statement_ties

if TYPE_CHECKING:
    import networkx as nx


class Leftover(NamedTuple):
    """What a piece would leave to others, and the statement."""

    why: str
    path: Path


@dataclass(frozen=True)
class Columns:
    """The last axis of what a tail stores. `graph`: the dependences of its kernel; `tiles`: types
    there."""

    tail: Tail
    graph: "nx.MultiDiGraph"
    tiles: Tiles

    @cached_property
    def placed(self) -> dict[Path, Stmt]:
        return self.tail.placed

    # --- which axes

    @cached_property
    def groups(self) -> tuple[frozenset[Dim], ...]:
        """The axes that go with each other, and have one size, in the order of stores."""
        found: list[frozenset[Dim]] = []
        for stmt in self.placed.values():
            dim = self._stored(stmt)
            if dim is not None and not any(dim in group for group in found):
                found.append(reached((dim,), self.ties))
        return tuple(found)

    def _stored(self, stmt: Stmt) -> Dim | None:
        rank = len(self.tiles[stmt.tile].shape) if isinstance(stmt, Store | Atomic) else 0
        return Dim(stmt.tile, rank - 1) if rank > 1 else None  # pyright: ignore

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        own = (tie for s in self.placed.values() for tie in statement_ties(s, self.tiles))
        memory = memory_ties(self.graph, self.placed, self.tail.path, self.tiles)
        return *own, *memory

    @cached_property
    def axes(self) -> dict[str, int]:
        """Of each tile that has columns of these groups, which of its axes they are."""
        return {dim.tile: dim.axis for group in self.groups for dim in group}

    def size(self, group: Iterable[Dim]) -> int:
        """Of each axis in a group."""
        return max(self.tiles[dim.tile].shape[dim.axis] for dim in group)

    def mixed(self) -> Iterator[tuple[str, Path]]:
        """What keeps the pieces of the columns apart, and the statement."""
        along = frozenset(dim for group in self.groups for dim in group)
        places = {id(stmt): path for path, stmt in self.placed.items()}
        for why, stmt in obstacles(along, self.ties, self.placed.values()):
            yield why, places.get(id(stmt), (*self.tail.path, self.tail.start))

    # --- what goes in and out

    @cached_property
    def _values(self) -> tuple[tuple[Path, Path, Mapping[str, Any]], ...]:
        edges = self.graph.edges(data=True)
        return tuple(e for e in edges if e[2]["kind"] is Kind.RAW and not e[2]["in_memory"])

    @cached_property
    def found(self) -> frozenset[str]:
        """Tiles and scalars whose value from before the tail it reads."""
        return frozenset(
            edge["object"]
            for source, target, edge in self._values
            if target in self.placed and (source not in self.placed or self._is_later(edge))
        )

    def _is_later(self, edge: Mapping[str, Any]) -> bool:
        """Whether a dependence leads to another run of the tail."""
        carrier = edge["carried_by"]
        return carrier is not None and carrier not in self.placed

    def _rewritten(self) -> Iterator[Leftover]:
        """Tiles that are made in it, of which each piece has its own, and written behind it."""
        made = frozenset[str]().union(*map(names_made, self.placed.values()))
        for source, target, edge in self.graph.edges(data=True):
            leads_out = source in self.placed and target not in self.placed
            is_own = not edge["in_memory"] and edge["object"] in made
            if leads_out and is_own and edge["kind"] is not Kind.RAW:
                yield Leftover(f"`{edge['object']}` is written behind its stores", source)

    def leftovers(self) -> Iterator[Leftover]:
        yield from dict.fromkeys(self._rewritten())
        for source, target, edge in self._values:
            if source in self.placed and (target not in self.placed or self._is_later(edge)):
                yield Leftover(f"`{edge['object']}` is read behind its stores", source)
        for path, stmt in self.placed.items():
            set_here = {stmt.name} if isinstance(stmt, Set) else tiles_written(stmt)
            for name in sorted((set_here & self.found) - self.axes.keys()):
                yield Leftover(f"it changes `{name}`, which the next piece reads", path)
            if isinstance(stmt, Arrive):
                yield Leftover(f"every piece would do `{stmt_text(stmt)}`", path)
