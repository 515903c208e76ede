"""How far apart two outputs may be, and their checksums."""

import numpy as np
import pytest

from loopir.types import DType
from passes.opt_compare import compared, digest

VALUES = np.linspace(1, 2, 50, dtype=np.float32)


def both(found, wanted, dtype: DType = DType.F32, **options) -> tuple[bool, bool]:
    agreement = compared(np.asarray(found), np.asarray(wanted), dtype, **options)
    return agreement.is_equal, agreement.is_close


@pytest.mark.parametrize(("factor", "close"), [(1 + 2.0**-15, True), (1.01, False)])
def test_real_outputs_may_differ_by_rounding_only(factor: float, close: bool):
    assert both(VALUES * np.float32(factor), VALUES) == (False, close)


def test_narrow_types_may_differ_by_four_ulps():
    assert both(VALUES * np.float32(1 + 2.0**-6), VALUES, DType.BF16) == (False, True)
    assert both(VALUES * np.float32(1 + 2.0**-4), VALUES, DType.BF16) == (False, False)


def test_the_tolerance_can_be_set():
    assert both(VALUES * np.float32(1.01), VALUES, rounding=0.02) == (False, True)


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ([1.0, np.nan], [1.0, np.nan], (True, True)),
        ([1.0, np.inf], [1.0, np.inf], (True, True)),
        ([0.0, -0.0], [0.0, 0.0], (True, True)),
        ([1.0, np.inf], [1.0, -np.inf], (False, False)),
        ([1.0, np.inf], [1.0, np.nan], (False, False)),
        ([1.0, np.nan], [1.0, 1.0], (False, False)),
        ([1.0 + 2.0**-15, np.inf], [1.0, np.inf], (False, True)),
        ([], [], (True, True)),
    ],
)
def test_what_is_not_finite_must_be_the_same(found, wanted, expected):
    assert both(found, wanted) == expected


def test_integers_must_be_equal():
    assert both([7, 8], [7, 8], DType.I32) == (True, True)
    assert both([7, 100_000], [7, 100_001], DType.I32) == (False, False)
    assert both([2**60], [2**60 + 1], DType.I64) == (False, False)


def test_the_text_tells_how_much_differs():
    text = compared(np.array([1.0, 4.5, np.nan]), np.array([1.0, 4.0, 2.0]), DType.F64).text
    assert text == (
        "largest error 0.5 of values up to 4, 2 of 3 elements differ, "
        "1 of them where one is infinite or NaN"
    )


def test_a_checksum_is_of_the_values_not_of_their_layout():
    values = np.arange(12.0).reshape(3, 4)
    assert digest(values) == digest(np.asfortranarray(values)) != digest(values + 1)
    assert len(digest(values)) == 16
