"""Conversions of bf16 and fp8, which numpy lacks and Triton's interpreter keeps as bit patterns.

To nearest, ties to even. fp8 saturates at its largest finite value, as the GPU's conversion does;
NaN stays NaN.
"""

import numpy as np
import torch

_TORCH = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}


def is_stored_as_bits(name: str) -> bool:
    """Whether Triton's interpreter keeps elements of the type called `name` as unsigned
    integers."""
    return name == "bf16" or name in _TORCH


def to_float32(bits: np.ndarray, name: str) -> np.ndarray:
    """Values of uint16 (bf16) or uint8 (fp8) bit patterns, exactly."""
    if name == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    values = torch.from_numpy(np.ascontiguousarray(bits).view(np.uint8)).view(_TORCH[name])
    return values.to(torch.float32).numpy()


def from_float32(values: np.ndarray, name: str) -> np.ndarray:
    """Bit patterns (uint16 for bf16, uint8 for fp8) nearest to `values`, any numeric array; f64 is
    rounded once."""
    if name == "bf16":
        return _to_bf16(_narrowed(values))
    kind = _TORCH[name]
    largest = torch.finfo(kind).max
    clipped = torch.from_numpy(np.ascontiguousarray(_narrowed(values))).clamp(-largest, largest)
    return clipped.to(kind).view(torch.uint8).numpy()


def _narrowed(values: np.ndarray) -> np.ndarray:
    """As f32 in round-to-odd, so that the rounding after it is right for f64 and integers too."""
    values = _sticky(values) if values.dtype.kind == "i" else values
    near = values.astype(np.float32)
    if values.dtype != np.float64:
        return near
    bits = near.view(np.uint32)
    is_even_and_inexact = np.isfinite(near) & (near != values) & (bits & 1 == 0)
    outward = np.abs(values) > np.abs(near)
    return np.where(is_even_and_inexact, np.where(outward, bits + 1, bits - 1), bits).view(
        np.float32
    )


def _sticky(values: np.ndarray) -> np.ndarray:
    """Integers as f64, exactly below 2^32; beyond, with bit 16 set for whatever is below it."""
    whole = values.astype(np.int64)
    shifted = (whole >> 16) | ((whole & 0xFFFF) != 0)
    is_large = (whole >= 2**32) | (whole < -(2**32))
    return np.where(is_large, shifted.astype(np.float64) * 65536.0, whole.astype(np.float64))


def _to_bf16(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)
