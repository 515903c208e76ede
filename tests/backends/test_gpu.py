"""The same kernels on a real GPU: right numbers, the current stream, capture, and the cost of a
launch."""

import time

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile
from loopir.build import gemm
from loopir.errors import CodegenError
from loopir.parser import parse
from loopir.scope import constants
from passes.pipeline import parse_pipeline
from passes.stream_k import StreamKPass
from tests.support import kernels
from tests.support.numerics import (
    bound,
    check_close,
    check_product,
    guarded,
    integers,
    laid_out,
    normal,
    product,
)
from tests.support.reference import allowed_difference, outputs_of_both

pytestmark = pytest.mark.gpu

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
}
ACCUMULATOR = {"f64": torch.float64, "i8": torch.int32}
GPU = "cuda"


def jit(program, **settings) -> CompiledKernel:
    kernel = compile(program, "jit", **settings)
    assert isinstance(kernel, CompiledKernel)
    return kernel


def split(program, units: int | None = None):
    return StreamKPass(units=units, merge="atomic").apply(program)


@pytest.mark.parametrize("tile", [(128, 128, 64), (64, 32, 32)], ids=str)
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("persistent", [False, True])
def test_product_is_right_for_every_operand_type(dtype: str, tile, persistent: bool):
    m, n, k = 300, 200, 520
    make = integers if dtype == "i8" else normal
    a, b = make((m, k), TORCH[dtype], 1, device=GPU), make((k, n), TORCH[dtype], 2, device=GPU)
    acc = ACCUMULATOR.get(dtype, torch.float32)
    c = guarded((m, n), acc, device=GPU)
    program = gemm(m, n, k, dtype, tile=tile)
    stages = 2 if dtype == "f64" else 3
    jit(split(program, 33) if persistent else program, num_stages=stages)(a, b, c.tensor)
    check_product(c, a, b, acc=acc)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3"])
def test_precision_of_f32_operands(precision: str):
    a, b = (
        normal((256, 512), torch.float32, 3, device=GPU),
        normal((512, 128), torch.float32, 4, device=GPU),
    )
    c = guarded((256, 128), device=GPU)
    jit(gemm(256, 128, 512, "f32", tile=(64, 64, 32), precision=precision))(a, b, c.tensor)
    check_product(c, a, b, tf32=precision == "tf32")


def test_control_tf32_is_outside_the_bound_of_ieee():
    a, b = (
        normal((256, 512), torch.float32, 3, device=GPU),
        normal((512, 128), torch.float32, 4, device=GPU),
    )
    c = guarded((256, 128), device=GPU)
    jit(gemm(256, 128, 512, "f32", tile=(64, 64, 32), precision="tf32"))(a, b, c.tensor)
    oracle = product(a, b)
    with pytest.raises(AssertionError, match="elements are wrong"):
        check_close(c.tensor, oracle.value, bound(oracle, torch.float32, torch.float32) / 4)


