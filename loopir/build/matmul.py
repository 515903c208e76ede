"""The untiled nests of a GEMM and of a batched GEMM."""

from collections.abc import Mapping

from loopir.build.arguments import (
    Layout,
    check_name,
    check_sizes,
    choice,
    dtypes,
)
from loopir.build.epilogue import Epilogue, Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp


def gemm_nest(
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    epilogue: Epilogue | None = None,
    name: str = "gemm",
) -> Program:
    """C[M, N] = epilogue(A[M, K] @ B[K, N]), accumulated in f32 (f64 for f64, i32 for i8).

    Parameters A, B, then `bias`[N] and `residual`[M, N] where the epilogue has them, C. Sizes >= 0,
    or None to leave them open. `out_dtype`: of C, the accumulator's type if None. ValueError names
    a bad argument.
    """
    check_sizes({"M": M, "N": N, "K": K})
    return _product(
        {"M": M, "N": N, "K": K}, "", (dtype, out_dtype), (a_layout, b_layout), epilogue, name
    )


def batched_gemm_nest(
    NB: int | None,
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    epilogue: Epilogue | None = None,
    a_batched: bool = True,
    b_batched: bool = True,
    name: str = "batched_gemm",
) -> Program:
    """C[NB, M, N] = epilogue(A[NB, M, K] @ B[NB, K, N]) for each of NB batches, as in `gemm_nest`.

    `a_batched`, `b_batched`: False for an operand of two dimensions that all batches share; one of
    them at least has a batch. The bias is [N], the residual [NB, M, N].
    """
    check_sizes({"NB": NB, "M": M, "N": N, "K": K})
    batched = "A" * bool(a_batched) + "B" * bool(b_batched)
    if not batched:
        raise ValueError("a_batched: A or B has a batch, or all batches of C are the same")
    sizes = {"NB": NB, "M": M, "N": N, "K": K}
    return _product(sizes, batched, (dtype, out_dtype), (a_layout, b_layout), epilogue, name)


def _product(
    sizes: Mapping[str, int | None],
    batched: str,
    types: tuple[DType | str, DType | str | None],
    layouts: tuple[Layout | str, Layout | str],
    epilogue: Epilogue | None,
    name: str,
) -> Program:
    """`batched` names the operands that have a batch. The band keeps the rows of the left operand
    together, batches that only one operand has flatten with its own index."""
    dtype, acc, out_dtype = dtypes(*types)
    check_name(name)
    a, a_param = _matrix("A", "M, K", "i, k", batched, dtype, layouts[0])
    b, b_param = _matrix("B", "K, N", "k, j", batched, dtype, layouts[1])
    batch, index = ("NB, ", "nb, ") if batched else ("", "")
    out = Output("C", out_dtype, f"{batch}M, N", Place(f"[{index}i, j]"), "N", Place("[j]"))
    back = writeback("acc", acc, out, epilogue)
    extents = {"nb": "NB", "i": "M", "j": "N"}
    order = {"": ("i", "j"), "B": ("i", "nb", "j")}.get(batched, ("nb", "i", "j"))
    return Nest(
        name,
        (a_param, b_param, *back.params),
        sizes,
        {iv: extents[iv] for iv in order},
        {"k": "K"},
        (a, b),
        (Accumulated("acc", ReduceOp.ADD, acc, f"{a.as_(acc)} * {b.as_(acc)}"),),
        back.lines,
    ).program()


def _matrix(
    buffer: str, shape: str, index: str, batched: str, dtype: DType, layout: Layout | str
) -> tuple[Operand, str]:
    """An operand of a product and its parameter."""
    contiguous = choice(Layout, layout, f"{buffer.lower()}_layout").contiguous
    if buffer in batched:
        shape, index, contiguous = f"NB, {shape}", f"nb, {index}", contiguous + 1
    operand = Operand(buffer.lower(), dtype, f"{buffer}[{index}]")
    return operand, param(buffer, dtype, shape, contiguous)
