"""The GEMM builder: what it makes verifies, and bad arguments are named."""

import itertools

import pytest

from loopir.build import Layout, gemm
from loopir.build.arguments import accumulator_dtype
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import DType
from loopir.verifier import verify

pytestmark = pytest.mark.sampled

DTYPES = ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_layout_and_output_type_verifies(dtype: str):
    for a_layout, b_layout in itertools.product(Layout, Layout):
        for out in (None, "f16", "f32"):
            program = gemm(40, 50, 60, dtype, out, (32, 16, 16), a_layout, b_layout)
            verify(program)
            assert parse(to_text(program)) == program


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, None], repeat=3)))
def test_empty_unit_and_open_sizes_verify(sizes: tuple[int | None, ...]):
    verify(gemm(*sizes, "bf16"))


def test_sizes_without_a_value_stay_launch_symbols():
    text = to_text(gemm(None, 8, None, "f16"))
    assert "where N = 8, BM = 128" in text


def test_accumulator_is_the_output_type_unless_said():
    assert "out C: i32[M, N]" in to_text(gemm(8, 8, 8, "i8"))
    assert accumulator_dtype(DType.F64) is DType.F64
    assert "ewise out = cast(bf16, acc)" in to_text(gemm(8, 8, 8, "bf16", "bf16"))


def test_layouts_name_the_contiguous_dimension():
    text = to_text(gemm(8, 8, 8, "f16", a_layout="col", b_layout="col"))
    assert "A: f16[M, K] contiguous(0), B: f16[K, N] contiguous(0)" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"K": 2.5}, "K"),
        ({"N": True}, "N"),
        ({"tile": (16, 16)}, "tile"),
        ({"tile": (16, 16, 0)}, "tile"),
        ({"dtype": "f128"}, "dtype"),
        ({"dtype": "i32"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"a_layout": "diagonal"}, "a_layout"),
        ({"precision": "tf32"}, "precision"),
        ({"name": "no name"}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        gemm(**({"M": 8, "N": 8, "K": 8} | arguments))
