"""The GEMM builder: what it makes verifies, and bad arguments are named."""

import itertools

import numpy as np
import pytest

from loopir.build import Epilogue, Layout, batched_gemm, batched_gemm_nest, gemm, gemm_nest
from loopir.build.arguments import accumulator_dtype
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import DType
from loopir.verifier import verify
from passes.lowering import lower
from tests.support import oracles

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


EPILOGUE = Epilogue(0.5, 2, "f32", "relu", "bf16")


@pytest.mark.parametrize("epilogue", [None, EPILOGUE])
def test_program_is_the_one_that_the_passes_make_of_the_nest(epilogue: Epilogue | None):
    kinds = {"out_dtype": "bf16", "a_layout": "col", "epilogue": epilogue}
    plain = gemm(50, 60, 70, tile=(32, 64, 16), **kinds)
    assert plain == lower(gemm_nest(50, 60, 70, **kinds), m=32, n=64, k=16)
    batched = batched_gemm(3, 50, 60, 70, tile=(32, 64, 16), **kinds)
    assert batched == lower(batched_gemm_nest(3, 50, 60, 70, **kinds), m=32, n=64, k=16)


TILES = [(8, (8, 4), 8), ((4, 8), 8, 8), ((8, 4), (2, 8, 4), 8)]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("tile", [(4, 16, 8), *TILES])
@pytest.mark.parametrize("shape", [(0, 3, 4), (1, 9, 0), (13, 30, 19), (24, 24, 8), (5, 1, 9)])
def test_pieces_and_swapped_tiles_are_the_product(shape: tuple, tile: tuple, swapped: bool):
    for a_layout, b_layout in itertools.product(Layout, Layout):
        layouts = {"a_layout": a_layout, "b_layout": b_layout}
        program = gemm(*shape, "f16", "bf16", tile, epilogue=EPILOGUE, swapped=swapped, **layouts)
        oracles.check(program, lambda x: oracles.epilogue(EPILOGUE, x["A"] @ x["B"], x, "C"))


@pytest.mark.parametrize("swapped", [False, True])
def test_batches_are_multiplied_each_by_its_own(swapped: bool):
    program = batched_gemm(3, 13, 20, 9, "f32", tile=(8, (8, 4), 8), swapped=swapped)
    oracles.check(program, lambda x: np.einsum("bij,bjk->bik", x["A"], x["B"]))


def test_pieces_share_the_load_of_the_other_side():
    text = to_text(gemm(64, 96, 64, tile=(32, (32, 16), 16)))
    assert text.count("coop_load a, ") == 1
    assert "coop_load b1, B[kp * BK +: BK, tj * BN + BN0 +: BN1] masked" in text
    assert "BN0 = 32, BN1 = 16, BN = BN0 + BN1" in text
    assert "dot acc1, a, b1" in text


def test_swapped_tile_has_the_columns_first():
    text = to_text(gemm(16, 96, 64, tile=(16, 32, 16), swapped=True))
    assert "alloc acc: register f32[BN, BM]" in text
    assert "dot acc, b, a" in text
    assert "store C[m, n] over (n = tj * BN +: BN, m = ti * BM +: BM), acc masked" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"K": 2.5}, "K"),
        ({"N": True}, "N"),
        ({"tile": (16, 16)}, "tile"),
        ({"tile": (16, 16, 0)}, "tile"),
        ({"tile": (16, (16, 0), 16)}, "tile"),
        ({"tile": (16, (), 16)}, "tile"),
        ({"tile": (16, 16, (16, 16))}, "tile"),
        ({"tile": 16}, "tile"),
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