@pytest.mark.parametrize("a_layout", ["row", "col"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_layouts_with_padding_and_offsets(a_layout: str, b_layout: str):
    a, b = (
        normal((150, 200), torch.bfloat16, 5, device=GPU),
        normal((200, 70), torch.bfloat16, 6, device=GPU),
    )
    dims = {"row": 1, "col": 0}
    c = guarded((150, 70), device=GPU, pad=9)
    program = gemm(150, 70, 200, tile=(64, 64, 64), a_layout=a_layout, b_layout=b_layout)
    for pad, offset in ((0, 0), (8, 16), (3, 5)):
        left, right = (
            laid_out(a, dims[a_layout], pad, offset),
            laid_out(b, dims[b_layout], pad, offset),
        )
        c.tensor.fill_(torch.nan)
        jit(program)(left, right, c.tensor)
        check_product(c, a, b)


@pytest.mark.parametrize(
    "shape", [(1, 70, 200), (150, 1, 200), (150, 70, 1), (1, 1, 1), (127, 67, 131)]
)
@pytest.mark.parametrize("persistent", [False, True])
def test_sizes_that_fill_no_tile(shape: tuple[int, int, int], persistent: bool):
    m, n, k = shape
    a, b = (
        normal((m, k), torch.float16, 7, device=GPU),
        normal((k, n), torch.float16, 8, device=GPU),
    )
    c = guarded((m, n), device=GPU)
    program = gemm(m, n, k, "f16", tile=(64, 64, 64))
    jit(split(program) if persistent else program)(a, b, c.tensor)
    check_product(c, a, b)


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (8, 8, 0), (0, 0, 0)])
def test_empty_dimensions(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b = torch.ones((m, k), device=GPU), torch.ones((k, n), device=GPU)
    for program in (
        gemm(m, n, k, "f32", tile=(32, 32, 32)),
        gemm(None, None, None, "f32", tile=(32, 32, 32)),
    ):
        c = guarded((m, n), device=GPU)
        jit(program)(a, b, c.tensor)
        check_product(c, a, b)


def test_stream_k_is_bit_for_bit_the_data_parallel_product_of_integers():
    a, b = (
        integers((640, 1000), torch.bfloat16, 9, device=GPU),
        integers((1000, 320), torch.bfloat16, 1, device=GPU),
    )
    program, c = gemm(640, 320, 1000), guarded((640, 320), device=GPU)
    whole = guarded((640, 320), device=GPU)
    jit(program)(a, b, whole.tensor)
    kernel = jit(split(program))
    for units in (None, 1, 2, 7, 100, 132, 1000):
        c.tensor.fill_(torch.nan)
        kernel(a, b, c.tensor, units=units)
        assert c.tensor.equal(whole.tensor)
    c.check_guards()


#: by decomposition; hybrids have whole tiles and, of the others, a part of split ones
DECOMPOSITIONS = [
    *("decomposition=split-k splits=5", "decomposition=split-k splits=8 slot-order=split-slowest"),
    *("decomposition=hybrid units=32", "decomposition=hybrid units=32 tail=one-tile bounds=ceil"),
    "decomposition=hybrid units=32 first=data-parallel direction=backward bounds=big-units",
    *("decomposition=k-aligned units=32", "decomposition=k-aligned units=132 cost=2"),
    *("decomposition=data-parallel", "decomposition=data-parallel units=32"),
    *("units=132", "units=132 min-panels=4 direction=backward", "splits=19"),
]


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("options", DECOMPOSITIONS)
def test_a_decomposition_is_bit_for_bit_the_grid_form(options: str, dtype: str, permuted: bool):
    m, n, k = 1000, 1100, 1200
    a = integers((m, k), TORCH[dtype], 21, device=GPU)
    b = integers((k, n), TORCH[dtype], 22, device=GPU)
    program = gemm(m, n, k, dtype, tile=(128, 128, 64))
    whole, split_up = guarded((m, n), device=GPU), guarded((m, n), device=GPU)
    jit(program, num_stages=2)(a, b, whole.tensor)
    more = " permuted=true" if permuted else ""
    decomposed = parse_pipeline(f"stream-k{{{options}{more}}}").run(program)
    sizes = constants(decomposed.kernels[0])
    order = torch.randperm(sizes.get("UNITS", sizes["TILES"]), dtype=torch.int32, device=GPU)
    jit(decomposed, num_stages=2)(a, b, split_up.tensor, *([order] if permuted else []))
    assert split_up.tensor.equal(whole.tensor)
    check_product(split_up, a, b)
    split_up.check_guards()


def test_offsets_beyond_two_to_the_31_elements():
    rows, k = 2**15 + 3, 2**16 + 64
    a = torch.empty((rows, k), dtype=torch.bfloat16, device=GPU)
    a.zero_()
    a[-1] = 1
    b, c = torch.ones((k, 16), dtype=torch.bfloat16, device=GPU), guarded((rows, 16), device=GPU)
    jit(gemm(rows, 16, k, tile=(128, 16, 64)))(a, b, c.tensor)
    assert c.tensor[-1].eq(k).all()
    assert c.tensor[:-1].eq(0).all()


@pytest.mark.parametrize("name", kernels.NAMES)
def test_unforeseen_kernels_agree_with_the_reference(name: str):
    program = parse(kernels.text(name))
    for found, expected in outputs_of_both(program, "jit", sizes=kernels.SIZES):
        check_close(found, expected, allowed_difference(found, expected))


@pytest.mark.parametrize("dtype", ["bf16", "f32", "i8", "f8e4m3"])
def test_products_of_integers_agree_with_the_reference_bit_for_bit(dtype: str):
    program = gemm(70, 50, 90, dtype, tile=(32, 32, 32))
    for variant in (program, split(program)):
        for found, expected in outputs_of_both(variant, "jit", integer_valued=True):
            assert found.equal(expected)


def test_nan_passes_through_the_maximum():
    x, y = normal((100, 300), torch.float32, 6, device=GPU), guarded((100,), device=GPU)
    x[7, 299] = torch.nan
    jit(parse(kernels.ROW_MAX))(x, y.tensor)
    check_close(y.tensor, x.amax(1), 0)


# --- streams, capture, devices


def test_launch_is_on_the_current_stream():
    program = split(gemm(512, 512, 4096))
    a, b = (
        normal((512, 4096), torch.bfloat16, 1, device=GPU),
        normal((4096, 512), torch.bfloat16, 2, device=GPU),
    )
    kernel, c = jit(program), guarded((512, 512), device=GPU)
    kernel(a, b, c.tensor)
    side, late = torch.cuda.Stream(), torch.zeros_like(b)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late.copy_(b)
        kernel(a, late, c.tensor)
    side.synchronize()
    check_product(c, a, b)


@pytest.mark.parametrize("persistent", [False, True])
def test_capture_replays_with_new_inputs(persistent: bool):
    program = gemm(256, 256, 1024, tile=(128, 128, 64))
    kernel = jit(split(program) if persistent else program)
    a, b = (
        torch.zeros((256, 1024), dtype=torch.bfloat16, device=GPU),
        torch.zeros((1024, 256), dtype=torch.bfloat16, device=GPU),
    )
    c = guarded((256, 256), device=GPU)
    kernel(a, b, c.tensor)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, c.tensor)
    for seed in range(5):
        a.copy_(normal((256, 1024), torch.bfloat16, seed))
        b.copy_(normal((1024, 256), torch.bfloat16, seed + 10))
        c.tensor.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        check_product(c, a, b)


