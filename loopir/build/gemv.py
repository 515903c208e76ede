"""The untiled nest of a matrix times a vector: products element by element, and their sum."""

from loopir.build.arguments import Layout, check_name, check_sizes, choice, dtypes, sum_dtype
from loopir.build.epilogue import Epilogue, Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp


def gemv_nest(
    M: int | None,
    N: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    layout: Layout | str = Layout.ROW_MAJOR,
    transposed: bool = False,
    epilogue: Epilogue | None = None,
    name: str = "gemv",
) -> Program:
    """Y[M] = epilogue(A[M, N] @ X[N]), or, if `transposed`, Y[N] = epilogue(A.T @ X[M]).

    Any float or integer type, accumulated in f32 or i32 at least. `bias` and `residual` have Y's
    shape. Sizes >= 0, or None to leave them open. ValueError names a bad argument.
    """
    check_sizes({"M": M, "N": N})
    dtype, acc, out_dtype = dtypes(dtype, out_dtype, sum_dtype)
    check_name(name)
    contiguous = choice(Layout, layout, "layout").contiguous
    rows, summed, index = ("N", "M", "k, i") if transposed else ("M", "N", "i, k")
    a, x = Operand("a", dtype, f"A[{index}]"), Operand("x", dtype, "X[k]")
    back = writeback(
        "acc", acc, Output("Y", out_dtype, rows, Place("[i]"), rows, Place("[i]")), epilogue
    )
    return Nest(
        name,
        (param("A", dtype, "M, N", contiguous), param("X", dtype, summed), *back.params),
        {"M": M, "N": N},
        {"i": rows},
        {"k": summed},
        (a, x),
        (Accumulated("acc", ReduceOp.ADD, acc, f"{a.as_(acc)} * {x.as_(acc)}"),),
        back.lines,
    ).program()
