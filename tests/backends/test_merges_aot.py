"""A GEMM with bias, relu and a cast under every merge, as a binary for sm_90 that is compiled
without a GPU: registers, spills, tensor cores."""

import re
from pathlib import Path

import pytest

from backends.triton_codegen import AotKernel, compile
from loopir.parser import parse
from loopir.scope import resized
from passes.pipeline import parse_pipeline

GEMM = Path(__file__).parents[2] / "examples" / "gemm_bias.lir"
WALK, SLICES = "merge=workspace units=132", "merge=workspace splits=4"
FIXUP, SUMMED = "merge=fixup units=132", "merge=atomic-workspace units=132"

#: registers of a thread, at most, of the first kernel, by tile (BM, BN, BK) and warps
REGISTERS = {
    ((128, 128, 64), 4): {WALK: 216, SLICES: 200, FIXUP: 248, SUMMED: 255},
    ((128, 128, 64), 8): {WALK: 176, SLICES: 136, FIXUP: 152, SUMMED: 168},
    ((128, 256, 64), 8): {WALK: 255, SLICES: 184, FIXUP: 232, SUMMED: 248},
}
CASES = [(*key, options) for key, found in REGISTERS.items() for options in found]


@pytest.mark.sampled
@pytest.mark.parametrize(("tile", "warps", "options"), CASES, ids=str)
def test_hopper_runs_a_merge_without_spills_or_waiting_for_its_tensor_cores(
    tile: tuple[int, int, int], warps: int, options: str
):
    program = resized(parse(GEMM.read_text()), dict(zip(("BM", "BN", "BK"), tile, strict=True)))
    pipeline = parse_pipeline(f"tile-order{{group=8}},stream-k{{{options}}}")
    first = compile(pipeline.run(program), "cuda:90", num_warps=warps)
    assert isinstance(first, AotKernel)
    assert first.registers <= REGISTERS[tile, warps][options]
    assert first.sass.count("HGMMA") == _products(tile, warps)
    assert len(first.kernels) == (2 if options is FIXUP else 1)
    for kernel in first.kernels:
        assert kernel.spill_bytes == 0
        assert kernel.warnings == ()


def _products(tile: tuple[int, int, int], warps: int) -> int:
    """Of 64 rows and 16 of K, for each group of four warps, in one panel: one loop has them all."""
    m, _, k = tile
    return m // 64 * (k // 16) // (warps // 4)


#: tiles whose warps lie along the rows, and 16-byte stores of a thread for one
FRAGMENTS = {
    ((128, 128), 4): 32,
    ((128, 128), 8): 16,
    ((128, 256), 8): 32,
    ((64, 128), 4): 16,
    ((64, 256), 4): 32,
}


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["fragments", "row"])
@pytest.mark.parametrize(("tile", "warps"), FRAGMENTS, ids=str)
def test_fragments_go_to_their_slots_by_16_bytes_and_not_through_shared_memory(
    tile: tuple[int, int], warps: int, layout: str
):
    """Control: row by row they go through it."""
    program = resized(parse(GEMM.read_text()), dict(zip(("BM", "BN"), tile, strict=True)))
    options = f"stream-k{{merge=fixup splits=4 slot-layout={layout}}}"
    first = compile(parse_pipeline(options).run(program), "cuda:90", num_warps=warps)
    assert isinstance(first, AotKernel)
    stores = re.findall(r"\bSTG\S*", first.sass)
    assert stores == ["STG.E.128"] * FRAGMENTS[tile, warps]
    assert bool(re.search(r"\bSTS|\bLDS\S* R\d", first.sass)) is (layout == "row")
    assert first.spill_bytes == 0


@pytest.mark.parametrize("options", [WALK, SLICES, FIXUP, SUMMED])
@pytest.mark.parametrize(("tile", "warps"), [((128, 128, 64), 4), ((128, 256, 64), 8)], ids=str)
def test_fragments_take_no_more_registers_than_rows(
    tile: tuple[int, int, int], warps: int, options: str
):
    program = resized(parse(GEMM.read_text()), dict(zip(("BM", "BN", "BK"), tile, strict=True)))
    pipeline = parse_pipeline(f"tile-order{{group=8}},stream-k{{{options} slot-layout=fragments}}")
    first = compile(pipeline.run(program), "cuda:90", num_warps=warps)
    assert isinstance(first, AotKernel)
    assert first.registers <= REGISTERS[tile, warps][options]
    for kernel in first.kernels:
        assert kernel.spill_bytes == 0
        assert kernel.warnings == ()