def test_tensors_on_different_devices_are_refused():
    kernel = jit(gemm(32, 32, 32, "f32", tile=(32, 32, 32)))
    a, b = torch.ones(32, 32, device=GPU), torch.ones(32, 32)
    with pytest.raises(ValueError, match="B: expected device cuda:0, as A, got cpu"):
        kernel(a, b, torch.ones(32, 32, device=GPU))


def test_kernel_over_the_limit_of_the_device_is_an_error_with_figures():
    a = torch.ones(256, 1024, dtype=torch.float32, device=GPU)
    kernel = jit(gemm(256, 256, 1024, "f32", tile=(128, 128, 128), precision="tf32"), num_stages=8)
    with pytest.raises(CodegenError, match=r"needs [\d,]+ bytes of shared memory"):
        kernel(a, torch.ones(1024, 256, device=GPU), torch.empty(256, 256, device=GPU))


def test_stride_and_size_of_one_take_the_constant_path():
    kernel = jit(gemm(None, None, None, "f32", tile=(32, 32, 32)))
    for m, n, k in ((1, 1, 1), (1, 40, 1), (40, 1, 40)):
        a, b = (
            normal((m, k), torch.float32, 1, device=GPU),
            normal((k, n), torch.float32, 2, device=GPU),
        )
        c = guarded((m, n), device=GPU)
        kernel(a, b, c.tensor)
        check_product(c, a, b)


def test_python_of_a_launch_is_short(record_property):
    kernel = jit(split(gemm(128, 128, 64)))
    a, b = (
        torch.ones(128, 64, dtype=torch.bfloat16, device=GPU),
        torch.ones(64, 128, dtype=torch.bfloat16, device=GPU),
    )
    c = torch.empty(128, 128, device=GPU)
    samples = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(50):
            kernel(a, b, c)
        samples.append((time.perf_counter() - start) / 50 * 1e6)
    launch_us = sorted(samples)[len(samples) // 2]
    record_property("launch_us", launch_us)
    print(f"launch: {launch_us:.1f} us of Python, zeroing included")
    assert launch_us < 100
