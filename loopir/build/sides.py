"""The sides of an output tile, in pieces, and the slices of matrices that belong to them, as
text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

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


PANEL = Span("kp * BK", "BK")


def sides(tile: Any) -> tuple[Side, Side, int]:
    """The sides and the panel of a tile (BM, BN, BK), whose BM and BN may be tuples of pieces."""
    if not isinstance(tile, tuple | list) or len(tile) != 3:
        raise ValueError(f"tile: (BM, BN, BK), not {tile!r}")
    *extents, panel = tile
    m, n = (tuple(e) if isinstance(e, tuple | list) else (e,) for e in extents)
    if any(type(p) is not int or p < 1 for p in (*m, *n, panel)) or not (m and n):
        raise ValueError(f"tile: ints >= 1, or tuples of them for BM and BN, not {tile!r}")
    return Side("M", "ti", m), Side("N", "tj", n), panel


def sliced(rows: Span, columns: Span, names: tuple[str, str], turned: bool, lead: str = "") -> str:
    """The access, behind its buffer's name, to rows and columns of a matrix. The tile is transposed
    if `turned`: `[m, k] over (k = kp * BK +: BK, m = ti * BM +: BM)`, and `names` are those of its
    axes. `lead`: the text of indices before."""
    if not turned:
        return f"[{lead}{rows.text}, {columns.text}]"
    (x, y), index = names, f"[{lead}{', '.join(names)}]"
    return f"{index} over ({y} = {columns.text}, {x} = {rows.text})"
