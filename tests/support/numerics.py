"""Numerical checks of kernels: poisoned and guarded outputs, an fp64 oracle, a bound on the error.

The bound of a sum of K products, accumulated in `acc` and rounded once to the output's dtype:

    error <= c * sqrt(K) * eps(acc) * sum|a * b|  +  half an output ulp  (+ the operands' own
rounding)

with c = COEFFICIENT[acc]; eps is the distance from one to the next number. The operands' rounding
is that of tf32, where it is asked for. Works on the CPU and on a GPU; every tensor is torch's.
"""

import math
from dataclasses import dataclass

import torch

#: c of the bound, by accumulator; integers are exact
COEFFICIENT = {torch.float32: 1.0, torch.float64: 1.0, torch.float16: 1.0}

GUARDS = 64
POISON = 7.0
_GUARD_VALUE = 11
_TF32_EPS = 2.0**-10
_SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}


@dataclass(frozen=True)
class Guarded:
    """An output inside a larger allocation: `tensor` is poisoned, GUARDS elements on each side of
    it are known."""

    tensor: torch.Tensor
    whole: torch.Tensor

    def check_guards(self) -> None:
        """AssertionError: an element outside the output was written."""
        outside = self.whole.clone()
        _like(self.tensor, outside).fill_(_GUARD_VALUE)
        changed = outside.ne(_GUARD_VALUE).nonzero().flatten().tolist()
        assert not changed, (
            f"elements outside the output were written, at {changed[:8]} of the allocation"
        )


def guarded(
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    *,
    device: str = "cpu",
    contiguous: int = -1,
    pad: int = 0,
    poison: float | None = None,
) -> Guarded:
    """An output of `shape`, filled with `poison` (None: NaN, or POISON for integers).

    `contiguous`: the dimension of stride one. `pad`: elements between the rows, guards too.
    """
    strides = _strides(shape, contiguous, pad)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    whole = torch.full((span + 2 * GUARDS,), _GUARD_VALUE, dtype=dtype, device=device)
    tensor = whole.as_strided(shape, strides, GUARDS)
    value = poison if poison is not None else math.nan if dtype.is_floating_point else POISON
    return Guarded(tensor.fill_(value), whole)


def laid_out(
    values: torch.Tensor, contiguous: int = -1, pad: int = 0, offset: int = 0
) -> torch.Tensor:
    """The same values with stride one in dimension `contiguous`, `pad` NaNs between rows, `offset`
    elements in."""
    strides = _strides(tuple(values.shape), contiguous, pad)
    span = (
        1 + sum((n - 1) * s for n, s in zip(values.shape, strides, strict=True))
        if values.numel()
        else 0
    )
    filler = math.nan if values.dtype.is_floating_point else 77
    whole = torch.full((span + offset,), filler, dtype=values.dtype, device=values.device)
    return whole.as_strided(values.shape, strides, offset).copy_(values)


def _like(tensor: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    return whole.as_strided(tensor.shape, tensor.stride(), GUARDS)


def _strides(shape: tuple[int, ...], contiguous: int, pad: int) -> tuple[int, ...]:
    rank = len(shape)
    inner = contiguous % rank if rank else 0
    order = [inner, *(d for d in reversed(range(rank)) if d != inner)]
    strides, step = [0] * rank, 1
    for dim in order:
        strides[dim] = step
        step = max(1, step * shape[dim]) + (pad if dim == inner else 0)
    return tuple(strides)


# --- inputs


def integers(
    shape: tuple[int, ...], dtype: torch.dtype, seed: int, *, largest: int = 3, device: str = "cpu"
) -> torch.Tensor:
    """Small integers in [-largest, largest]: sums of their products are exact in f32 while K *
    largest**2 <= 2**24."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(-largest, largest + 1, shape, generator=rng).to(dtype).to(device)


def normal(
    shape: tuple[int, ...], dtype: torch.dtype, seed: int, *, device: str = "cpu"
) -> torch.Tensor:
    """Normal values, rounded to `dtype`; where there are enough rows, row 0 is zero and the last
    one scaled by 4."""
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=rng, dtype=torch.float64)
    if len(shape) > 1 and shape[0] > 2:
        values[0] = 0
        values[-1] *= 4
    return values.to(dtype).to(device)


# --- oracle and bound


@dataclass(frozen=True)
class Oracle:
    """The product of two matrices in fp64, and the sum of |a * b| behind each element."""

    value: torch.Tensor
    magnitude: torch.Tensor
    terms: int


def product(a: torch.Tensor, b: torch.Tensor) -> Oracle:
    """`a @ b` of the values that `a` [.., M, K] and `b` [.., K, N] hold, in fp64."""
    left, right = a.double(), b.double()
    return Oracle(left @ right, left.abs() @ right.abs(), a.shape[-1])


def bound(
    oracle: Oracle, acc: torch.dtype, out: torch.dtype, *, tf32: bool = False
) -> torch.Tensor:
    """The largest error that an element may have; zero where accumulator and output are
    integers."""
    if not acc.is_floating_point:
        return torch.zeros_like(oracle.magnitude)
    sums = (
        COEFFICIENT[acc] * math.sqrt(max(1, oracle.terms)) * torch.finfo(acc).eps * oracle.magnitude
    )
    operands = _TF32_EPS * oracle.magnitude if tf32 else 0
    return sums + operands + half_ulp(oracle.value, out)


def half_ulp(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the distance between neighbours of `dtype` around `value`, at most."""
    if not dtype.is_floating_point:
        return torch.zeros_like(value)
    smallest = _SMALLEST.get(dtype, torch.finfo(dtype).tiny)
    return torch.finfo(dtype).eps / 2 * value.abs() + smallest


def check_close(
    actual: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor | float
) -> None:
    """AssertionError with the worst element, unless |actual - expected| <= allowed everywhere.

    NaN and infinities must stand where `expected` has them.
    """
    found, wanted = actual.double(), expected.double()
    assert found.shape == wanted.shape, f"shape {list(found.shape)}, expected {list(wanted.shape)}"
    excess = (found - wanted).abs() - allowed
    same = found.eq(wanted) | (found.isnan() & wanted.isnan())
    bad = ~(same | excess.le(0))
    if bad.any():
        at = tuple(bad.nonzero()[0].tolist())
        raise AssertionError(
            f"{int(bad.sum())} of {bad.numel()} elements are wrong, first at {at}: "
            f"{found[at].item()} for {wanted[at].item()}; largest error {_largest(found - wanted)}"
        )


def _largest(difference: torch.Tensor) -> float:
    return difference.abs().nan_to_num(math.inf, math.inf).max().item()


def check_product(
    c: Guarded,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    acc: torch.dtype = torch.float32,
    tf32: bool = False,
) -> None:
    """`c` holds `a @ b` within the bound, and nothing around it was written."""
    oracle = product(a, b)
    check_close(c.tensor, oracle.value, bound(oracle, acc, c.tensor.dtype, tf32=tf32))
    c.check_guards()
