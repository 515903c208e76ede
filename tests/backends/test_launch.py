"""`launch()` of an emitted file: a wrong argument is named, a right one of any layout is taken."""

import math
from functools import lru_cache

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile, emit
from backends.triton_codegen.load import load
from loopir.build import gemm
from loopir.errors import CodegenError
from loopir.nodes import Program
from loopir.parser import parse
from passes.stream_k import StreamKPass
from tests.support import kernels
from tests.support.numerics import check_product, guarded, integers, laid_out, normal
from tests.support.texts import edited

M, N, K = 40, 24, 48
BIG = torch.zeros(4 * M * K)


@lru_cache
def product() -> CompiledKernel:
    return compile(gemm(M, N, K, "f32", tile=(32, 32, 32)), "interpret")


@lru_cache
def open_sizes() -> CompiledKernel:
    return compile(gemm(None, None, None, "f32", tile=(32, 32, 32)), "interpret")


@lru_cache
def persistent() -> CompiledKernel:
    program = gemm(M, N, K, "f32", tile=(16, 16, 16))
    return compile(StreamKPass(merge="atomic").apply(program), "interpret")


def f32(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def window(rows: int, columns: int, offset: int = 0, stride: int | None = None) -> torch.Tensor:
    """A matrix inside BIG, where tests make tensors share memory."""
    return BIG.as_strided((rows, columns), (columns if stride is None else stride, 1), offset)


WRONG = {
    "no tensor": ([[1.0]], f32(K, N), f32(M, N), "A: expected a torch.Tensor, got list"),
    "dtype": (
        f32(M, K).half(),
        f32(K, N),
        f32(M, N),
        "A: expected dtype torch.float32, got torch.float16",
    ),
    "rank": (f32(M, K), f32(K), f32(M, N), r"B: expected shape \[K, N\] = \[48, 24\], got \[48\]"),
    "shape": (
        f32(M, K),
        f32(K, N),
        f32(M, N + 1),
        r"C: expected shape \[M, N\] = \[40, 24\], got \[40, 25\]",
    ),
    "transposed": (
        f32(K, M).T,
        f32(K, N),
        f32(M, N),
        r"A: expected stride 1 in dimension 1, got strides \[1, 40\]",
    ),
    "device": (
        f32(M, K),
        f32(K, N).to("meta"),
        f32(M, N),
        "B: expected a tensor on a GPU .* got meta",
    ),
    "meta": (
        f32(M, K).to("meta"),
        f32(K, N).to("meta"),
        f32(M, N).to("meta"),
        "A: expected a tensor on a GPU",
    ),
    "expanded output": (
        f32(M, K),
        f32(K, N),
        f32(1, N).expand(M, N),
        "C: expected an output whose elements do not overlap",
    ),
    "overlapping rows": (
        f32(M, K),
        f32(K, N),
        window(M, N, 0, N - 1),
        "C: expected an output whose elements do not overlap",
    ),
    "output is input": (
        window(M, K),
        f32(K, N),
        window(M, N),
        "C: expected memory of its own, got bytes shared with A",
    ),
    "output inside input": (
        window(M, K),
        f32(K, N),
        window(M, N, M * K - 1),
        "C: expected memory of its own",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_argument_is_named(case: str):
    *tensors, text = WRONG[case]
    with pytest.raises(ValueError, match=text):
        product()(*tensors)


RIGHT = {
    "rows of one buffer": (window(M, K), window(K, N, M * K), window(M, N, M * K + K * N)),
    "padded rows": (window(M, K, 0, K + 3), window(K, N, 2 * M * K), f32(M, N)),
    "inputs share memory": (window(M, K), window(K, N), f32(M, N)),
    "output right behind the input": (window(M, K), f32(K, N), window(M, N, M * K)),
    "requires grad": (f32(M, K).requires_grad_(), f32(K, N), f32(M, N).requires_grad_()),
}


@pytest.mark.parametrize("case", RIGHT)
def test_argument_one_step_from_wrong_is_taken(case: str):
    product()(*RIGHT[case])


def test_size_must_agree_across_tensors():
    with pytest.raises(
        ValueError, match=r"B: expected shape \[K, N\] = \[48, 24\], got \[47, 24\]"
    ):
        open_sizes()(f32(M, K), f32(K - 1, N), f32(M, N))
    with pytest.raises(ValueError, match="A: expected 2 dimensions, got shape"):
        open_sizes()(f32(M), f32(K, N), f32(M, N))
    with pytest.raises(ValueError, match=r"A: expected a torch.Tensor, got NoneType"):
        open_sizes()(None, f32(K, N), f32(M, N))


@pytest.mark.parametrize("shape", [(1, 1, 1), (M, N, K), (7, 65, 33), (33, 1, 100)])
def test_sizes_known_at_launch_only(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b, c = normal((m, k), torch.float32, 1), normal((k, n), torch.float32, 2), guarded((m, n))
    open_sizes()(a, b, c.tensor)
    check_product(c, a, b)


@pytest.mark.parametrize("shape", [(0, N, K), (M, 0, K), (M, N, 0), (0, 0, 0)])
def test_empty_dimensions(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b, c = f32(m, k), f32(k, n), guarded((m, n))
    open_sizes()(a, b, c.tensor)
    check_product(c, a, b)


@pytest.mark.parametrize("shape", [(0, N, K), (M, 0, K), (M, N, 0)])
def test_empty_dimensions_that_are_compile_time_constants(shape: tuple[int, int, int]):
    m, n, k = shape
    a, b, c = f32(m, k), f32(k, n), guarded((m, n))
    compile(gemm(m, n, k, "f32", tile=(32, 32, 32)), "interpret")(a, b, c.tensor)
    check_product(c, a, b)


def test_alias_that_is_declared_is_taken():
    text = "kernel @twice(X: f32[N], out Y: f32[N])\n    where N = 32\n    alias(X, Y) {\n" + (
        "  grid (t) in [1] {\n    alloc x: register f32[N]\n    load x, X[0 +: N]\n"
        "    ewise x = x * 2\n    store Y[0 +: N], x\n  }\n}\n"
    )
    x = torch.arange(32, dtype=torch.float32)
    compile(parse(text), "interpret")(x, x)
    assert x.equal(2 * torch.arange(32, dtype=torch.float32))
    with pytest.raises(ValueError, match="Y: expected memory of its own"):
        compile(
            parse(text.replace("    alias(X, Y) {", "    {").replace("32\n    {", "32 {")),
            "interpret",
        )(x, x)


# --- units


@pytest.mark.parametrize("units", [None, 1, 2, 5, 1000])
def test_units_are_at_most_what_is_asked_and_at_most_the_panels(units: int | None):
    a, b, c = (
        integers((M, K), torch.float32, 1),
        integers((K, N), torch.float32, 2),
        guarded((M, N)),
    )
    persistent()(a, b, c.tensor, units=units)
    check_product(c, a, b)


def test_number_of_blocks_follows_the_device_and_the_limit():
    namespace = load(persistent().source)
    assert launched_blocks(namespace, {}) == namespace._SMS[-1]
    assert launched_blocks(namespace, {"units": 3}) == 3
    assert launched_blocks(namespace, {"blocks_per_sm": 3}) == 3 * namespace._SMS[-1]
    assert launched_blocks(namespace, {"blocks_per_sm": 10**6}) == 3 * 2 * 3


def launched_blocks(namespace, options: dict[str, int]) -> int:
    """The grid of a launch, with the kernel replaced by something that notes it."""
    import triton

    grids = []

    class Recorder:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *args, **kwargs: None

    kernel = namespace.gemm
    namespace.gemm = Recorder()
    try:
        with triton.knobs.runtime.scope():
            triton.knobs.runtime.interpret = True
            namespace.launch(f32(M, K), f32(K, N), f32(M, N), **options)
    finally:
        namespace.gemm = kernel
    return grids[0][0]


@pytest.mark.parametrize("option", ["units", "blocks_per_sm"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True])
def test_units_must_be_a_positive_int(option: str, value: object):
    with pytest.raises(ValueError, match=f"{option}: expected an int of at least 1, got {value!r}"):
        persistent()(f32(M, K), f32(K, N), f32(M, N), **{option: value})


def test_atomics_add_into_zeros_that_the_launcher_makes():
    a, b = integers((M, K), torch.float32, 3), integers((K, N), torch.float32, 4)
    c = guarded((M, N), poison=math.nan, pad=7)
    for _ in range(2):
        persistent()(a, b, c.tensor)
        check_product(c, a, b)


def test_padded_and_offset_operands_are_read_in_place():
    a, b, c = (
        normal((M, K), torch.float32, 5),
        normal((K, N), torch.float32, 6),
        guarded((M, N), pad=3),
    )
    product()(laid_out(a, pad=5, offset=3), laid_out(b, pad=1, offset=7), c.tensor)
    check_product(c, a, b)


# --- without a GPU, without the interpreter


def test_cpu_tensor_without_the_interpreter_is_refused_in_words():
    kernel = compile(gemm(M, N, K, "f32", tile=(32, 32, 32)), "jit")
    with pytest.raises(ValueError, match=r"A: expected a tensor on a GPU \(on the CPU only under"):
        kernel(f32(M, K), f32(K, N), f32(M, N))


def test_symbol_that_no_tensor_shows_is_an_argument_of_its_own():
    text = kernels.COPY.replace("T = 5, ", "").replace("X: f32[T, N]", "X: f32[T * 1 + T, N]")
    kernel = compile(parse(text), "interpret")
    x, y = normal((10, 16), torch.float32, 9), guarded((16,))
    kernel(x, y.tensor, T=5)
    assert y.tensor.equal(x[3] * 10 + x[4])
    with pytest.raises(ValueError, match="T: expected an int of at least 0"):
        kernel(x, y.tensor, T=-1)
    with pytest.raises(
        ValueError, match=r"X: expected shape \[2 \* T, N\] = \[8, 16\], got \[10, 16\]"
    ):
        kernel(x, y.tensor, T=4)


def test_file_runs_alone_under_the_interpreter_variable(tmp_path):
    import os
    import subprocess
    import sys

    path = tmp_path / "kernel.py"
    path.write_text(emit(gemm(M, N, K, "f32", tile=(32, 32, 32))).source)
    script = (
        "import torch, kernel\n"
        f"a, b, c = torch.ones({M}, {K}), torch.ones({K}, {N}), torch.full(({M}, {N}), 7.0)\n"
        f"kernel.launch(a, b, c)\nassert c.eq({K}).all()\nprint('ok')\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.stdout == "ok\n", result.stderr


def test_target_that_is_unknown_suggests_the_nearest():
    with pytest.raises(CodegenError, match="unknown target 'cuda:9'; did you mean 'cuda:90'"):
        compile(Program(()), "cuda:9")


def test_setting_that_is_unknown_or_out_of_range_is_named():
    with pytest.raises(CodegenError, match="num_warp"):
        compile(gemm(M, N, K), "interpret", num_warp=4)
    with pytest.raises(CodegenError, match="num_warps"):
        compile(gemm(M, N, K), "interpret", num_warps=5)


def test_size_that_follows_from_the_units_is_computed_after_them():
    text = """\
kernel @walk(X: f32[N], out Y: f32[N])
    where BN = 32, TILES = ceildiv(N, BN), SHARE = ceildiv(TILES, UNITS)
    requires at_most(UNITS, TILES) {
  grid1d (unit) in [UNITS] persistent {
    alloc x: register f32[BN]
    for i in 0 .. SHARE {
      load x, X[(unit * SHARE + i) * BN +: BN] masked
      ewise x = x + 1
      store Y[(unit * SHARE + i) * BN +: BN], x masked
    }
  }
}
"""
    kernel = compile(parse(text), "interpret")
    for n in (0, 1, 100, 1000):
        for units in (None, 1, 3):
            x, y = torch.arange(n, dtype=torch.float32), guarded((n,))
            kernel(x, y.tensor, units=units)
            assert y.tensor.equal(x + 1)
            y.check_guards()


@pytest.mark.parametrize("name", ["blocks", "key", "args", "device", "num_warps"])
def test_kernel_may_have_the_name_of_a_variable_of_the_launcher(name: str):
    a, b = integers((20, 30), torch.float16, 1), integers((30, 20), torch.float16, 2)
    c = guarded((20, 20))
    program = gemm(20, 20, 30, "f16", tile=(16, 16, 16), name=name)
    compile(program, "interpret")(a, b, c.tensor)
    check_product(c, a, b)


SQUARES = """\
kernel @{kernel}(A: f32[{size}], out {out}: f32[{size}]) {{
  grid (g) in [ceildiv({size}, 16)] {{
    alloc a: register f32[16]
    load a, A[g * 16 +: 16] masked
    ewise a = a * a
    store {out}[g * 16 +: 16], a masked
  }}
}}
"""


OUTPUTS = ("num_warps", "num_stages", "enable_fp_fusion", "units", "grid")
SIZES = ("N", "num_warps", "num_stages", "blocks")


@pytest.mark.parametrize(("out", "size"), [(o, s) for o in OUTPUTS for s in SIZES if o != s])
def test_parameters_and_sizes_may_have_the_names_of_launch_options(out: str, size: str):
    kernel = compile(parse(SQUARES.format(kernel="k", out=out, size=size)), "interpret")
    a, c = normal((20,), torch.float32, 1), guarded((20,))
    kernel(a, c.tensor)
    assert c.tensor.equal(a * a)


OPEN_DIVISOR = edited(
    SQUARES.format(kernel="k", out="C", size="N"),
    ("f32[N]) {", "f32[N])\n    where Q = N // D {"),
    ("ceildiv(N, 16)", "Q"),
)


@pytest.mark.parametrize(
    ("d", "text"), [(0, "D: expected an int of at least 1"), (2**70, "63 bits")]
)
def test_divisor_and_size_out_of_range_are_named(d: int, text: str):
    kernel = compile(parse(OPEN_DIVISOR), "interpret")
    a, c = normal((32,), torch.float32, 1), guarded((32,))
    with pytest.raises(ValueError, match=text):
        kernel(a, c.tensor, D=d)
    kernel(a, c.tensor, D=16)
    assert c.tensor.equal(a * a)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("num_warps", value) for value in (3, "x", 4.0, True)),
        *(("num_stages", value) for value in (0, 4.0, True)),
    ],
)
def test_launch_options_are_checked_on_the_cpu_too(option: str, value: object):
    kernel = compile(parse(SQUARES.format(kernel="k", out="C", size="N")), "interpret")
    with pytest.raises(ValueError, match=f"{option}: expected"):
        kernel(torch.ones(4), torch.ones(4), **{option: value})
    with pytest.raises(CodegenError, match=f"{option}: "):
        compile(kernel.module, "interpret", **{option: value})


def test_tensors_without_memory_are_refused_in_the_words_of_torch():
    kernel = compile(parse(SQUARES.format(kernel="k", out="C", size="N")), "interpret")
    c = torch.ones(4)
    with pytest.raises(RuntimeError, match="Cannot access data pointer"):
        torch.func.vmap(lambda a: kernel(a, c) or a)(torch.ones(2, 4))
    kernel(torch.full((4,), 3.0), c)
    assert c.eq(9).all()


def test_more_blocks_than_a_grid_has_are_refused_with_the_kernel():
    other = SQUARES.format(kernel="other", out="D", size="N")
    many = edited(other, ("ceildiv(N, 16)", f"{2**31} * N"))
    text = f"{SQUARES.format(kernel='k', out='C', size='N')}\n{many}"
    kernel = compile(parse(text), "interpret")
    with pytest.raises(ValueError, match="@other: expected fewer than 2,147,483,648 blocks, got"):
        kernel(torch.ones(4), torch.ones(4), torch.ones(4))


def test_tensors_that_are_not_what_their_memory_says_are_refused():
    kernel = compile(parse(SQUARES.format(kernel="k", out="C", size="N")), "interpret")
    for bad, text in (
        (torch._neg_view(torch.ones(4)), "A: expected a tensor of its own values"),
        (torch.ones(4).to_sparse(), "A: expected a dense tensor"),
    ):
        with pytest.raises(ValueError, match=text):
            kernel(bad, torch.ones(4))


def test_output_that_shares_its_last_element_or_comes_first_is_refused():
    memory = torch.ones(40)
    swapped = "kernel @k(out C: f32[N], A: f32[N]) {"
    first = edited(
        SQUARES.format(kernel="k", out="C", size="N"),
        ("kernel @k(A: f32[N], out C: f32[N]) {", swapped),
    )
    kernel = compile(parse(first), "interpret")
    with pytest.raises(ValueError, match="A: expected memory of its own, got bytes shared with C"):
        kernel(memory[:20], memory[19:39])
    kernel(memory[:20], memory[20:])


def test_last_element_of_padded_rows_counts():
    memory = torch.ones(2000)
    kernel = compile(gemm(20, 30, 40, "f32", tile=(16, 16, 16)), "interpret")
    a = memory.as_strided((20, 40), (48, 1))
    last = 19 * 48 + 39
    b = torch.ones(40, 30)
    with pytest.raises(ValueError, match="C: expected memory of its own"):
        kernel(a, b, memory[last : last + 600].view(20, 30))
    kernel(a, b, memory[last + 1 : last + 601].view(20, 30))


def test_negative_extents_run_no_block():
    text = edited(
        SQUARES.format(kernel="k", out="C", size="N"),
        ("grid (g) in [ceildiv(N, 16)]", "grid (g, h) in [N - 35, N - 33]"),
    )
    c = guarded((32,))
    compile(parse(text), "interpret")(torch.ones(32), c.tensor)
    assert c.tensor.isnan().all()


def test_output_that_wants_a_gradient_is_written():
    program = StreamKPass(units=5).apply(gemm(20, 30, 40, "f16", tile=(16, 16, 16)))
    a, b = integers((20, 40), torch.float16, 1), integers((40, 30), torch.float16, 2)
    c = torch.full((20, 30), 7.0, requires_grad=True)
    compile(program, "interpret")(a, b, c)
    assert c.detach().equal(a.float() @ b.float())


def test_no_access_leaves_its_buffer_even_where_the_program_says_so():
    text = """\
kernel @far(A: f32[N], order: i32[4], out C: f32[32]) where N = 32 {
  grid (g) in [2] {
    let u = order[g * 100000000]
    alloc a: register f32[16]
    load a, A[g * 100000000 + u +: 16]
    store C[g * 16 +: 16], a
  }
}
"""
    a, c = torch.arange(32.0), guarded((32,))
    compile(parse(text), "interpret")(a, torch.zeros(4, dtype=torch.int32), c.tensor)
    assert c.tensor.equal(torch.cat([a[:16], torch.zeros(16)]))
    c.check_guards()
