"""Tensor descriptors on a GPU that has them: the bits of pointers, for every layout, type and edge;
what is kept between launches; graphs and streams."""

import itertools

import pytest
import torch
import triton

from backends.triton_codegen import CompiledKernel, compile
from loopir.build import gemm
from loopir.nodes import Program
from loopir.parser import parse
from passes.pipeline import parse_pipeline
from tests.support.kernels import BATCHED, DUAL
from tests.support.numerics import check_product, guarded, laid_out, normal
from tests.support.reference import allowed_difference, outputs_of_both
from tests.support.texts import edited

pytestmark = pytest.mark.gpu

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
TILE = (128, 128, 64)
HAS_DESCRIPTORS = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
only_with_descriptors = pytest.mark.skipif(not HAS_DESCRIPTORS, reason="no GPU that copies boxes")


def jit(program: Program, pipeline: str = "", **settings) -> CompiledKernel:
    """Without plans: kernels of equal source share them, those of other tests too."""
    kernel = compile(parse_pipeline(pipeline).run(program), "jit", **settings)
    assert isinstance(kernel, CompiledKernel)
    kernel.namespace._plans.clear()
    return kernel


def operands(m, n, k, dtype="f16", a_layout="row", b_layout="row", seed=1):
    a = laid_out(normal((m, k), TORCH[dtype], seed, device="cuda"), int(a_layout == "row"))
    b = laid_out(normal((k, n), TORCH[dtype], seed + 1, device="cuda"), int(b_layout == "row"))
    return a, b


def calls_of(kernel: CompiledKernel) -> list[str]:
    """The names of the classes of calls in the plans of a kernel."""
    return [type(c).__name__ for p in kernel.namespace._plans.values() for c in p.calls]


def both(program: Program, before: str = "", **settings) -> tuple[CompiledKernel, CompiledKernel]:
    """By pointers, and through descriptors."""
    after = f"{before},descriptors".strip(",")
    return jit(program, before, **settings), jit(program, after, **settings)


def check_equal_bits(kernels, a, b, shape, dtype=torch.float32) -> None:
    found = []
    for kernel in kernels:
        c = guarded(shape, dtype, device="cuda")
        kernel(a, b, c.tensor)
        kernel(a, b, c.tensor)  # what is kept now launches
        c.check_guards()
        found.append(c)
    check_product(found[1], a, b)
    assert torch.equal(found[0].tensor, found[1].tensor)


# --- bits

LAYOUTS = [*itertools.product(["row", "col"], repeat=2)]
WALKS = [
    "",
    "tile-order,stream-k{decomposition=data-parallel units=40}",
    "stream-k{units=40}",
    "stream-k{merge=fixup splits=3 decomposition=split-k}",
]


@only_with_descriptors
@pytest.mark.parametrize(("a_layout", "b_layout"), LAYOUTS, ids="-".join)
@pytest.mark.parametrize("dtype", TORCH)
def test_products_have_the_bits_of_pointers(dtype: str, a_layout: str, b_layout: str):
    m, n, k = 272, 400, 336  # no multiple of a tile, rows of whole 16 bytes
    tile = (64, 64, 32) if dtype == "f32" else TILE
    kernels = both(gemm(m, n, k, dtype, tile=tile, a_layout=a_layout, b_layout=b_layout))
    check_equal_bits(kernels, *operands(m, n, k, dtype, a_layout, b_layout), (m, n))
    assert calls_of(kernels[1]) == ["_DescribedCall"]


@only_with_descriptors
@pytest.mark.parametrize("pipeline", WALKS)
@pytest.mark.parametrize("shape", [(1000, 904, 1096), (8, 8, 192), (640, 256, 2048)], ids=str)
def test_walks_have_the_bits_of_pointers(pipeline: str, shape):
    m, n, k = shape
    program = gemm(m, n, k, "bf16", "bf16", TILE, b_layout="col")
    kernels = both(program, pipeline, num_stages=4, num_warps=4)
    check_equal_bits(kernels, *operands(m, n, k, "bf16", "row", "col"), (m, n), torch.bfloat16)
    assert set(calls_of(kernels[1])) == {"_DescribedCall"}


@only_with_descriptors
@pytest.mark.parametrize("pipeline", WALKS)
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_what_is_read_once_has_a_policy_and_the_same_bits(dtype: str, pipeline: str):
    m, n, k = 56, 1000, 1096
    program = gemm(m, n, k, dtype, tile=(64, 64, 32), b_layout="col")
    once = jit(program, f"evict-first,{pipeline},descriptors".replace(",,", ","))
    kernels = jit(program, f"{pipeline},descriptors".strip(",")), once
    check_equal_bits(kernels, *operands(m, n, k, dtype, "row", "col"), (m, n))
    assert "_EvictFirstCall" in calls_of(once)
    first = once.module.kernels[0].described
    assert first is not None
    compiled = getattr(once.namespace, first.name).device_caches[0][0].values()
    assert all(".L2::cache_hint" in k.asm["ptx"] for k in compiled)
    assert triton.knobs.runtime.add_stages_inspection_hook is None


@only_with_descriptors
@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_a_large_tile_has_the_bits_of_pointers(b_layout: str):
    program = gemm(2048, 1288, 520, "f16", "f16", (128, 256, 64), b_layout=b_layout)
    kernels = both(program, "stream-k{decomposition=data-parallel}")
    a, b = operands(2048, 1288, 520, "f16", "row", b_layout)
    check_equal_bits(kernels, a, b, (2048, 1288), torch.float16)


