"""Calls of `matmul` and what they must give, for the interpreter and for a GPU."""

from typing import Any

import torch

from backends.triton_codegen import matmul
from tests.support.numerics import bound, check_close, product


def check_call(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    """`matmul(a, b, **options)`, without an epilogue, is within the bound of the sum; its shape is
    torch's."""
    result = matmul(a, b, **options)
    assert result.dtype is (options.get("out_dtype") or a.dtype)
    left = a if a.dim() > 1 else a[None]
    right = b if b.dim() > 1 else b[:, None]
    oracle = product(left, right)
    shape = torch.matmul(a.double(), b.double()).shape
    assert result.shape == shape
    allowed = bound(oracle, _accumulator(a.dtype), result.dtype)
    check_close(result, oracle.value.reshape(shape), allowed.reshape(shape))
    return result


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    return {torch.float64: torch.float64, torch.int8: torch.int32}.get(dtype, torch.float32)
