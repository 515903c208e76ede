"""Element types as numpy arrays, and rounding to them.

bf16 and fp8, which numpy lacks, are float32 arrays of values that the type can hold. Every float
conversion rounds once, to nearest even, whatever the source. bf16 and f16 overflow to infinity;
fp8 saturates at its largest finite value (infinities too), as the `cvt` instructions of GPUs do;
torch's casts need not. NaN stays NaN.
"""

import math
from typing import NamedTuple

import numpy as np

from loopir.types import DType

STORAGE: dict[DType, np.dtype] = {
    DType.F8E4M3: np.dtype(np.float32),
    DType.F8E5M2: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.float32),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.bool_),
}


class _Format(NamedTuple):
    """A binary float: significant bits, exponent of the smallest subnormal, largest finite."""

    precision: int
    smallest: int
    largest: float
    saturates: bool


_FORMATS = {
    DType.BF16: _Format(8, -133, float.fromhex("0x1.fep127"), saturates=False),
    DType.F8E4M3: _Format(4, -9, 448.0, saturates=True),
    DType.F8E5M2: _Format(3, -16, 57344.0, saturates=True),
}
_TF32 = _Format(11, -136, float.fromhex("0x1.ffcp127"), saturates=False)


def is_emulated(dtype: DType) -> bool:
    """Whether arrays of `dtype` hold its values in a wider numpy type."""
    return dtype in _FORMATS


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values`, any numeric array, as an array of `STORAGE[dtype]`.

    Floats round to nearest even (i64 values beyond 2**53 pass through f64). A float becomes an
    integer by truncation, saturates, and gives 0 of NaN; integers wrap to a narrower integer.
    """
    values = np.asarray(values)
    if dtype is DType.BOOL:
        return values != 0
    with np.errstate(all="ignore"):
        if dtype.is_int and values.dtype.kind == "f":
            return _truncated(values.astype(np.float64), STORAGE[dtype])
        if dtype in _FORMATS:
            nearest = _nearest(values.astype(np.float64), _FORMATS[dtype])
            return nearest.astype(np.float32)
        return values.astype(STORAGE[dtype])


def number(value: int | float, dtype: DType) -> np.ndarray:
    """A literal as an array without dimensions; an infinity stays one."""
    if isinstance(value, float) and math.isinf(value):
        return np.asarray(value, STORAGE[dtype])
    return rounded(np.asarray(value), dtype)


def is_value(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Elementwise: whether `dtype` can hold the value; f8e4m3 has no infinity."""
    exact = rounded(values, dtype) == values
    special = np.isnan(values) if dtype is DType.F8E4M3 else ~np.isfinite(values)
    return exact | special


def tf32(values: np.ndarray) -> np.ndarray:
    """f32 values with 11 significant bits, as float64."""
    return _nearest(values.astype(np.float64), _TF32)


def _nearest(values: np.ndarray, form: _Format) -> np.ndarray:
    _, exponents = np.frexp(values)
    quantum = np.maximum(exponents - form.precision, form.smallest)
    nearest = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
    limit = form.largest if form.saturates else math.inf
    return np.where(np.abs(nearest) > form.largest, np.copysign(limit, values), nearest)


def _truncated(values: np.ndarray, target: np.dtype) -> np.ndarray:
    low, high = np.iinfo(target).min, np.iinfo(target).max
    is_high, is_low = values >= float(high), values <= float(low)
    inside = np.where(is_high | is_low | np.isnan(values), 0.0, values).astype(target)
    return np.where(is_high, target.type(high), np.where(is_low, target.type(low), inside))
