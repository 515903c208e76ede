"""Made-up operands of a product, the same for the same seed."""

import torch

from backends.planner import Problem
from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.ops.operands import Arguments
from loopir.build import Layout
from loopir.types import DType


def torch_dtype(dtype: DType) -> torch.dtype:
    return getattr(torch, TORCH_NAME[dtype])


def random_tensor(
    shape: tuple[int, ...],
    dtype: DType,
    seed: int,
    device: str,
    layout: Layout = Layout.ROW_MAJOR,
) -> torch.Tensor:
    """Normal numbers, or integers from -8 to 7, of `shape`; `layout` is that of the last two
    dimensions."""
    if layout is Layout.COL_MAJOR:
        return random_tensor((*shape[:-2], shape[-1], shape[-2]), dtype, seed, device).mT
    generator, kind = torch.Generator(device).manual_seed(seed), torch_dtype(dtype)
    if not kind.is_floating_point:
        return torch.randint(-8, 8, shape, generator=generator, device=device, dtype=kind)
    return torch.randn(shape, generator=generator, device=device).to(kind)


def random_arguments(problem: Problem, device: str) -> Arguments:
    """Arguments of `matmul` that make `problem` of it, or the same with the layout that it takes
    for one row or column. torch.OutOfMemoryError: they have no room."""
    p, epilogue = problem, problem.epilogue
    batch = () if p.batch == 1 else (p.batch,)
    result = (*batch, p.m, p.n)

    def made(seed: int, shape: tuple[int, ...], dtype: DType | str | None) -> torch.Tensor | None:
        return None if dtype is None else random_tensor(shape, DType(dtype), seed, device)

    return Arguments(
        random_tensor((*batch, p.m, p.k), p.dtype, 0, device, p.a_layout),
        random_tensor((*batch, p.k, p.n), p.dtype, 1, device, p.b_layout),
        out=made(2, result, p.result if epilogue.beta else None),
        out_dtype=torch_dtype(p.result),
        bias=made(3, (p.n,), epilogue.bias),
        activation=epilogue.activation,
        residual=made(4, result, epilogue.residual),
        alpha=epilogue.alpha,
        beta=epilogue.beta,
    )
