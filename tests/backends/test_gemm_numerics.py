"""The canonical GEMM through the emitter, against fp64; few, large tiles, since the interpreter
pays per operation."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from backends.triton_codegen import CompiledKernel, Module, compile, emit
from backends.triton_codegen.load import load
from backends.triton_codegen.targets import INTERPRET
from loopir.build import gemm
from loopir.types import OrderKind
from passes.stream_k import StreamKPass
from passes.tile_order import TileOrderPass
from tests.support.numerics import check_close, check_product, guarded, integers, laid_out, normal

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
}
ACCUMULATOR = {"f64": torch.float64, "i8": torch.int32}
M, N, K = 150, 70, 200
TILE = (128, 64, 128)


def operands(dtype: str, seed: int = 1):
    make = integers if dtype == "i8" else normal
    return make((M, K), TORCH[dtype], seed), make((K, N), TORCH[dtype], seed + 1)


def run(program, a, b, c, **options) -> None:
    compile(program, "interpret")(a, b, c.tensor, **options)


@pytest.mark.parametrize("dtype", TORCH)
def test_product_is_right_for_every_operand_type(dtype: str):
    a, b = operands(dtype)
    acc = ACCUMULATOR.get(dtype, torch.float32)
    c = guarded((M, N), acc)
    run(gemm(M, N, K, dtype, tile=TILE), a, b, c)
    check_product(c, a, b, acc=acc)


@pytest.mark.parametrize("a_layout", ["row", "col"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_layouts_with_padding_and_offsets(a_layout: str, b_layout: str):
    a, b = operands("bf16")
    dims = {"row": 1, "col": 0}
    left = laid_out(a, dims[a_layout], pad=8, offset=16)
    right = laid_out(b, dims[b_layout], pad=3, offset=5)
    c = guarded((M, N), pad=9)
    run(gemm(M, N, K, "bf16", tile=TILE, a_layout=a_layout, b_layout=b_layout), left, right, c)
    check_product(c, a, b)


@pytest.mark.parametrize("out", ["f16", "bf16"])
def test_output_is_rounded_once_to_nearest_even(out: str):
    a, b = operands("bf16")
    c, exact = guarded((M, N), TORCH[out]), guarded((M, N))
    run(gemm(M, N, K, "bf16", tile=TILE), a, b, exact)
    run(gemm(M, N, K, "bf16", out, tile=TILE), a, b, c)
    assert c.tensor.equal(exact.tensor.to(TORCH[out]))
    c.check_guards()


@pytest.mark.parametrize("shape", [(1, N, K), (M, 1, K), (M, N, 1), (1, 1, 1), (127, 67, 131)])
def test_sizes_that_fill_no_tile(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b = normal((m, k), torch.float16, 3), normal((k, n), torch.float16, 4)
    c = guarded((m, n))
    run(gemm(m, n, k, "f16", tile=TILE), a, b, c)
    check_product(c, a, b)


def test_infinity_and_nan_stay_in_their_row():
    a, b = operands("f32")
    a[3, 5], a[9, 7] = torch.inf, torch.nan
    c = guarded((M, N))
    run(gemm(M, N, K, "f32", tile=TILE), a, b, c)
    assert c.tensor[9].isnan().all()
    assert not c.tensor[3].isfinite().any()
    others = [i for i in range(M) if i not in (3, 9)]
    assert c.tensor[others].isfinite().all()


@pytest.mark.parametrize("order", [*OrderKind, None])
def test_tile_order_changes_no_bit(order: OrderKind | None):
    a, b = operands("f32")
    plain, c = guarded((M, N)), guarded((M, N))
    program = gemm(M, N, K, "f32", tile=(32, 32, 64))
    run(program, a, b, plain)
    ordered = TileOrderPass(group=3) if order is None else TileOrderPass(order=order)
    run(ordered.apply(program), a, b, c)
    assert c.tensor.equal(plain.tensor)


@pytest.mark.parametrize("units", [1, 3, 7, 40])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_stream_k_is_bit_for_bit_the_data_parallel_product_of_integers(dtype: str, units: int):
    a, b = integers((M, K), TORCH[dtype], 5), integers((K, N), TORCH[dtype], 6)
    c, whole = guarded((M, N)), guarded((M, N))
    program = gemm(M, N, K, dtype, tile=(128, 64, 64))
    run(program, a, b, whole)
    run(StreamKPass(units=units, merge="atomic").apply(program), a, b, c)
    assert c.tensor.equal(whole.tensor)
    check_product(c, a, b, acc=torch.int32)


# --- controls: each of these kernels is wrong, and each check must say so


def mutated(program, old: str, new: str) -> CompiledKernel:
    """The kernel with a text of its source replaced."""
    module = emit(program)
    assert old in module.source
    source = module.source.replace(old, new)
    return CompiledKernel(replace(module, source=source), INTERPRET, load(source))


SPLIT = StreamKPass(units=5, merge="atomic").apply(gemm(M, N, K, "f32", tile=(64, 64, 64)))
MUTANTS = {
    "stores zero": ("C_stride0 + C_1, acc, mask=(C_0", "C_stride0 + C_1, acc * 0, mask=(C_0"),
    "skips the atomic": ("tl.atomic_add(", "(lambda *a, **k: None)("),
    "skips the zeroing": ("_zero(C)", "pass"),
    "loses a panel": ("for kp_ in range(k0, k1):", "for kp_ in range(k0 + 1, k1):"),
    "adds a panel twice": (
        "tl.minimum(it_end - tile * P, P)",
        "tl.minimum(it_end - tile * P + 1, P)",
    ),
    "forgets a mask": ("mask=(A_0 < M) & (A_1 < K), other=0.0", "mask=(A_0 < M), other=0.0"),
    "masks with one": ("other=0.0", "other=1.0"),
    "swaps the tile axes": ("ti = tile // ((", "ti = tile % (("),
    "stores every part": ("if k0 == 0 and k1 == P:", "if k1 == P:"),
    "writes one column too many": ("(C_0 < M) & (C_1 < N))", "(C_0 < M) & (C_1 < N + 1))"),
    "starts at one": ("acc = tl.full((BM, BN), 0.0,", "acc = tl.full((BM, BN), 1.0,"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_control_a_mutated_kernel_fails_the_check(name: str):
    a, b = normal((M, K), torch.float32, 7), normal((K, N), torch.float32, 8)
    left, c = laid_out(a, pad=1), guarded((M, N), pad=1)
    kernel = mutated(SPLIT, *MUTANTS[name])
    kernel(left, b, c.tensor)
    with pytest.raises(AssertionError, match="elements"):
        check_product(c, a, b)


def test_control_the_kernel_as_emitted_passes_it():
    a, b = normal((M, K), torch.float32, 7), normal((K, N), torch.float32, 8)
    left, c = laid_out(a, pad=1), guarded((M, N), pad=1)
    compile(SPLIT, "interpret")(left, b, c.tensor)
    check_product(c, a, b)


def test_control_a_write_outside_the_output_is_found():
    c = guarded((4, 4))
    c.check_guards()
    c.whole[0] = 0
    with pytest.raises(AssertionError, match="outside the output"):
        c.check_guards()


def test_control_an_error_above_the_bound_is_found():
    expected = torch.ones(4, 4)
    check_close(expected + 1e-3, expected, 1e-2)
    with pytest.raises(AssertionError, match="1 of 16 elements"):
        check_close(torch.where(torch.eye(4) * torch.arange(4) == 3, 1.1, expected), expected, 1e-2)
    with pytest.raises(AssertionError, match="16 of 16"):
        check_close(torch.full((4, 4), torch.nan), expected, 1e9)


# --- the same text in every process

SCRIPT = """
from backends.triton_codegen import emit
from loopir.build import gemm
from loopir.parser import parse
from passes.stream_k import StreamKPass
from tests.support import kernels
import sys
program = gemm(150, 70, 200, 'bf16', 'bf16', tile=(64, 64, 64))
split = StreamKPass(units=5, merge='atomic').apply(gemm(150, 70, 200))
texts = [emit(program).source, emit(split).source]
texts += [emit(parse(kernels.text(n))).source for n in kernels.NAMES]
assert 'torch' not in sys.modules and 'triton' not in sys.modules
sys.stdout.write('\\n'.join(texts))
"""


def test_source_is_the_same_bytes_under_every_hash_seed():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            check=True,
            cwd=root,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(texts) == 1
    assert os.fsencode(root) not in texts.pop()


def test_equal_programs_give_equal_modules():
    first, second = (emit(gemm(M, N, K, "bf16")) for _ in range(2))
    assert first == second
    assert isinstance(first, Module)
