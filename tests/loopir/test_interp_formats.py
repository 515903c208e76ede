"""Rounding to element types, against torch's casts and against a table of each type's values."""

import numpy as np
import pytest
import torch

from loopir.interp import STORAGE, is_value, rounded
from loopir.interp.formats import number, tf32
from loopir.types import DType

TORCH = {
    DType.F8E4M3: torch.float8_e4m3fn,
    DType.F8E5M2: torch.float8_e5m2,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.F32: torch.float32,
    DType.F64: torch.float64,
    DType.I8: torch.int8,
    DType.I16: torch.int16,
    DType.I32: torch.int32,
    DType.I64: torch.int64,
    DType.BOOL: torch.bool,
}
NARROW = (DType.F8E4M3, DType.F8E5M2, DType.F16, DType.BF16)
FP8 = (DType.F8E4M3, DType.F8E5M2)


def by_torch(values: np.ndarray, dtype: DType) -> np.ndarray:
    cast = torch.from_numpy(values).to(TORCH[dtype])
    return cast.to(torch.float32).numpy() if dtype in NARROW else cast.numpy()


def all_values(dtype: DType) -> np.ndarray:
    """Every finite value >= 0 of a narrow float, ascending, from its bit patterns."""
    width = np.uint8 if dtype in FP8 else np.uint16
    bits = torch.from_numpy(np.arange(2 ** (dtype.bits - 1), dtype=width))
    values = bits.view(TORCH[dtype]).to(torch.float64).numpy()
    return values[np.isfinite(values)]


def decisions(dtype: DType, source: type) -> np.ndarray:
    """Every value of `dtype`, every midpoint between neighbours, what lies just beside each of
    them in the `source` type, and values beyond the largest; with both signs."""
    values = all_values(dtype)
    middles = (values[1:] + values[:-1]) / 2
    beyond = [values[-1] * 1.01, values[-1] * 1.1, values[-1] * 2, np.inf]
    with np.errstate(over="ignore"):
        points = np.concatenate([values, middles, beyond]).astype(source)
        up, down = (np.nextafter(points, source(end)) for end in (np.inf, -np.inf))
    points = np.concatenate([points, up, down])
    return np.concatenate([points, -points, [source("nan")]]).astype(source)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_every_rounding_decision_of_16_bit_floats_is_torchs(dtype):
    points = decisions(dtype, np.float32)
    assert same(rounded(points, dtype), by_torch(points, dtype)).all()


@pytest.mark.parametrize("dtype", FP8)
def test_every_rounding_decision_of_fp8_is_torchs_up_to_the_largest_value(dtype):
    points = decisions(dtype, np.float32)
    points = points[~(np.abs(points) > all_values(dtype)[-1])]
    assert same(rounded(points, dtype), by_torch(points, dtype)).all()


@pytest.mark.parametrize(("dtype", "largest"), [(DType.F8E4M3, 448.0), (DType.F8E5M2, 57344.0)])
def test_fp8_saturates_beyond_its_largest_value(dtype, largest):
    points = decisions(dtype, np.float32)
    points = points[np.abs(points) >= largest]
    assert np.isinf(points).any()
    assert (rounded(points, dtype) == np.copysign(largest, points)).all()


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_16_bit_floats_overflow_to_infinity(dtype):
    assert rounded(np.float64([1e39, -1e39, np.inf]), dtype).tolist() == [np.inf, -np.inf, np.inf]


@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2, DType.BF16])
def test_every_pattern_of_f16_rounds_as_torch_does(dtype):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    ours, theirs = rounded(halves, dtype), by_torch(halves, dtype)
    fits = ~(np.abs(halves) > all_values(dtype)[-1])
    assert same(ours, theirs)[fits].all()


@pytest.mark.parametrize("low", [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_every_upper_half_of_f32_rounds_to_bf16_as_torch_does(low):
    bits = (np.arange(2**16, dtype=np.uint32) << 16) | np.uint32(low)
    values = bits.view(np.float32)
    assert same(rounded(values, DType.BF16), by_torch(values, DType.BF16)).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_f64_rounds_once_to_the_nearest_value_and_ties_to_even(dtype):
    points = decisions(dtype, np.float64)
    points = points[np.abs(points) <= all_values(dtype)[-1]]
    assert (np.abs(rounded(points, dtype)) == nearest_of_table(np.abs(points), dtype)).all()


def test_f64_through_f32_would_round_twice():
    twice_wrong = np.nextafter(np.float64(1 + 2**-8), 2)
    assert rounded(np.array([twice_wrong]), DType.BF16) == 1 + 2**-7
    assert rounded(np.array([np.float32(twice_wrong)]), DType.BF16) == 1


def nearest_of_table(points: np.ndarray, dtype: DType) -> np.ndarray:
    """The even one of two equally near values is the one with the even bit pattern."""
    values = all_values(dtype)
    above = np.minimum(np.searchsorted(values, points), len(values) - 1)
    below = np.maximum(above - 1, 0)
    up, down = values[above] - points, points - values[below]
    takes_above = (up < down) | ((up == down) & (above % 2 == 0))
    return np.where(takes_above, values[above], values[below])


@pytest.mark.parametrize("source", [DType.I8, DType.I16, DType.I32, DType.I64, DType.BOOL])
@pytest.mark.parametrize("target", [*NARROW, DType.F32, DType.F64, DType.I8, DType.I32, DType.BOOL])
def test_integers_convert_as_torch_does(source, target):
    values = np.array([0, 1, -1, 2, 7, 100, -100, 127, -128, 300, 2049]).astype(STORAGE[source])
    ours, theirs = rounded(values, target), by_torch(values, target)
    assert (ours == theirs).all()


@pytest.mark.parametrize("target", [DType.I8, DType.I16, DType.I32, DType.I64])
def test_a_float_becomes_an_integer_by_truncation_and_saturates(target):
    low, high = np.iinfo(STORAGE[target]).min, np.iinfo(STORAGE[target]).max
    values = np.float32([1.9, -1.9, 0.5, np.nan, np.inf, -np.inf, 1e30, -1e30])
    assert rounded(values, target).tolist() == [1, -1, 0, 0, high, low, high, low]


@pytest.mark.parametrize("dtype", list(DType))
def test_a_rounded_array_has_the_storage_type_and_only_values_of_the_type(dtype):
    values = np.random.default_rng(0).normal(scale=30, size=200)
    result = rounded(values, dtype)
    assert result.dtype == STORAGE[dtype]
    assert is_value(result, dtype).all()
    assert np.array_equal(rounded(result, dtype), result)


@pytest.mark.parametrize("dtype", NARROW)
def test_what_a_type_cannot_hold_is_told_apart(dtype):
    assert not is_value(np.float64([1.0009765626, 3.1]), dtype).any()
    assert is_value(np.float64([1.0, -0.0, np.nan]), dtype).all()


def test_f8e4m3_alone_has_no_infinity():
    infinite = np.float32([np.inf])
    assert [d for d in NARROW if not is_value(infinite, d).all()] == [DType.F8E4M3]
    assert number(float("inf"), DType.F8E5M2) == np.inf


def test_tf32_keeps_eleven_significant_bits():
    assert tf32(np.float32([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11])).tolist() == [
        1 + 2**-10,
        1,
        1 + 2**-9,
    ]
