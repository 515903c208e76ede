"""A product's operands as tensors, and how far a result may be from the exact one."""

from dataclasses import dataclass
from functools import cached_property

import torch

from backends.planner.problem import Problem
from backends.triton_codegen.ops.random_operands import random_tensor, torch_dtype
from loopir.types import DType

_FP64_FLOPS = 2**34  # above it the reference is fp32, as a GPU's fp64 is slow


@dataclass(frozen=True)
class Operands:
    """A [batch, M, K] and B [batch, K, N] of normal numbers (of i8: small integers), without the
    batch if it is 1."""

    problem: Problem
    seed: int
    device: str

    @cached_property
    def a(self) -> torch.Tensor:
        p, shape = self.problem, self._batched(self.problem.m, self.problem.k)
        return random_tensor(shape, p.dtype, 2 * self.seed, self.device, p.a_layout)

    @cached_property
    def b(self) -> torch.Tensor:
        p, shape = self.problem, self._batched(self.problem.k, self.problem.n)
        return random_tensor(shape, p.dtype, 2 * self.seed + 1, self.device, p.b_layout)

    def output(self) -> torch.Tensor:
        """Room for C, row-major."""
        p = self.problem
        shape = self._batched(p.m, p.n)
        return torch.empty(shape, dtype=torch_dtype(p.result), device=self.device)

    def error(self, out: torch.Tensor, is_ours: bool) -> float:
        """The largest error of `out` over the allowed one, inf where it is NaN.

        Allowed is sqrt(K) eps sum|ab|, eps of the accumulator, and half an ulp of the result; twice
        the former where the reference sums in the same type. Of a library also what parts in the
        result's type cost: an ulp of 4 sum|ab| / sqrt(K).
        """
        exact, size = self._exact
        allowed = self._unit * size + exact.abs() * _eps(out.dtype) / 2
        if not is_ours:
            allowed = allowed + 4 * _eps(out.dtype) * size / self.problem.k**0.5
        wrong = (out.to(exact.dtype) - exact).abs() / allowed.clamp_min(1e-30)
        return float(wrong.where(wrong.isfinite(), float("inf")).max())

    @property
    def _unit(self) -> float:
        p = self.problem
        unit = p.k**0.5 * _eps(torch_dtype(p.accumulator))
        return unit if self._is_fp64 and p.accumulator is not DType.F64 else 2 * unit

    @property
    def _is_fp64(self) -> bool:
        return self.problem.flops <= _FP64_FLOPS or self.problem.accumulator is DType.F64

    @cached_property
    def _exact(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A B and |A| |B|, in fp64, or in fp32 where that would take long."""
        dtype = torch.float64 if self._is_fp64 else torch.float32
        a, b = self.a.to(dtype), self.b.to(dtype)
        return a @ b, a.abs() @ b.abs()

    def _batched(self, rows: int, columns: int) -> tuple[int, ...]:
        batch = self.problem.batch
        return (rows, columns) if batch == 1 else (batch, rows, columns)


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
