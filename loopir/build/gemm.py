"""The canonical program of a tiled GEMM: the input form of the passes, after grid offload and local
storage."""

from loopir.build.arguments import (
    Layout,
    check_name,
    check_sizes,
    choice,
    dtypes,
)
from loopir.nodes import (
    Access,
    Accumulator,
    Alloc,
    Barrier,
    Binding,
    Body,
    Cast,
    Dot,
    Ewise,
    Fill,
    For,
    Grid,
    GridAxis,
    Kernel,
    Literal,
    Load,
    Param,
    Program,
    Reduce,
    Stmt,
    Store,
    TileAxis,
    TileRef,
)
from loopir.symbols import Expr, ceildiv, imax, sym, to_expr
from loopir.types import Direction, DType, Precision, ReduceOp, Space


def gemm(
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    tile: tuple[int, int, int] = (128, 128, 64),
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    precision: Precision | str = Precision.IEEE,
    name: str = "gemm",
) -> Program:
    """C[M, N] = A[M, K] @ B[K, N], tiled by tile = (BM, BN, BK), accumulated in f32 (f64 for f64,
    i32 for i8).

    M, N, K: sizes >= 0, or None to leave them as launch-time arguments. `out_dtype`: of C, the
    accumulator's type if None; another type adds a cast after the reduction. Layouts: `col` for B
    is the usual weight layout, stored as [N, K]. `precision`: of f32 operands only. Sizes that are
    no multiple of the tile are masked, on both operands; K = 0 still writes zeros. ValueError names
    a bad argument.
    """
    dtype, acc_dtype, out_dtype = dtypes(dtype, out_dtype)
    a_layout, b_layout = choice(Layout, a_layout, "a_layout"), choice(Layout, b_layout, "b_layout")
    precision = choice(Precision, precision, "precision")
    if precision is not Precision.IEEE and dtype is not DType.F32:
        raise ValueError(
            f"precision: {precision.value} is for f32 operands, dtype is {dtype.value}"
        )
    check_name(name)
    m, n, k, bm, bn, bk = map(sym, ("M", "N", "K", "BM", "BN", "BK"))
    params = (
        Param("A", dtype, (m, k), contiguous=a_layout.contiguous),
        Param("B", dtype, (k, n), contiguous=b_layout.contiguous),
        Param("C", out_dtype, (m, n), Direction.OUT),
    )
    body = (
        *_tiles(dtype, acc_dtype),
        Fill("acc", Literal(0)),
        Reduce((Accumulator("acc", ReduceOp.ADD),), (_panel_loop(precision),)),
        *_writeback(acc_dtype, out_dtype),
    )
    grid = Grid((GridAxis("ti", ceildiv(m, bm)), GridAxis("tj", ceildiv(n, bn))), body)
    where = (*_sizes(M, N, K, tile), Binding("P", imax(1, ceildiv(k, bk))))
    return Program((Kernel(name, params, (grid,), where),))


def _sizes(
    m: int | None, n: int | None, k: int | None, tile: tuple[int, int, int]
) -> tuple[Binding, ...]:
    sizes = {"M": m, "N": n, "K": k}
    check_sizes(sizes)
    if len(tile) != 3 or any(type(t) is not int or t < 1 for t in tile):
        raise ValueError(f"tile: three ints >= 1 (BM, BN, BK), not {tile!r}")
    bound = {name: size for name, size in sizes.items() if size is not None}
    bound |= dict(zip(("BM", "BN", "BK"), tile, strict=True))
    return tuple(Binding(name, to_expr(size)) for name, size in bound.items())


def _tiles(dtype: DType, acc_dtype: DType) -> Body:
    bm, bn, bk = map(sym, ("BM", "BN", "BK"))
    return (
        Alloc("acc", Space.REGISTER, acc_dtype, (bm, bn)),
        Alloc("a", Space.SHARED, dtype, (bm, bk)),
        Alloc("b", Space.SHARED, dtype, (bk, bn)),
    )


def _panel_loop(precision: Precision) -> For:
    m, n, k = _axis("ti", "BM", 0), _axis("tj", "BN", 1), "kp"
    body: Body = (
        Load("a", _slice("A", m, _axis(k, "BK", 1)), cooperative=True),
        Load("b", _slice("B", _axis(k, "BK", 0), n), cooperative=True),
        Barrier(),
        Dot("acc", "a", "b", precision),
        Barrier(),
    )
    return For(k, to_expr(0), sym("P"), to_expr(1), body)


def _writeback(acc_dtype: DType, out_dtype: DType) -> tuple[Stmt, ...]:
    target = _slice("C", _axis("ti", "BM", 0), _axis("tj", "BN", 1))
    if out_dtype is acc_dtype:
        return (Store(target, "acc"),)
    out = Alloc("out", Space.REGISTER, out_dtype, (sym("BM"), sym("BN")))
    return out, Ewise("out", Cast(out_dtype, TileRef("acc"))), Store(target, "out")


def _axis(iv: str, size: str, position: int) -> TileAxis:
    start: Expr = sym(iv) * sym(size)
    return TileAxis(f"_{position}", start, sym(size))


def _slice(buffer: str, *axes: TileAxis) -> Access:
    return Access(buffer, tuple(sym(a.name) for a in axes), axes, masked=True)
