"""What single nodes become in the emitted source, and what the backend refuses, with the place and
a way out."""

import pytest

from backends.triton_codegen import ArgKind, Settings, emit
from backends.triton_codegen.kernel import kernel_text
from loopir.build import gemm
from loopir.errors import CodegenError, VerifyError
from loopir.parser import parse
from passes.stream_k import StreamKPass
from tests.support import kernels
from tests.support.texts import GEMM, edited


def source(text: str, settings: Settings | None = None) -> str:
    return emit(parse(text), settings).source


def body(text: str) -> str:
    """The kernel's function, without the rest of the file."""
    whole = source(text)
    return whole[whole.rindex("@triton.jit") : whole.index("def _fail")]


def test_memory_operations_follow_their_ir_line():
    lines = [line.strip() for line in body(GEMM).splitlines()]
    for marker in ("# coop_load a, A[", "# coop_load b, B[", "# store C["):
        at = next(i for i, line in enumerate(lines) if line.startswith(marker))
        assert any("tl.load(" in line or "tl.store(" in line for line in lines[at + 1 : at + 4])


def test_dot_says_precision_accumulator_and_imprecise_additions():
    call = 'a, b, acc, input_precision="ieee", max_num_imprecise_acc=0, out_dtype=tl.float32'
    assert call in body(GEMM)


def test_tf32_is_said_where_it_is_asked_for():
    program = gemm(64, 64, 64, "f32", precision="tf32x3")
    assert 'input_precision="tf32x3"' in emit(program).source


def test_imprecise_additions_stop_at_the_panel():
    program = gemm(64, 64, 64, "f8e4m3", tile=(32, 32, 32))
    assert "max_num_imprecise_acc=32" in emit(program, Settings(max_num_imprecise_acc=128)).source


def test_staging_barriers_write_nothing():
    assert "debug_barrier" not in body(GEMM)


def test_barrier_between_load_and_store_of_one_buffer_stays():
    text = body(kernels.IN_PLACE)
    assert text.count("tl.debug_barrier()") == 1
    assert text.index("tl.debug_barrier()") > text.index("# load c, C[")


def test_masks_that_hold_are_left_out():
    even = edited(GEMM, ("M = 96, N = 80, K = 100", "M = 96, N = 64, K = 128"))
    assert "mask=" not in body(even)
    assert "mask=(A_0 < M)" not in body(GEMM)
    assert "mask=(B_0 < K) & (B_1 < N)" in body(GEMM)


def test_panel_loop_of_a_segment_is_assumed_to_run():
    program = StreamKPass(units=4, merge="atomic").apply(parse(GEMM))
    assert "tl.assume(k0 < k1)" in emit(program).source


def test_loop_that_may_not_run_is_not_assumed_to_run():
    text = edited(GEMM, ("P = max(1, ceildiv(K, BK))", "P = ceildiv(K, BK)"), ("K = 100, ", ""))
    assert "tl.assume" not in body(text)
    at_least_one = edited(GEMM, ("K = 100, ", ""))
    assert "tl.assume(0 < P)" in body(at_least_one)


@pytest.mark.parametrize(("K", "is_hidden"), [(64, False), (256, False), (257, True)])
def test_end_of_a_long_panel_loop_is_hidden_from_the_assembler(K: int, is_hidden: bool):
    found = emit(gemm(64, 64, K, tile=(32, 32, 64))).source
    assert ("kp_end = opaque(P)\n    tl.assume(0 < kp_end)\n" in found) is is_hidden
    assert ("range(0, kp_end)" in found) is is_hidden
    assert ("range(0, P)" in found) is not is_hidden


def test_strides_come_in_bytes():
    found = emit(gemm(64, 64, 64, "f16", "f32")).source
    assert "A_stride0 = tl.cast(A_stride0, tl.int64) // 2" in found
    assert "C_stride0 = tl.cast(C_stride0, tl.int64) // 4" in found
    assert "2 * A_strides[0], 2 * B_strides[0], 4 * C_strides[0]" in found
    assert "A_stride0 = tl.cast(A_stride0, tl.int64)\n" in emit(gemm(64, 64, 64, "i8")).source


def test_atomic_is_relaxed_at_gpu_scope_and_masked():
    text = emit(StreamKPass(units=4, merge="atomic").apply(parse(GEMM))).source
    call = text[text.index("tl.atomic_add(") :].split(")\n", 1)[0]
    assert 'sem="relaxed"' in call
    assert 'scope="gpu"' in call
    assert "mask=" in call


def test_arrive_is_fenced_acquire_release_and_resets_its_counter():
    text = edited(
        GEMM,
        ("kernel @gemm", "workspace counters: i32[9]\n\nkernel @gemm"),
        ("    store C", "    arrive last, counters[ti * 3 + tj], 4\n    store C"),
    )
    lines = kernel_text(parse(text), 0, "gemm", Settings()).lines
    start = next(i for i, line in enumerate(lines) if "# arrive last" in line)
    found = [line.strip() for line in lines[start + 1 : start + 6]]
    assert found[0].startswith("tl.debug_barrier()")
    assert (
        found[1]
        == 'last = tl.atomic_add(counters + (3 * ti + tj), 1, sem="acq_rel", scope="gpu") == 3'
    )
    assert found[2:4] == ["if last:", "tl.store(counters + (3 * ti + tj), 0)"]
    assert found[4].startswith("tl.debug_barrier()")


