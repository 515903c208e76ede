"""The untiled nest of two matrix products that share an operand, one of them a gate."""

from loopir.build.arguments import Layout, check_name, check_sizes, choice, dtypes
from loopir.build.epilogue import Activation, Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, alloc, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp


def dual_gemm_nest(
    M: int | None,
    N: int | None,
    K: int | None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    a_layout: Layout | str = Layout.ROW_MAJOR,
    b_layout: Layout | str = Layout.ROW_MAJOR,
    activation: Activation | str | None = Activation.SILU,
    name: str = "dual_gemm",
) -> Program:
    """C[M, N] = activation(A @ B1) * (A @ B2), A[M, K] read once for two accumulators.

    B1 and B2, [K, N], have one layout; `activation` None: the product of both. Types and sizes as
    in `gemm_nest`; an integer sum takes `relu` or None. ValueError names a bad argument.
    """
    check_sizes({"M": M, "N": N, "K": K})
    check_name(name)
    dtype, acc, out_dtype = dtypes(dtype, out_dtype)
    a_contiguous = choice(Layout, a_layout, "a_layout").contiguous
    b_contiguous = choice(Layout, b_layout, "b_layout").contiguous
    a, b1, b2 = (Operand(t, dtype, s) for t, s in _SOURCES.items())
    back = writeback("gated", acc, Output("C", out_dtype, "M, N", Place("[i, j]")))
    weights = (param(buffer, dtype, "K, N", b_contiguous) for buffer in ("B1", "B2"))
    products = (f"{a.as_(acc)} * {b.as_(acc)}" for b in (b1, b2))
    return Nest(
        name,
        (param("A", dtype, "M, K", a_contiguous), *weights, *back.params),
        {"M": M, "N": N, "K": K},
        {"i": "M", "j": "N"},
        {"k": "K"},
        (a, b1, b2),
        tuple(Accumulated(f"acc{n}", ReduceOp.ADD, acc, p) for n, p in enumerate(products, 1)),
        (alloc("gated", acc), f"ewise gated = {_gate(activation, acc)} * acc2", *back.lines),
    ).program()


_SOURCES = {"a": "A[i, k]", "b1": "B1[k, j]", "b2": "B2[k, j]"}


def _gate(activation: Activation | str | None, acc: DType) -> str:
    if activation is None:
        return "acc1"
    activation = choice(Activation, activation, "activation")
    activation.check(acc)
    return f"({activation.of('acc1')})"
