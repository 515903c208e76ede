"""Products with an epilogue that every merge must run once a tile: programs, the arguments of a
launch, and what the result is in fp64, with a bound."""

from typing import Any

import torch
import torch.nn.functional as F

from loopir.build import Epilogue, gemm_nest
from loopir.nodes import Program
from passes.lowering import lower
from passes.pipeline import parse_pipeline
from tests.support.numerics import bound, check_close, guarded, half_ulp, integers, normal, product

#: gelu(A @ B + bias) + residual, of normal values
REAL = Epilogue(bias="f32", activation="gelu", residual="bf16")
#: relu(0.5 * A @ B + 2 * C + bias) + residual, of integers: to the bit
EXACT = Epilogue(0.5, 2, "f32", "relu", "bf16")

MERGES = ("workspace", "fixup", "atomic-workspace")
DETERMINISTIC = MERGES[:2]

_SLOPE = 1.13  # of gelu, at most
_ROUNDINGS = 8  # of the epilogue in f32: erf, and the sums and products around it

Shape = tuple[int, int, int]


def product_of(
    shape: tuple[int | None, int | None, int | None],
    options: str,
    epilogue: Epilogue = REAL,
    tile: Shape = (32, 32, 16),
) -> Program:
    """`C = epilogue(A @ B)` in bf16, B stored as [N, K], under `stream-k{options}`, or as a grid of
    tiles if there are none."""
    nest = gemm_nest(*shape, "bf16", "bf16", b_layout="col", epilogue=epilogue)
    m, n, k = tile
    return parse_pipeline(f"stream-k{{{options}}}" if options else "").run(
        lower(nest, m=m, n=n, k=k)
    )


class Run:
    """The arguments of a launch. `order`: of a permuted schedule."""

    def __init__(self, shape: Shape, seed: int, epilogue: Epilogue = REAL, device: str = "cpu"):
        m, n, k = shape
        self.is_real = epilogue is REAL
        make = normal if self.is_real else integers
        bf16 = torch.bfloat16
        self.a = make((m, k), bf16, seed, device=device)
        self.b = make((n, k), bf16, seed + 1, device=device).t()
        self.bias = make((n,), torch.float32, seed + 2, device=device)
        self.residual = make((m, n), bf16, seed + 3, device=device)
        self.old = make((m, n), bf16, seed + 4, device=device)
        self.c = guarded((m, n), bf16, device=device, pad=3)
        self.order: torch.Tensor | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        order = [] if self.order is None else [self.order]
        return [self.a, self.b, self.bias, self.residual, self.c.tensor, *order]

    def launch(self, kernel: Any, **options: Any) -> torch.Tensor:
        """C, poisoned before unless the kernel reads it."""
        self.poison()
        kernel(*self.tensors, **options)
        return self.c.tensor

    def poison(self) -> None:
        self.c.tensor.fill_(torch.nan) if self.is_real else self.c.tensor.copy_(self.old)

    def expected(self) -> tuple[torch.Tensor, torch.Tensor]:
        """In fp64, and how far from it each element may be."""
        sums = product(self.a, self.b)
        if not self.is_real:
            value = (0.5 * sums.value + 2 * self.old.double() + self.bias.double()).relu()
            rounded = (value + self.residual.double()).to(torch.bfloat16).double()
            return rounded, torch.zeros_like(rounded)
        before = sums.value + self.bias.double()
        value = F.gelu(before) + self.residual.double()
        size = before.abs() + self.residual.double().abs()
        allowed = _SLOPE * bound(sums, torch.float32, torch.float64)
        allowed += _ROUNDINGS * torch.finfo(torch.float32).eps * size
        return value, allowed + half_ulp(value, torch.bfloat16)

    def check(self) -> None:
        """AssertionError: an element is wrong, or one around C was written."""
        check_close(self.c.tensor, *self.expected())
        self.c.check_guards()