@only_with_descriptors
@pytest.mark.parametrize(("text", "sizes"), [
    (edited(DUAL, ("K = 130", "K = 136")), {}), (BATCHED, {"L": 3}),
], ids=["dual", "batched"])  # fmt: skip
def test_other_kernels_agree_with_the_reference(text: str, sizes):
    program = parse_pipeline("descriptors").run(parse(text))
    for found, expected in outputs_of_both(program, "jit", sizes=sizes):
        gap = (found.double() - expected.double()).abs()
        assert (gap <= allowed_difference(found, expected)).all()


# --- which kernel a launch takes


@pytest.mark.parametrize(("pad", "offset", "call"), [
    (0, 0, "_DescribedCall"), (8, 8, "_DescribedCall"), (1, 0, "_Call"), (0, 1, "_Call"),
])  # fmt: skip
def test_any_view_is_taken(pad: int, offset: int, call: str):
    m, n, k = 200, 136, 264
    kernel = jit(gemm(None, None, None, "f16", tile=TILE), "descriptors")
    whole = normal((offset + m * (k + pad),), torch.float16, 3, device="cuda")
    a = whole.as_strided((m, k), (k + pad, 1), offset)
    b, c = normal((k, n), torch.float16, 4, device="cuda"), guarded((m, n), device="cuda")
    for _ in range(2):
        kernel(a, b, c.tensor)
    check_product(c, a, b)
    assert calls_of(kernel) == [call if HAS_DESCRIPTORS else "_Call"]


def test_no_panel_gives_zeros():
    kernel = jit(gemm(None, None, None, "f16", tile=TILE), "descriptors")
    a, b = operands(40, 24, 0)
    c = guarded((40, 24), device="cuda")
    kernel(a, b, c.tensor)
    check_product(c, a, b)
    assert calls_of(kernel) == ["_Call"]


# --- what is kept between launches


def test_other_tensors_are_not_mistaken_for_those_of_an_earlier_launch():
    m, n, k = 200, 136, 264
    kernel = jit(gemm(m, n, k, "f16", tile=TILE), "descriptors")
    sets = [operands(m, n, k, seed=10 * i) for i in range(4)]
    for _ in range(3):
        for a, b in itertools.product([s[0] for s in sets], [s[1] for s in sets]):
            c = guarded((m, n), device="cuda")
            kernel(a, b, c.tensor)
            check_product(c, a, b)


def test_memory_that_is_freed_and_used_again_in_another_shape_is_described_anew():
    kernel = jit(gemm(None, None, None, "f16", tile=TILE), "descriptors")
    starts = set()
    for m, n, k in [(200, 136, 264), (264, 136, 200), (136, 264, 200), (200, 136, 264)] * 3:
        a, b = operands(m, n, k)
        starts.add(a.data_ptr())
        c = guarded((m, n), device="cuda")
        kernel(a, b, c.tensor)
        check_product(c, a, b)
        del a, b, c
    assert len(starts) < 12


@only_with_descriptors
def test_more_addresses_than_are_kept():
    m = n = k = 64
    kernel = jit(gemm(m, n, k, "f16", tile=(64, 64, 64)), "descriptors")
    a, b = operands(m, n, k)
    outputs = torch.full((600, m, n), float("nan"), device="cuda")
    for c in outputs:
        kernel(a, b, c)
    kernel(a, b, outputs[0])
    assert torch.equal(outputs, outputs[:1].expand_as(outputs))
    (plan,) = kernel.namespace._plans.values()
    assert len(plan.calls[0].kept) <= 256


@only_with_descriptors
def test_a_later_launch_encodes_nothing(monkeypatch):
    kernel = jit(gemm(256, 256, 256, "f16", tile=TILE), "descriptors")
    (a, b), c = operands(256, 256, 256), torch.empty(256, 256, device="cuda")
    for _ in range(2):
        kernel(a, b, c)
    monkeypatch.setattr(kernel.namespace, "_described", None)
    c.fill_(float("nan"))
    kernel(a, b, c)
    assert torch.isfinite(c).all()
    with pytest.raises(TypeError):  # the control: other addresses are encoded
        kernel(a.clone(), b, c)


def test_a_graph_replays_with_new_values():
    m, n, k = 200, 136, 264
    kernel = jit(gemm(m, n, k, "f16", tile=TILE), "stream-k{units=5},descriptors")
    (a, b), c = operands(m, n, k), torch.empty(m, n, device="cuda")
    kernel(a, b, c)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, c)
    for seed in (20, 30):
        for old, new in zip((a, b), operands(m, n, k, seed=seed), strict=True):
            old.copy_(new)
        c.fill_(float("nan"))
        graph.replay()
        expected = torch.empty_like(c)
        kernel(a, b, expected)
        assert torch.equal(c, expected)


def test_two_streams_have_the_results_of_one():
    m, n, k = 512, 512, 2048
    kernel = jit(gemm(m, n, k, "f16", tile=TILE), "stream-k{units=30},descriptors")
    sets = [operands(m, n, k, seed=10 * i) for i in range(2)]
    expected = [torch.empty(m, n, device="cuda") for _ in sets]
    for (a, b), c in zip(sets, expected, strict=True):
        kernel(a, b, c)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in sets]
    found = [[torch.empty(m, n, device="cuda") for _ in range(8)] for _ in sets]
    torch.cuda.synchronize()
    for i in range(8):
        for stream, (a, b), outputs in zip(streams, sets, found, strict=True):
            with torch.cuda.stream(stream):
                kernel(a, b, outputs[i])
    torch.cuda.synchronize()
    for one, outputs in zip(expected, found, strict=True):
        assert all(torch.equal(one, c) for c in outputs)
