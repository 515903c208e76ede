"""The canonical program of a product with one row or one column, or a few: element by element, on
no tensor core."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from loopir.build.arguments import Layout, check_name, check_sizes, choice, dtypes, sum_dtype
from loopir.build.epilogue import Epilogue, Output, Place, Writeback, writeback
from loopir.build.nest import alloc, param
from loopir.build.sides import PANEL, Side, Span, Tiling, sliced, tiling
from loopir.nodes import Program
from loopir.types import DType, Space

_MOST_VECTORS = 16


def gemv(
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    tile: tuple[int, int, int] = (1, 8, 1024),
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    epilogue: Epilogue | None = None,
    panel_sums: bool = False,
    name: str = "gemv",
) -> Program:
    """C[M, N] = epilogue(A[M, K] @ B[K, N]) for few rows, or few columns, as a sum of products of
    elements; parameters, types and sizes as of `gemm`, any float or integer type.

    tile = (BM, BN, BK): the shorter of BM and BN, at most 16, counts vectors, each of which has an
    accumulator of its own; the other and BK are the part of the matrix that a block loads at a
    time. An accumulator is as large as that part, and summed up once, behind the last panel; or,
    with `panel_sums`, one column of it, which each panel adds its sums to: more work, but smaller
    parts where K is split. ValueError names a bad argument.
    """
    sizes = {"M": M, "N": N, "K": K}
    check_sizes(sizes)
    check_name(name)
    dtype, acc, out_dtype = dtypes(dtype, out_dtype, sum_dtype)
    a, b = (
        choice(Layout, layout, f"{buffer}_layout").contiguous
        for buffer, layout in (("a", a_layout), ("b", b_layout))
    )
    shape = tiling(tile)
    pieces = (*shape.m.pieces, *shape.n.pieces)
    if len(pieces) > 2 or min(pieces) > _MOST_VECTORS:
        raise ValueError(f"tile: BM or BN is at most {_MOST_VECTORS}, in one piece, not {tile!r}")
    made = _Vectors(dtype, acc, out_dtype, shape, panel_sums, epilogue)
    params = (param("A", dtype, "M, K", a), param("B", dtype, "K, N", b))
    return shape.program(name, (*params, *made.backs[0].params), sizes, made.body())


@dataclass(frozen=True)
class _Vectors:
    """What a block does. The vectors are the few rows of A, and the matrix is B; or the few columns
    of B, and A."""

    dtype: DType
    acc: DType
    out: DType
    tiling: Tiling
    panel_sums: bool
    epilogue: Epilogue | None

    @property
    def _has_rows(self) -> bool:
        """Whether the vectors are rows, of A, and the matrix is B."""
        return self.tiling.m.pieces <= self.tiling.n.pieces

    @property
    def _few(self) -> Side:
        return self.tiling.m if self._has_rows else self.tiling.n

    @property
    def _many(self) -> Span:
        (span,) = (self.tiling.n if self._has_rows else self.tiling.m).spans
        return span

    @property
    def _suffixes(self) -> tuple[str, ...]:
        """Of the tiles of each vector."""
        (count,) = self._few.pieces
        return ("",) if count == 1 else tuple(map(str, range(count)))

    @property
    def _sums(self) -> str:
        return self._many.size if self.panel_sums else f"{self._many.size}, BK"

    def body(self) -> Iterator[str]:
        matrix, vector = ("b", "a") if self._has_rows else ("a", "b")
        accs = [f"acc{s}" for s in self._suffixes]
        for acc in accs:
            yield alloc(acc, self.acc, self._sums, Space.REGISTER)
        yield alloc(matrix, self.dtype, f"{self._many.size}, BK", Space.SHARED)
        for s in self._suffixes:
            yield alloc(f"{vector}{s}", self.dtype, "BK", Space.SHARED)
        yield from (f"fill {acc}, 0" for acc in accs)
        yield f"reduce ({', '.join(f'{acc}: add' for acc in accs)}) {{"
        yield "for kp in 0 .. P {"
        yield f"coop_load {matrix}, {matrix.upper()}{self._matrix()} masked"
        for s in self._suffixes:
            yield f"coop_load {vector}{s}, {vector.upper()}[{self._at(s, PANEL)}] masked"
        yield "barrier"
        for s, acc in zip(self._suffixes, accs, strict=True):
            yield f"ewise {acc} = {acc} + {self._term(matrix, f'{vector}{s}')}"
        yield from ("barrier", "}", "}")
        yield from (
            line
            for s, acc in zip(self._suffixes, accs, strict=True)
            for line in self._total(s, acc)
        )

    def _matrix(self) -> str:
        """Its tile has the panel last, however it is stored."""
        if self._has_rows:
            return sliced(PANEL, self._many, ("k", "n"), turned=True)
        return sliced(self._many, PANEL, ("m", "k"), turned=False)

    def _at(self, suffix: str, along: Span) -> str:
        """The index of a part of one vector."""
        index = self._number(suffix), along.text
        return ", ".join(index if self._has_rows else reversed(index))

    def _number(self, suffix: str) -> str:
        first = f"{self._few.iv} * {self._few.size}"
        return f"{first} + {suffix}" if suffix else first

    def _term(self, matrix: str, vector: str) -> str:
        value, factor = (
            name if self.dtype is self.acc else f"cast({self.acc.value}, {name})"
            for name in (matrix, vector)
        )
        product = f"{value} * expand({factor}, 0)"
        return f"sum({product}, 1)" if self.panel_sums else product

    def _total(self, suffix: str, acc: str) -> Iterator[str]:
        if not self.panel_sums:
            yield alloc(f"total{suffix}", self.acc, self._many.size, Space.REGISTER)
            yield f"ewise total{suffix} = sum({acc}, 1)"
        yield from self._back(suffix).lines

    @cached_property
    def backs(self) -> tuple[Writeback, ...]:
        return tuple(map(self._back, self._suffixes))

    def _back(self, suffix: str) -> Writeback:
        many, index = self._many, self._at(suffix, self._many)
        place = Place(f"[{index}]", many.size, Space.REGISTER, " masked")
        is_row = self._has_rows
        channel = many.text if is_row else self._number(suffix)
        shift = Place(f"[{channel}]", many.size if is_row else "", Space.REGISTER, " masked")
        spread = None if is_row else 0
        out = Output("C", self.out, "M, N", place, "N", shift, spread, suffix)
        return writeback(
            f"{'acc' if self.panel_sums else 'total'}{suffix}", self.acc, out, self.epilogue
        )
