"""Kernels that move tiles through tensor descriptors: the text, the numbers in Triton's
interpreter, which of the two kernels a launch takes, and what is compiled ahead of time."""

import json
import re
from functools import cache

import pytest
import torch
import triton
from triton import knobs
from triton.backends.nvidia.driver import CudaLauncher, wrap_handle_tensordesc

from backends.triton_codegen import AotKernel, ArgKind, CompiledKernel, compile, emit, parse_target
from backends.triton_codegen.artifacts import compile_all
from loopir.build import gemm
from loopir.errors import CodegenError
from loopir.nodes import Program
from loopir.parser import parse
from passes.pipeline import parse_pipeline
from tests.support.documents import fenced, page
from tests.support.kernels import BATCHED, DUAL
from tests.support.numerics import check_product, guarded, integers, laid_out, normal
from tests.support.reference import allowed_difference, outputs_of_both
from tests.support.texts import GEMM, edited

TILE = (32, 32, 32)
TRANSPOSED = """\
kernel @turn(X: f32[M, L, N], out Y: f32[N, L, M])
    where M = 40, N = 24, BM = 32, BN = 16 {
  grid (l, ti, tj) in [L, ceildiv(M, BM), ceildiv(N, BN)] {
    alloc x: register f32[BN, BM]
    load x, X[m - 4, l, n] over (n = tj * BN +: BN, m = ti * BM +: BM) masked
    store Y[n, l, m] over (n = tj * BN +: BN, m = ti * BM +: BM), x masked
  }
}
"""
CONV = """\
kernel @conv(X: f16[H, W, C], F: f16[R, C, Q], out Y: f32[H, W, Q])
    where H = 12, W = 20, C = 32, R = 3, Q = 16, BW = 16 {
  grid (h, t) in [H, ceildiv(W, BW)] {
    alloc acc: register f32[BW, Q]
    alloc x: shared f16[BW, C]
    alloc f: shared f16[C, Q]
    fill acc, 0
    reduce (acc: add) {
      for r in 0 .. R {
        coop_load x, X[h + r - 1, t * BW + 0 +: BW, 0 +: C] masked
        coop_load f, F[r, 0 +: C, 0 +: Q]
        dot acc, x, f
      }
    }
    store Y[h, t * BW +: BW, 0 +: Q], acc masked
  }
}
"""


def described(program: Program, before: str = "") -> Program:
    return parse_pipeline(f"{before},descriptors".strip(",")).run(program)


def interpreted(program: Program) -> CompiledKernel:
    kernel = compile(program, "interpret")
    assert isinstance(kernel, CompiledKernel)
    return kernel


