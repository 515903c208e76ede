"""The sides of an output tile, in pieces, the slices of matrices that belong to them, and the grid
around, as text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loopir.nodes import Program
from loopir.parser import parse

#: how long a side of a tile is: one piece, or several
Extent: TypeAlias = int | tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """A part of an index: where it starts and how long it is; `suffix`: of the names of its
    tiles."""

    start: str
    size: str
    suffix: str = ""

    @property
    def text(self) -> str:
        return f"{self.start} +: {self.size}"


@dataclass(frozen=True)
class Side:
    """The rows (M) or the columns (N) of an output tile; `letter` names their count."""

    letter: str
    iv: str
    pieces: tuple[int, ...]

    @property
    def size(self) -> str:
        return f"B{self.letter}"

    @property
    def tiles(self) -> str:
        return f"ceildiv({self.letter}, {self.size})"

    @property
    def spans(self) -> tuple[Span, ...]:
        """The pieces, one behind the other."""
        whole = f"{self.iv} * {self.size}"
        if len(self.pieces) == 1:
            return (Span(whole, self.size),)
        names = [f"{self.size}{i}" for i in range(len(self.pieces))]
        starts = (" + ".join((whole, *names[:i])) for i in range(len(names)))
        return tuple(Span(s, n, f"{i}") for i, (s, n) in enumerate(zip(starts, names, strict=True)))

    def bindings(self) -> Iterator[tuple[str, str]]:
        """What the `where` clause says of the sizes."""
        if len(self.pieces) == 1:
            yield self.size, f"{self.pieces[0]}"
            return
        names = [span.size for span in self.spans]
        yield from zip(names, map(str, self.pieces), strict=True)
        yield self.size, " + ".join(names)


#: of the summed index
PANEL = Span("kp * BK", "BK")


@dataclass(frozen=True)
class Tiling:
    """The sides of a tile, and how long a panel is."""

    m: Side
    n: Side
    panel: int

    def program(
        self,
        name: str,
        params: Iterable[str],
        sizes: Mapping[str, int | None],
        body: Iterable[str],
    ) -> Program:
        """A grid of tiles, of each batch if there is a size NB, around the statements of one."""
        where = ", ".join(f"{name} = {value}" for name, value in self._bindings(sizes))
        axes = {"nb": "NB"} if "NB" in sizes else {}
        axes |= {side.iv: side.tiles for side in (self.m, self.n)}
        head = (
            f"kernel @{name}({', '.join(params)})",
            f"where {where} {{",
            f"grid ({', '.join(axes)}) in [{', '.join(axes.values())}] {{",
        )
        return parse("\n".join((*head, *body, "}", "}")))

    def _bindings(self, sizes: Mapping[str, int | None]) -> Iterator[tuple[str, object]]:
        yield from ((name, size) for name, size in sizes.items() if size is not None)
        yield from (*self.m.bindings(), *self.n.bindings(), ("BK", self.panel))
        yield "P", "max(1, ceildiv(K, BK))"


def tiling(tile: Any) -> Tiling:
    """Of a tile (BM, BN, BK), whose BM and BN may be tuples of pieces."""
    if not isinstance(tile, tuple | list) or len(tile) != 3:
        raise ValueError(f"tile: (BM, BN, BK), not {tile!r}")
    *extents, panel = tile
    m, n = (tuple(e) if isinstance(e, tuple | list) else (e,) for e in extents)
    if any(type(p) is not int or p < 1 for p in (*m, *n, panel)) or not (m and n):
        raise ValueError(f"tile: ints >= 1, or tuples of them for BM and BN, not {tile!r}")
    return Tiling(Side("M", "ti", m), Side("N", "tj", n), panel)


def sliced(rows: Span, columns: Span, names: tuple[str, str], turned: bool, lead: str = "") -> str:
    """The access, behind its buffer's name, to rows and columns of a matrix. The tile is transposed
    if `turned`: `[m, k] over (k = kp * BK +: BK, m = ti * BM +: BM)`, and `names` are those of its
    axes. `lead`: the text of indices before."""
    if not turned:
        return f"[{lead}{rows.text}, {columns.text}]"
    (x, y), index = names, f"[{lead}{', '.join(names)}]"
    return f"{index} over ({y} = {columns.text}, {x} = {rows.text})"
