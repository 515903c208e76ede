"""Outputs side by side: checksums, and how far apart two of them may be."""

import hashlib
from dataclasses import dataclass

import numpy as np

from loopir.types import DType

#: how far sums of f32 in another order may be apart, of the largest value
ROUNDING = 2.0**-13
_EPSILON = {
    DType.F8E4M3: 2.0**-3,
    DType.F8E5M2: 2.0**-2,
    DType.F16: 2.0**-10,
    DType.BF16: 2.0**-7,
    DType.F32: 2.0**-23,
    DType.F64: 2.0**-52,
}


@dataclass(frozen=True)
class Agreement:
    """`text` says how far two outputs are apart; `is_close`: by rounding at most."""

    text: str
    is_equal: bool
    is_close: bool


def compared(
    found: np.ndarray, wanted: np.ndarray, dtype: DType, rounding: float = ROUNDING
) -> Agreement:
    """Two arrays of one shape and of `STORAGE[dtype]`. Equal: the same values, NaN where NaN is.
    Close, of float types: the same infinities and NaNs, and elsewhere within the larger of
    `rounding` and four ulps of `dtype`, of the largest finite value."""
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if same.all():
        return Agreement("equal", True, True)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(found) & np.isfinite(wanted)
    error = np.subtract(found, wanted, where=finite, out=np.zeros(same.shape))
    worst = float(np.abs(error).max())
    scale = float(np.abs(wanted, where=np.isfinite(wanted), out=np.zeros(same.shape)).max())
    allowed = max(rounding, 4 * _EPSILON[dtype]) * scale if dtype.is_float else -1.0
    text = (
        f"largest error {worst:.3g} of values up to {scale:.3g}, "
        f"{int((~same).sum())} of {same.size} elements differ"
    )
    if lost := int((~finite & ~same).sum()):
        text += f", {lost} of them where one is infinite or NaN"
    return Agreement(text, False, not lost and worst <= allowed)


def digest(array: np.ndarray) -> str:
    """16 hex digits of the SHA-256 of the values in row-major order, bf16 and fp8 as f32."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