def functions_run(kernel: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernel functions that later launches run, as they do."""
    names: list[str] = []
    call = kernel.namespace._Call.__call__

    def watched(self, *buffers):
        names.append(self.function.__name__)
        call(self, *buffers)

    monkeypatch.setattr(kernel.namespace._Call, "__call__", watched)
    return names


# --- text


def test_a_kernel_is_emitted_by_pointers_and_through_descriptors():
    module = emit(described(gemm(96, 80, 128, "f16", "f16", TILE, b_layout="col")))
    (info,) = module.kernels
    assert info.described is not None
    assert (info.name, info.described.name) == ("gemm", "gemm_descriptors")
    first, second = re.findall(r"def gemm\w*\((?s:.*?)\n\n\n", module.source)
    assert ".load([" not in first
    assert "tl.load(" not in second
    assert "b = B_desc.load([tl.cast(tj * BN, tl.int32), tl.cast(kp * BK, tl.int32)]).T" in second
    assert "C_desc.store([tl.cast(ti * BM, tl.int32), tl.cast(tj * BN, tl.int32)], out)" in second
    boxes = [
        (a.symbol, a.order, a.box) for a in info.described.args if a.kind is ArgKind.DESCRIPTOR
    ]
    assert boxes == [("A", (0, 1), (32, 32)), ("B", (1, 0), (32, 32)), ("C", (0, 1), (32, 32))]
    assert not any(a.kind in (ArgKind.TENSOR, ArgKind.STRIDE) for a in info.described.args)


def test_a_program_without_descriptors_has_none_of_their_text():
    module = emit(gemm(96, 80, 128))
    assert module.kernels[0].described is None
    assert not re.search("(?i)descri|_desc", module.source.split('"""')[2])


def test_boxes_of_two_shapes_are_two_descriptors():
    wide = edited(GEMM, ("    store", "    alloc e: shared f16[BM, BM]\n    coop_load e, "
                         "A[ti * BM +: BM, 0 +: BM] masked\n    store"))  # fmt: skip
    (info,) = emit(described(parse(wide))).kernels
    assert info.described
    found = [a for a in info.described.args if a.kind is ArgKind.DESCRIPTOR and a.symbol == "A"]
    assert [(a.name, a.box) for a in found] == [("A_desc", (32, 16)), ("A_desc_1", (32, 32))]


def test_a_first_index_that_may_need_more_than_32_bits_is_clamped():
    source = emit(described(parse(edited(GEMM, ("[ti * BM +: BM, kp", "[ti * K * K +: BM, kp"),
                                         ("K = 100, ", ""))))).source  # fmt: skip
    assert "tl.minimum(tl.maximum(ti * K * K, -2147483648), 2147483392)" in source
    assert source.count("tl.minimum") == 1


# --- numbers

PRODUCTS = [
    (dtype, a, b, pipeline)
    for dtype, a, b in [("f16", "row", "row"), ("bf16", "row", "col"), ("f32", "col", "row"),
                        ("f8e4m3", "row", "col"), ("f16", "col", "col")]
    for pipeline in ["", "stream-k{units=5}"]
] + [
    ("bf16", "row", "col", "stream-k{merge=fixup splits=2}"),
    ("f16", "row", "row", "tile-order{group=2},stream-k{decomposition=data-parallel units=3}"),
    ("f16", "row", "row", "stream-k{decomposition=hybrid units=4}"),
]  # fmt: skip
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
         "f8e4m3": torch.float8_e4m3fn}  # fmt: skip


@pytest.mark.parametrize(("dtype", "a_layout", "b_layout", "pipeline"), PRODUCTS)
def test_products_with_edges_are_those_of_pointers(
    dtype, a_layout, b_layout, pipeline, monkeypatch
):
    m, n, k = 88, 72, 112  # rows of 16 bytes in every type, no multiple of a tile
    program = gemm(m, n, k, dtype, tile=TILE, a_layout=a_layout, b_layout=b_layout)
    a = laid_out(integers((m, k), TORCH[dtype], 1), 0 if a_layout == "col" else 1)
    b = laid_out(integers((k, n), TORCH[dtype], 2), 0 if b_layout == "col" else 1)
    results = []
    for made in (parse_pipeline(pipeline).run(program), described(program, pipeline)):
        kernel, c = interpreted(made), guarded((m, n))
        names = functions_run(kernel, monkeypatch)
        kernel(a, b, c.tensor)
        check_product(c, a, b)
        results.append((names, c.tensor))
    (by_pointers, expected), (through, found) = results
    assert torch.equal(found, expected)
    assert not any(name.endswith("_descriptors") for name in by_pointers)
    assert through and all(name.endswith("_descriptors") for name in through)  # noqa: PT018


@pytest.mark.parametrize(("text", "sizes"), [
    (BATCHED, {"L": 3}), (TRANSPOSED, {"L": 3}), (CONV, {}),
], ids=["batched", "transposed", "conv"])  # fmt: skip
def test_other_kernels_agree_with_the_reference(text: str, sizes):
    for found, expected in outputs_of_both(
        described(parse(text)), sizes=sizes, integer_valued=True
    ):
        assert torch.equal(found.double(), expected.double())