def test_names_that_python_or_triton_use_are_changed_everywhere():
    text = """\
kernel @tl(range: f32[lambda], out triton: f32[lambda])
    where lambda = 32 {
  grid (launch) in [1] {
    alloc float: register f32[lambda]
    load float, range[0 +: lambda]
    store triton[0 +: lambda], float
  }
}
"""
    whole = source(text)
    assert "def tl_1(range_1, triton_1, lambda_1: tl.constexpr):" in whole
    assert "float_1 = tl.load(range_1 + range_1_0)" in whole
    compile(whole, "emitted", "exec")


def test_argument_names_do_not_meet_names_of_the_program():
    text = body(GEMM.replace("kp", "A_stride0"))
    assert "for A_stride0_1_ in range(0, P):" in text or "A_stride0_1 = tl.cast(" in text
    assert "A_0 * A_stride0 + A_1" in text


def test_kernel_arguments_are_those_the_body_uses():
    (info,) = emit(gemm(1536, 1536, 4096)).kernels
    found = {kind: [a.name for a in info.args if a.kind is kind] for kind in ArgKind}
    assert found[ArgKind.TENSOR] == ["A", "B", "C"]
    assert found[ArgKind.STRIDE] == ["A_stride0", "B_stride0", "C_stride0"]
    assert found[ArgKind.SIZE] == []
    assert found[ArgKind.CONSTANT] == ["N", "BM", "BN", "BK", "P"]


def test_column_major_operand_has_the_stride_of_its_columns():
    (info,) = emit(gemm(64, 64, 64, b_layout="col")).kernels
    assert [(a.name, a.dim) for a in info.args if a.symbol == "B" and a.dim is not None] == [
        ("B_stride1", 1)
    ]


def test_header_names_pipeline_settings_and_program():
    module = emit(parse(GEMM), Settings(num_warps=4), pipeline="tile-order{group=8}")
    head = module.source.split('"""')[1]
    assert "pipeline: tile-order{group=8}" in head
    assert "num_warps=4" in head
    assert "kernel @gemm(A: f16[M, K]" in head


def test_hostile_pipeline_text_stays_inside_the_header():
    module = emit(parse(GEMM), pipeline='"""\nimport os\n\\')
    assert "import os" in module.source.split("import torch")[0]
    namespace: dict = {}
    exec(compile(module.source.split("import torch")[0], "header", "exec"), namespace)
    assert "os" not in namespace


def test_emitting_checks_the_program_first():
    with pytest.raises(VerifyError):
        source(edited(GEMM, ("dot acc, a, b", "dot acc, b, a")))


REFUSED = {
    "no power of two": (GEMM.replace("BM = 32", "BM = 48"), "tile size BM = 48 is no power of two"),
    "pieces": (
        GEMM.replace("BM = 32", "BM = 48"),
        "or build the rows or columns of pieces: tile=((32, 16), ...) in loopir.build",
    ),
    "no pieces of one element": (
        GEMM.replace("BM = 32", "BM = 33"),
        "take a power of two and mask\n",
    ),
    "short dot": (GEMM.replace("BM = 32", "BM = 8"), "at least 16"),
    "short fp8 panel": (
        GEMM.replace("f16", "f8e5m2"),
        "the panel at least 32 for f8e5m2",
    ),
    "wave loop": (
        edited(GEMM, ("    store C", "    wave w in 0 .. 2 {\n ewise acc = -acc\n }\n    store C")),
        "acc passes from each wave to the next",
    ),
    "ragged grid": (
        edited(
            GEMM,
            (
                "  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {\n",
                "  grid (ti) in [3] {\n  grid (tj) in [ti + 1] {\n",
            ),
            ("acc masked\n", "acc masked\n  }\n"),
        ),
        "the extent of tj depends on ti",
    ),
    "workspace": ("workspace part: f32[Q, 32, 32]\n\n" + GEMM, "Q is no name of the first"),
    "two kernels": (
        GEMM + "\n" + GEMM.replace("@gemm", "@other").replace("BM = 32", "BM = 16"),
        "BM has another meaning in another kernel",
    ),
    "atomic multiply": (
        edited(GEMM, ("store C", "atomic mul C"), ("BK)) {", "BK))\n    requires zeroed(C) {")),
        "atomic mul of no type",
    ),
    "atomic of bf16 maxima": (
        edited(
            GEMM.replace("f16", "bf16"),
            ("out C: f32", "out C: bf16"),
            (
                "    store C[ti * BM +: BM, tj * BN +: BN], acc masked",
                "    alloc h: register bf16[BM, BN]\n    ewise h = cast(bf16, acc)\n"
                "    atomic max C[ti * BM +: BM, tj * BN +: BN], h masked",
            ),
            ("BK)) {", "BK))\n    requires zeroed(C) {"),
        ),
        "atomic max of f32, f64, i32, i64, not of bf16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_shows_the_line_and_says_what_to_do(case: str):
    text, expected = REFUSED[case]
    with pytest.raises(CodegenError) as error:
        source(text)
    assert expected in str(error.value)
    assert " | " in str(error.value)
    assert "^" in str(error.value)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_neighbour_of_the_refused_tile_sizes_is_emitted(size: int):
    assert "tl.dot(" in source(GEMM.replace("BM = 32", f"BM = {size}"))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_emitted_file_is_valid_python_of_the_two_imports(name: str):
    import ast

    tree = ast.parse(source(kernels.text(name)))
    imports = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert imports == ["torch", "triton", "triton.language"]
    assert not any(isinstance(n, ast.ImportFrom) for n in ast.walk(tree))


SETTINGS = [("num_warps", 3), ("num_warps", 64), ("num_stages", 0), ("max_num_imprecise_acc", -1)]


@pytest.mark.parametrize(("field", "value"), SETTINGS)
def test_setting_out_of_range_is_named(field: str, value: int):
    with pytest.raises(ValueError, match=field):
        Settings(**{field: value})
