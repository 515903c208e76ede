"""A product's operands as tensors, and how far a result may be from the exact one."""

from dataclasses import dataclass
from functools import cached_property

import torch

from backends.planner.problem import Problem
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.build import Layout
from loopir.types import DType

_FP64_FLOPS = 2**34  # above it the reference is fp32, as a GPU's fp64 is slow


def torch_dtype(dtype: DType) -> torch.dtype:
    return getattr(torch, TORCH_NAME[dtype])


@dataclass(frozen=True)
class Operands:
    """A [batch, M, K] and B [batch, K, N] of normal numbers (of i8: small integers), without the
    batch if it is 1."""

    problem: Problem
    seed: int
    device: str

    @cached_property
    def a(self) -> torch.Tensor:
        p = self.problem
        return self._made(p.m, p.k, p.a_layout, 2 * self.seed)

    @cached_property
    def b(self) -> torch.Tensor:
        p = self.problem
        return self._made(p.k, p.n, p.b_layout, 2 * self.seed + 1)

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

    def _made(self, rows: int, columns: int, layout: Layout, seed: int) -> torch.Tensor:
        shape = self._batched(rows, columns)
        if layout is Layout.COL_MAJOR:
            return self._random(self._batched(columns, rows), seed).mT
        return self._random(shape, seed)

    def _random(self, shape: tuple[int, ...], seed: int) -> torch.Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        dtype = torch_dtype(self.problem.dtype)
        if not dtype.is_floating_point:
            return torch.randint(-8, 8, shape, generator=generator, device=self.device, dtype=dtype)
        return torch.randn(shape, generator=generator, device=self.device).to(dtype)

    def _batched(self, rows: int, columns: int) -> tuple[int, ...]:
        batch = self.problem.batch
        return (rows, columns) if batch == 1 else (batch, rows, columns)


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