@pytest.mark.parametrize("k", [136, 130], ids=["through descriptors", "by pointers"])
def test_two_accumulators_and_two_outputs_agree_with_the_reference(k: int):
    text = edited(DUAL, ("K = 130", f"K = {k}"))
    for found, expected in outputs_of_both(described(parse(text))):
        gap = (found.double() - expected.double()).abs()
        assert (gap <= allowed_difference(found, expected)).all()


# --- which kernel a launch takes

M, N, K = 40, 24, 48


@cache
def small() -> CompiledKernel:
    return interpreted(described(gemm(None, None, None, "f16", tile=TILE)))


def f16(rows: int, columns: int, pad: int = 0, offset: int = 0) -> torch.Tensor:
    whole = normal((offset + rows * (columns + pad),), torch.float16, 1)
    return whole[offset:].as_strided(
        (rows, columns), (columns + pad, 1), whole.storage_offset() + offset
    )


LAUNCHES = {
    "aligned": (f16(M, K), f16(K, N), "gemm_descriptors"),
    "padded rows": (f16(M, K, pad=8), f16(K, N, pad=16), "gemm_descriptors"),
    "a view that starts at 16 bytes": (f16(M, K, offset=8), f16(K, N), "gemm_descriptors"),
    "a view that starts at 2 bytes": (f16(M, K, offset=1), f16(K, N), "gemm"),
    "rows of 98 bytes": (f16(M, K, pad=1), f16(K, N), "gemm"),
    "rows of 50 bytes": (f16(M, K), f16(K, N, pad=1), "gemm"),
    "odd sizes": (f16(M, K - 1), f16(K - 1, N), "gemm"),
    "equal rows": (f16(1, K).expand(M, K), f16(K, N), "gemm"),
    "no panel": (f16(M, 0), f16(0, N), "gemm"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_takes_descriptors_where_the_tensors_suit(name: str, monkeypatch):
    a, b, function = LAUNCHES[name]
    names, c = functions_run(small(), monkeypatch), guarded((a.shape[0], b.shape[1]))
    small()(a, b, c.tensor)
    assert names == [function]
    check_product(c, a, b)


def test_an_output_that_does_not_suit_is_stored_by_pointers(monkeypatch):
    a, b, c = f16(M, K), f16(K, N), guarded((M, N), pad=1)
    names = functions_run(small(), monkeypatch)
    small()(a, b, c.tensor)
    assert names == ["gemm"]
    check_product(c, a, b)


def test_nothing_to_compute_is_no_launch(monkeypatch):
    small()(f16(0, K), f16(K, N), torch.empty(0, N))


@pytest.mark.parametrize(("tensor", "order", "suits"), [
    (torch.empty(8, 0), (0, 1), False),
    (torch.empty(2**31 - 256, 4, device="meta"), (0, 1), True),
    (torch.empty(2**31 - 255, 4, device="meta"), (0, 1), False),
    (torch.empty(8, 4).T, (1, 0), True),
    (torch.empty(8, 8)[:, :1].T, (0, 1), False),
    (torch.empty(2, 2**38, device="meta"), (0, 1), False),
], ids=["empty", "most rows", "one more", "columns", "stride of one", "too far apart"])  # fmt: skip
def test_sizes_and_strides_that_suit(tensor, order, suits):
    assert small().namespace._can_describe(-1, (tensor,), ((0, order, ()),)) is suits


@pytest.mark.parametrize(("capability", "hip", "suits"), [
    ((9, 0), None, True), ((12, 0), None, True), ((8, 9), None, False), ((9, 4), "6.0", False),
])  # fmt: skip
def test_only_devices_that_copy_boxes_get_descriptors(capability, hip, suits, monkeypatch):
    space = small().namespace
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(space, "_HAS_DESCRIPTORS", {})
    assert space._can_describe(7, (torch.empty(8, 8),), ((0, (0, 1), (8, 8)),)) is suits


# --- what is kept between launches


class Kernel:
    """A compiled kernel of one descriptor and one tensor, as Triton 3.6 has it, whose launcher in C
    is a list of what it was given. `encoded`: the addresses of which descriptors were made."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.launched: list[tuple] = []
        self.encoded: list[int] = []
        about = {
            "swizzle": 3,
            "elem_size": 4,
            "elem_type": 7,
            "block_size": [8, 8],
            "fp4_padded": 0,
        }
        signature = {"b": "*fp32", "a_desc": "tensordesc<fp32[8, 8]>", "N": "i64"}
        self.run = object.__new__(CudaLauncher)
        self.run.launch = wrap_handle_tensordesc(self._launch, signature, [about])
        self.run.launch_cooperative_grid, self.run.launch_pdl = False, True
        self.run.global_scratch_size = self.run.profile_scratch_size = 0
        self.run.global_scratch_align = self.run.profile_scratch_align = 1
        monkeypatch.setattr(triton.runtime.driver, "_active", self)

    def _launch(self, *args):
        self.launched.append(
            tuple(a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args)
        )

    def __getitem__(self, grid):
        return triton.compiler.CompiledKernel.__getitem__(self, grid)  # pyright: ignore

    def _init_handles(self):
        pass

    def launch_metadata(self, grid, stream, *args):
        return None

    # the driver

    @property
    def utils(self):
        return self

    def fill_tma_descriptor(self, start, *rest):
        self.encoded.append(start)
        return start, *map(repr, rest)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return "stream"


def described_call():
    """Of a kernel (b, a_desc, N) that is launched with (a, b)."""
    return small().namespace._DescribedCall(None, (1,), ((0, (0, 1), (8, 8)),), 3, (5,), {})


def test_the_launcher_in_c_is_given_what_triton_gives_it(monkeypatch):
    kernel, call = Kernel(monkeypatch), described_call()
    for name in ("launch_enter_hook", "launch_exit_hook"):
        monkeypatch.setattr(knobs.runtime, name, None)
    a, b = torch.empty(16, 24), torch.empty(16, 24)
    call._runner(kernel)(a, b)
    kernel[(3, 1, 1)](*call.arguments((a, b)))
    own, tritons = kernel.launched
    assert own == tritons
    assert own[:7] == (3, 1, 1, "stream", "function", False, True)
    assert own[13:] == (b.data_ptr(), own[14], 16, 24, 24, 1, 5)


def test_descriptors_are_encoded_once_for_each_address(monkeypatch):
    kernel, call = Kernel(monkeypatch), described_call()
    run = call._runner(kernel)
    a, b, c = (torch.empty(16, 24) for _ in range(3))
    for pair in [(a, b), (a, b), (c, b), (a, b), (c, b)]:
        run(*pair)
    assert kernel.encoded == [a.data_ptr(), c.data_ptr()]
    assert [args[14][0] for args in kernel.launched] == [t.data_ptr() for t in (a, a, c, a, c)]
    run(a, c)
    assert kernel.launched[-1][13] == c.data_ptr()


def test_what_is_kept_has_a_limit(monkeypatch):
    kernel, call = Kernel(monkeypatch), described_call()
    run, whole = call._runner(kernel), torch.empty(400 * 64)
    for i in range(400):
        run(whole[64 * i :][:64].view(8, 8), whole)
    assert 0 < len(call.kept) <= 256
    assert len(kernel.launched) == 400


def test_a_profiler_sees_launches_through_triton(monkeypatch):
    kernel, call = Kernel(monkeypatch), described_call()
    a, b, run = torch.empty(8, 8), torch.empty(8, 8), call._runner(kernel)
    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", lambda _: None)
    run(a, b)
    assert kernel.launched[-1][11] is knobs.runtime.launch_enter_hook
    assert call.kept == {}


@pytest.mark.parametrize("launch", [print, lambda *args: None])
def test_another_triton_launches_in_its_own_way(launch, monkeypatch):
    kernel, call = Kernel(monkeypatch), described_call()
    kernel.run.launch = launch
    assert call.passing(kernel)[0] is None


# --- ahead of time


def operations(sass: str) -> list[str]:
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", sass, re.M)


def count(operations: list[str], name: str) -> int:
    return sum(op.startswith(name) for op in operations)


WALKS = ["", "tile-order,stream-k{decomposition=data-parallel units=132}", "stream-k{units=132}"]
SHAPES = [((128, 256, 64), 8, 3), ((128, 128, 64), 4, 4)]


@pytest.mark.sampled
@pytest.mark.parametrize("pipeline", WALKS)
@pytest.mark.parametrize(("tile", "warps", "stages"), SHAPES, ids=["128x256", "128x128"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_hopper_copies_boxes_into_its_tensor_cores(tile, warps, stages, b_layout, pipeline):
    program = gemm(3840, 3840, 4096, "bf16", "bf16", tile, b_layout=b_layout)
    kernel = compile(described(program, pipeline), "cuda:90", num_warps=warps, num_stages=stages)
    found = operations(kernel.sass)
    assert count(found, "UTMALDG") == 2 * stages  # prologue and loop
    assert count(found, "UTMASTG") == (2 if pipeline.startswith("stream-k") else 1)
    assert count(found, "HGMMA") == 32 // warps  # a warp group has 64 rows of the tile, or 128
    assert not any(op.startswith(("LDGSTS", "LDSM", "STL", "LDL")) for op in found)
    assert (kernel.spill_bytes, kernel.warnings) == (0, ())
    assert kernel.assumptions[0].startswith("A, B, C: no empty dimension")
    assert kernel.fallback
    by_pointers = operations(kernel.fallback.sass)
    assert count(by_pointers, "UTMA") == 0
    assert count(by_pointers, "LDGSTS") > 0
    assert kernel.fallback.spill_bytes == 0


@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_targets_without_the_hardware_get_pointers(target: str):
    program = gemm(1536, 1536, 4096, "bf16", "bf16", (128, 128, 64), b_layout="col")
    kernel = compile(described(program), target, num_stages=2)
    assert isinstance(kernel, AotKernel)
    assert (kernel.info.name, kernel.fallback) == ("gemm", None)


def test_the_table_and_the_files_have_both_kernels(tmp_path):
    module = emit(described(gemm(512, 512, 512, "bf16", "bf16", (64, 64, 64))))
    table, refusals = compile_all(module, [parse_target("cuda:90")], tmp_path)
    assert refusals == ()
    assert re.findall(r"^(cuda:90|  pointers) +\d+", table, re.M) == ["cuda:90", "  pointers"]
    stems = {path.stem for path in tmp_path.glob("*.cubin")}
    assert stems == {"gemm.cuda-90", "gemm_descriptors.cuda-90"}
    told = json.loads((tmp_path / "gemm_descriptors.cuda-90.json").read_text())
    assert [(a["kind"], a["symbol"]) for a in told["arguments"]] == [
        ("descriptor", name) for name in "ABC"
    ]
    assert "start and strides at multiples of 16 bytes" in told["assumptions"][0]


def test_a_tile_whose_store_has_no_room_beside_the_loads_is_refused_in_words():
    program = gemm(3840, 3840, 4096, "bf16", tile=(128, 256, 64))
    with pytest.raises(CodegenError, match=r"278,552 bytes .*\{stores=false\}") as caught:
        compile(described(program), "cuda:90")
    assert "epilogue-pieces in front of descriptors" in str(caught.value)
    for advice in ("descriptors{stores=false}", "epilogue-pieces,descriptors"):
        assert compile(parse_pipeline(advice).run(program), "cuda:90").fallback


def test_the_program_of_the_page_runs_through_descriptors(monkeypatch):
    (text,) = fenced(page("descriptors.md"), "lir")
    for found, expected in outputs_of_both(parse(text), integer_valued=True):
        assert torch.equal(found, expected)
