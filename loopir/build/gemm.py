"""The canonical programs of a tiled GEMM, one or a batch: the input form of the passes, after grid
offload and local storage."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from loopir.build.arguments import Layout, check_name, check_sizes, choice, dtypes
from loopir.build.epilogue import Epilogue, Output, Place, Writeback, writeback
from loopir.build.nest import alloc, param
from loopir.build.sides import PANEL, Extent, Span, Tiling, sliced, tiling
from loopir.nodes import Program
from loopir.types import DType, Precision, Space

Tile = tuple[Extent, Extent, int]


def gemm(
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    tile: Tile = (128, 128, 64),
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    precision: Precision | str = Precision.IEEE,
    epilogue: Epilogue | None = None,
    swapped: bool = False,
    name: str = "gemm",
) -> Program:
    """C[M, N] = epilogue(A[M, K] @ B[K, N]), tiled by tile = (BM, BN, BK), accumulated in f32 (f64
    for f64, i32 for i8).

    M, N, K: sizes >= 0, or None to leave them as launch-time arguments. `out_dtype`: of C, the
    accumulator's type if None; another type adds a cast after the reduction. BM and BN may be
    tuples, as in (128, (128, 64), 64): pieces side by side, each with an accumulator of its own,
    over one load of what they share. `swapped`: the block computes the transposed tile, B's columns
    by A's rows, and stores it transposed, so that N is the long side of its `dot`. Layouts: `col`
    for B is the usual weight layout, stored as [N, K]. `precision`: of f32 operands only. Sizes
    that are no multiple of the tile are masked, on both operands; K = 0 still writes the epilogue
    of zeros. ValueError names a bad argument.
    """
    sizes = {"M": M, "N": N, "K": K}
    types, layouts = (dtype, out_dtype), (a_layout, b_layout)
    return _product(name, sizes, types, tile, layouts, precision, epilogue, swapped)


def batched_gemm(
    NB: int | None,
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    tile: Tile = (128, 128, 64),
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    precision: Precision | str = Precision.IEEE,
    epilogue: Epilogue | None = None,
    swapped: bool = False,
    name: str = "batched_gemm",
) -> Program:
    """C[NB, M, N] = epilogue(A[NB, M, K] @ B[NB, K, N]) for each of NB batches, as in `gemm`. The
    bias is [N], the residual [NB, M, N]."""
    sizes = {"NB": NB, "M": M, "N": N, "K": K}
    types, layouts = (dtype, out_dtype), (a_layout, b_layout)
    return _product(name, sizes, types, tile, layouts, precision, epilogue, swapped)


def _product(
    name: str,
    sizes: Mapping[str, int | None],
    types: tuple[DType | str, DType | str | None],
    tile: Tile,
    layouts: tuple[Layout | str, Layout | str],
    precision: Precision | str,
    epilogue: Epilogue | None,
    swapped: bool,
) -> Program:
    check_sizes(sizes)
    check_name(name)
    dtype, acc, out_dtype = dtypes(*types)
    precision = choice(Precision, precision, "precision")
    if precision is not Precision.IEEE and dtype is not DType.F32:
        raise ValueError(
            f"precision: {precision.value} is for f32 operands, dtype is {dtype.value}"
        )
    a, b = (
        choice(Layout, layout, f"{buffer}_layout").contiguous + len(sizes) - 3
        for buffer, layout in zip("ab", layouts, strict=True)
    )
    batch = "NB, " if "NB" in sizes else ""
    shape = tiling(tile)
    made = _Tiled(batch, dtype, acc, out_dtype, shape, swapped, precision, epilogue)
    params = (param("A", dtype, f"{batch}M, K", a), param("B", dtype, f"{batch}K, N", b))
    return shape.program(name, (*params, *made.backs[0].params), sizes, made.body())


@dataclass(frozen=True)
class _Tiled:
    """What a block does. An accumulator is of a piece of the rows and one of the columns, in this
    order, or turned. `batch`: the text of a dimension before, if any."""

    batch: str
    dtype: DType
    acc: DType
    out: DType
    tiling: Tiling
    swapped: bool
    precision: Precision
    epilogue: Epilogue | None

    @cached_property
    def _pieces(self) -> tuple[tuple[Span, Span], ...]:
        return tuple(product(self.tiling.m.spans, self.tiling.n.spans))

    def body(self) -> Iterator[str]:
        names = [f"acc{i.suffix}{j.suffix}" for i, j in self._pieces]
        for name, piece in zip(names, self._pieces, strict=True):
            yield alloc(name, self.acc, self._shape(*piece), Space.REGISTER)
        yield from (
            self._staged(f"a{i.suffix}", self._shape(i, PANEL)) for i in self.tiling.m.spans
        )
        yield from (
            self._staged(f"b{j.suffix}", self._shape(PANEL, j)) for j in self.tiling.n.spans
        )
        yield from (f"fill {name}, 0" for name in names)
        yield f"reduce ({', '.join(f'{name}: add' for name in names)}) {{"
        yield "for kp in 0 .. P {"
        yield from self._loads()
        yield "barrier"
        yield from (self._dot(*piece) for piece in self._pieces)
        yield from ("barrier", "}", "}")
        yield from (line for back in self.backs for line in back.lines)

    def _shape(self, rows: Span, columns: Span) -> str:
        sizes = (rows.size, columns.size)
        return ", ".join(reversed(sizes) if self.swapped else sizes)

    def _staged(self, name: str, shape: str) -> str:
        return alloc(name, self.dtype, shape, Space.SHARED)

    def _loads(self) -> Iterator[str]:
        for i in self.tiling.m.spans:
            yield f"coop_load a{i.suffix}, A{self._slice(i, PANEL, 'mk')} masked"
        for j in self.tiling.n.spans:
            yield f"coop_load b{j.suffix}, B{self._slice(PANEL, j, 'kn')} masked"

    def _slice(self, rows: Span, columns: Span, names: str) -> str:
        x, y = names
        return sliced(rows, columns, (x, y), self.swapped, "nb, " if self.batch else "")

    def _dot(self, i: Span, j: Span) -> str:
        operands = f"b{j.suffix}, a{i.suffix}" if self.swapped else f"a{i.suffix}, b{j.suffix}"
        precision = "" if self.precision is Precision.IEEE else f" {self.precision.value}"
        return f"dot acc{i.suffix}{j.suffix}, {operands}{precision}"

    @cached_property
    def backs(self) -> tuple[Writeback, ...]:
        return tuple(self._back(*piece) for piece in self._pieces)

    def _back(self, i: Span, j: Span) -> Writeback:
        place = Place(self._slice(i, j, "mn"), self._shape(i, j), Space.REGISTER, " masked")
        channel = Place(f"[{j.text}]", j.size, Space.REGISTER, " masked")
        suffix, spread = f"{i.suffix}{j.suffix}", 1 if self.swapped else 0
        shape = f"{self.batch}M, N"
        out = Output("C", self.out, shape, place, "N", channel, spread, suffix)
        return writeback(f"acc{suffix}", self.acc, out, self.epilogue)
