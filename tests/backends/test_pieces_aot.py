"""Pieces of an epilogue and fused loops over tiles, as binaries for sm_90 that are compiled without
a GPU: shared memory, spills, what goes through shared memory."""

import re
from collections import Counter

import pytest

from backends.triton_codegen import AotKernel, compile
from loopir.build import Epilogue, gemm
from loopir.errors import CodegenError
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from passes.pipeline import parse_pipeline
from tests.support.documents import page
from tests.support.texts import edited

#: bytes that a block of sm_90 can have
MOST_SHARED = 232448
ROOT = "tile-order{group=8},stream-k{decomposition=data-parallel units=132}"
PARTS = (
    "tile-order{group=8},stream-k{decomposition=k-aligned merge=fixup units=132 min-panels=8"
    " slot-layout=fragments}"
)
TILE = (128, 256, 64)
#: instructions that move what is no operand of a tensor core between threads
EXCHANGES = r"\b(?:STS|STSM|LDS|LDSM|SHFL)\b"


def product(shape=(4096, 4096, 4096), tile=TILE, **options) -> Program:
    return gemm(*shape, "bf16", "bf16", tile, b_layout="col", **options)


def first_kernel(program: Program, pipeline: str, stages: int, warps: int = 8) -> AotKernel:
    made = parse_pipeline(pipeline).run(program)
    found = compile(made, "cuda:90", num_warps=warps, num_stages=stages)
    assert isinstance(found, AotKernel)
    return found


def exchanges(kernel: AotKernel) -> Counter[str]:
    return Counter(re.findall(EXCHANGES, kernel.sass))


@pytest.mark.parametrize("walk", [ROOT, PARTS], ids=["whole tiles", "parts"])
def test_halves_of_columns_make_room_for_a_fourth_stage(walk: str):
    """Control: whole columns leave none."""
    kernel = first_kernel(product(), f"{walk},epilogue-pieces,flatten,descriptors", 4)
    assert kernel.shared_bytes <= MOST_SHARED
    assert kernel.spill_bytes == 0
    assert kernel.warnings == ()
    assert kernel.sass.count("UTMASTG") == 2
    with pytest.raises(CodegenError, match="bytes of shared memory"):
        first_kernel(product(), f"{walk},flatten,descriptors", 4)


def test_the_page_has_the_bytes_of_a_block():
    row = re.compile(r"^\| (whole|`epi[^`]*`).* \| ([\d,]+) \| ([\d,]+)", re.MULTILINE)
    rows = row.findall(page("descriptors.md"))
    assert len(rows) == 3
    for name, *told in rows:
        pieces = "" if name == "whole" else f",{name[1:-1]}"
        pipeline = f"{ROOT}{pieces},flatten,descriptors"
        assert told == [f"{shared_bytes(pipeline, stages):,}" for stages in (3, 4)]


def shared_bytes(pipeline: str, stages: int) -> int:
    try:
        return first_kernel(product(), pipeline, stages).shared_bytes
    except CodegenError as error:
        return int(str(error).partition("needs ")[2].split()[0].replace(",", ""))


def test_the_fold_of_a_last_arriver_takes_the_registers_that_the_page_says():
    walk = f"{PARTS},descriptors".replace("merge=fixup ", "")
    program = product((1925, 4352, 3144))
    found = [first_kernel(program, w, 3).registers for w in (in_pieces(walk), walk)]
    assert "take {}, not {}".format(*found) in page("descriptors.md")


def in_pieces(pipeline: str) -> str:
    return pipeline.replace(",descriptors", ",epilogue-pieces,descriptors")


@pytest.mark.parametrize("count", [2, 4])
def test_a_half_moves_nothing_between_threads(count: int):
    """Control: it does where warps share rows."""
    pieces = f"{ROOT},epilogue-pieces{{columns={count}}},flatten,descriptors"
    whole = first_kernel(product(), f"{ROOT},flatten,descriptors", 3)
    assert exchanges(first_kernel(product(), pieces, 3)) == exchanges(whole)
    shared = product(tile=(64, 256, 64))
    assert exchanges(first_kernel(shared, pieces, 3))["STS"] > 0


EPILOGUES = {
    "bias": Epilogue(bias="bf16"),
    "gelu": Epilogue(bias="bf16", activation="gelu"),
    "in place": Epilogue(beta=0.5),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_in_pieces_spills_nothing(name: str):
    program = product(epilogue=EPILOGUES[name])
    kernel = first_kernel(program, f"{ROOT},epilogue-pieces,flatten,descriptors", 4)
    assert kernel.spill_bytes == 0
    assert kernel.warnings == ()


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(1925, 4352, 3144), (7272, 5416, 1168)], ids=str)
@pytest.mark.parametrize(("tile", "stages"), [(TILE, 4), ((128, 128, 64), 4)], ids=str)
def test_loops_over_parts_of_tiles_are_fused_and_keep_their_stages(shape, tile, stages: int):
    program = product(shape, tile)
    plain = first_kernel(program, f"{PARTS},epilogue-pieces,descriptors", stages)
    fused = first_kernel(program, f"{PARTS},epilogue-pieces,flatten,descriptors", stages)
    assert fused.shared_bytes >= plain.shared_bytes
    for kernel in fused.kernels:
        assert kernel.spill_bytes == 0
        assert kernel.warnings == ()


def test_triton_fuses_no_loops_around_a_scalar_of_a_branch():
    """Why `flatten` moves one: where this compiles, it need not."""
    made = parse_pipeline(f"{PARTS},flatten,descriptors").run(product((1925, 4352, 3144)))
    before = "      let first = max(tile - UNITS * WAVES, 0)\n"
    text = edited(
        to_text(made).replace(f"  {before}", ""), ("      alloc acc:", f"{before}      alloc acc:")
    )
    with pytest.raises(CodegenError, match="Triton cannot compile"):
        compile(parse(text), "cuda:90", num_warps=8)
