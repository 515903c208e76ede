"""Kernels that nobody foresaw come out right, since each of their nodes does; run in Triton's
interpreter."""

import math

import pytest
import torch

from backends.triton_codegen import compile
from loopir.parser import parse
from tests.support import kernels
from tests.support.numerics import (
    Guarded,
    bound,
    check_close,
    check_product,
    guarded,
    half_ulp,
    integers,
    laid_out,
    normal,
    product,
)

EPS = torch.finfo(torch.float32).eps


def run(text: str, *tensors: torch.Tensor | Guarded, **options: int) -> None:
    compile(parse(text), "interpret")(
        *(t.tensor if isinstance(t, Guarded) else t for t in tensors), **options
    )


def test_two_accumulators_with_a_gated_epilogue_and_a_transposed_output():
    a, b = normal((100, 130), torch.bfloat16, 1), normal((130, 72), torch.bfloat16, 2)
    d, bias = normal((130, 72), torch.bfloat16, 3), normal((72,), torch.float32, 4)
    c, t = guarded((100, 72)), guarded((72, 100), torch.float16)
    run(kernels.DUAL, a, b, d, bias, c, t)
    acc, gate = product(a, b), product(a, d)
    share = torch.sigmoid(gate.value)
    expected = (acc.value * share + bias.double()).clamp(min=0)
    slope = bound(acc, torch.float32, torch.float32) + acc.value.abs() * bound(
        gate, torch.float32, torch.float32
    )
    allowed = slope + 8 * EPS * (expected.abs() + 1)
    check_close(c.tensor, expected, allowed)
    check_close(t.tensor, expected.T, allowed.T + half_ulp(expected.T, torch.float16))
    c.check_guards()
    t.check_guards()


def test_max_reduction_masks_with_its_identity():
    x = normal((100, 300), torch.float32, 5) - 40
    y = guarded((100,))
    run(kernels.ROW_MAX, x, y)
    check_close(y.tensor, x.amax(1), 0)
    y.check_guards()


def test_max_reduction_keeps_a_nan_in_its_row():
    x = normal((100, 300), torch.float32, 6)
    x[7, 299] = math.nan
    y = guarded((100,))
    run(kernels.ROW_MAX, x, y)
    check_close(y.tensor, x.amax(1), 0)


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_third_grid_axis_of_a_size_known_at_launch(batches: int):
    a, b = normal((batches, 70, 96), torch.float16, 7), normal((batches, 96, 40), torch.float16, 8)
    c = guarded((batches, 70, 40))
    run(kernels.BATCHED, a, laid_out(b, contiguous=1), c)
    check_product(c, a, b)


def test_batch_stride_zero_reads_one_matrix_for_all():
    a, b = (
        normal((1, 70, 96), torch.float16, 9).expand(3, 70, 96),
        normal((3, 96, 40), torch.float16, 1),
    )
    c = guarded((3, 70, 40))
    run(kernels.BATCHED, a, laid_out(b, contiguous=1), c)
    check_product(c, a, b)


@pytest.mark.parametrize(("rows", "panel"), [(1, 1), (64, 128), (100, 300), (3, 0)])
def test_gemv_by_multiply_and_sum_with_sizes_known_at_launch(rows: int, panel: int):
    a, x = normal((rows, panel), torch.bfloat16, 2), normal((panel,), torch.bfloat16, 3)
    y = guarded((rows,))
    run(kernels.GEMV, a, x, y)
    oracle = product(a, x[:, None])
    check_close(y.tensor, oracle.value[:, 0], bound(oracle, torch.float32, torch.float32)[:, 0])
    y.check_guards()


def test_convolution_masks_negative_indices():
    x, f, y = normal((13, 11), torch.float32, 4), normal((3, 3), torch.float32, 5), guarded((7, 6))
    run(kernels.CONV, x, f, y)
    image, weights = x.double()[None, None], f.double()[None, None]
    expected = torch.nn.functional.conv2d(image, weights, stride=2, padding=1)[0, 0]
    magnitude = torch.nn.functional.conv2d(image.abs(), weights.abs(), stride=2, padding=1)[0, 0]
    check_close(y.tensor, expected, 9 * EPS * magnitude)
    y.check_guards()


def test_division_and_remainder_round_to_minus_infinity():
    x = torch.arange(96, dtype=torch.int32)
    y = guarded((96,), torch.int32)
    run(kernels.FLOOR, x, y)
    expected = torch.stack([x[(n - 40) % 96] for n in range(96)]).view(3, 32)
    for t in range(3):
        q, r = divmod(32 * t - 40, 7)
        expected[t] += 100 if q < -5 else 1000 if r == 3 or q != -2 else 0
    check_close(y.tensor, expected.flatten(), 0)


def test_inout_output_is_read_once_where_it_is_written():
    a, b = normal((80, 64), torch.float32, 6), normal((64, 48), torch.float32, 7)
    c = guarded((80, 48), poison=1.5, pad=5)
    run(kernels.IN_PLACE, a, b, c)
    oracle = product(a, b)
    allowed = bound(oracle, torch.float32, torch.float32) + 4 * EPS
    check_close(c.tensor, oracle.value + 3.0, allowed)
    c.check_guards()


def test_tile_that_only_a_branch_of_a_loop_sets_keeps_its_value():
    order, x = torch.tensor([2, 0, 3, 1], dtype=torch.int32), normal((32, 16), torch.float32, 8)
    y = guarded((32, 16))
    run(kernels.GATHER, order, x, y)
    check_close(y.tensor, x.view(4, 8, 16)[order.long()].reshape(32, 16) * 2 + 1, 4 * EPS * 8)


def test_loop_carried_copy_holds_the_value_before_the_last():
    x, y = normal((5, 16), torch.float32, 9), guarded((16,))
    run(kernels.COPY, x, y)
    check_close(y.tensor, x[3] * 10 + x[4], 64 * EPS)


def test_int8_products_are_exact_in_32_bits():
    a = integers((70, 100), torch.int8, 1, largest=127)
    b = integers((100, 40), torch.int8, 2, largest=127)
    c = guarded((70, 40), torch.int32)
    run(kernels.INT8, a, b, c)
    check_product(c, a, b, acc=torch.int32)


def test_functions_of_ewise_agree_with_torch():
    x, z = normal((64,), torch.float32, 3), normal((64,), torch.float32, 4)
    x[:6] = torch.tensor([0.0, 1e-4, -0.6, 0.7, 40.0, -40.0])
    y = guarded((16, 64))
    run(kernels.FUNCTIONS, x, z, y)
    check_close(y.tensor, function_rows(x.double(), z.double()), 8 * EPS * rows_scale(x, z))
    y.check_guards()


def function_rows(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """What the rows of FUNCTIONS hold."""
    rows = [
        x + z, x - z * 2, x / z, z - x, torch.maximum(x, z), x.clamp(max=0.25), x.abs(), x.exp(),
        x.abs().log(), x.abs().sqrt(), x.abs().rsqrt(), x.tanh(), x.sigmoid(), x.erf(),
        (x * 8).trunc(), 1 - (x - (z - 3)),
    ]  # fmt: skip
    return torch.stack(rows)


def rows_scale(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Size of each row's result or of its terms, whichever is larger; exp spreads the error of
    x."""
    rows = function_rows(x.double(), z.double()).abs().nan_to_num(1, 1e30)
    terms = 1 + x.double().abs() + 2 * z.double().abs()
    scale = torch.maximum(rows, torch.zeros_like(rows))
    scale[[0, 1, 3, 8, 15]] += terms
    scale[7] *= 1 + x.double().abs()
    return scale
