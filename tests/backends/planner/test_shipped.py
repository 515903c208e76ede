"""Every configuration that the planner may choose, compiled for the H200 without one: it fits, and
neither spills nor multiplies one product after the other."""

import re
from dataclasses import replace

import pytest

from backends.planner import Config, Kind, Problem, choose, family, shipped
from backends.planner.blocks import shared_bytes
from backends.triton_codegen import AotKernel, compile
from loopir.types import DType

H200 = shipped()["NVIDIA H200"]
#: of which each family of configurations is met at least once
PROBLEMS = (
    Problem(4096, 4096, 4096),
    Problem(1536, 1536, 4096),
    Problem(1408, 768, 8192),
    Problem(128, 128, 16384),
    Problem(512, 512, 16384),
    Problem(1, 4096, 4096),
    Problem(4, 4096, 4096),
    Problem(16, 4096, 4096),
    Problem(64, 2112, 7168),
    Problem(8, 1024, 8192),
    Problem(16, 24576, 1536),
    Problem(16, 4096, 4088),
    Problem(32, 7168, 2048),
    Problem(128, 7168, 16384),
    Problem(256, 256, 32768),
    Problem(4096, 16, 4096),
    Problem(4096, 1, 4096),
    Problem.parse("512x4096x4096 f32->f32"),
    Problem.parse("16x4096x4096 f32->f32"),
)


def kinds() -> dict[str, tuple[Problem, Config]]:
    """One configuration of each tile with each schedule, whatever its numbers."""
    found: dict[str, tuple[Problem, Config]] = {}
    for problem in PROBLEMS:
        for config in family(problem, H200):
            name = re.sub(r"(splits|units|min-panels)=\d+", r"\1", str(config))
            found.setdefault(name, (problem, config))
    return found


WALK = "stream-k{decomposition=data-parallel units=132}"
CHOSEN = {
    str(config): (p, config) for p, config in zip(PROBLEMS, map(choose, PROBLEMS), strict=True)
}
KINDS = kinds()


def compiled(problem: Problem, config: Config) -> AotKernel:
    return compile(config.program(problem), "cuda:90", **config.settings())


def check(problem: Problem, config: Config) -> None:
    for kernel in compiled(problem, config).kernels:
        assert kernel.spill_bytes == 0
        assert kernel.warnings == ()
        assert kernel.shared_bytes <= H200.shared_bytes


@pytest.mark.parametrize("name", CHOSEN, ids=str)
def test_a_choice_neither_spills_nor_waits(name: str):
    check(*CHOSEN[name])


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in KINDS if n not in CHOSEN], ids=str)
def test_no_candidate_spills_or_waits(name: str):
    check(*KINDS[name])


def test_control_a_tile_that_spills_is_found():
    problem = Problem(4096, 4096, 4096)
    with pytest.raises(AssertionError):
        check(problem, Config((128, 256, 32), num_warps=4, num_stages=2))


@pytest.mark.parametrize(
    "text",
    [
        "gemm 128x64x64 w4 s5: tile-order{group=8},descriptors",
        f"gemm 64x64x64 w4 s6: {WALK},descriptors",
        f"gemm 128x256x64 w8 s4: {WALK},epilogue-pieces,descriptors",
        f"gemm 128x(128+128)x64 w8 s4: {WALK},descriptors",
        f"gemm 128x(64+32)x64 w4 s4: {WALK},descriptors",
        "gemm 16x32x128 w4 s8",
    ],
)
def test_shared_memory_is_what_the_planner_counts(text: str):
    problem, config = Problem(4096, 4096, 4096), Config.parse(text)
    counted = shared_bytes(config, problem)
    assert 0 <= compiled(problem, config).shared_bytes - counted < 256


def test_where_all_tiles_are_split_no_stage_makes_room_for_a_store():
    problem = Problem(1792, 1792, 8192)
    walk = "stream-k{merge=fixup decomposition=k-aligned units=132},descriptors"
    config = Config.parse(f"gemm 128x256x64 w8 s4: {walk}")
    counted = shared_bytes(config, problem)
    assert 0 <= compiled(problem, config).kernels[0].shared_bytes - counted < 256
    aligned = [c for c in family(problem, H200) if "k-aligned" in c.pipeline]
    assert config.tile in {c.tile for c in aligned if c.num_stages == 4}
    assert not any("epilogue-pieces" in c.pipeline for c in aligned)


def test_the_family_covers_its_kinds():
    texts = [str(config) for _, config in KINDS.values()]
    for word in ("k-aligned", "data-parallel", "fixup", "workspace", "swapped", "gemv", "(64+128)"):
        assert any(word in text for text in texts), word
    assert any(config.kind is Kind.GEMM and not config.pipeline for _, config in KINDS.values())


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_family_is_small_and_each_member_is_there_once(problem: Problem):
    members = family(problem, H200)
    least = 5 if problem.dtype is DType.F32 else 10  # no tensor cores, few tiles
    assert least < len(members) < 200
    assert len(set(members)) == len(members)


def test_without_rows_at_multiples_of_16_bytes_tiles_move_by_pointers():
    odd = replace(PROBLEMS[0], k=4093)
    assert not any("descriptors" in c.pipeline for c in family(odd, H200))
    assert any("descriptors" in c.pipeline for c in family(replace(odd, k=4096), H200))


@pytest.mark.parametrize(
    ("sides", "word"),
    [
        ((16, 4096, 4096), "evict-first,"),  # one row of tiles
        ((4096, 16, 4096), "evict-first,"),  # one column
        ((256, 256, 32768), "evict-first{shared=true}"),  # all tiles at once
        ((4096, 4096, 4096), ""),  # several turns
        ((16, 4096, 4104), ""),  # rows within sectors
        ((256, 256, 32776), ""),
    ],
)
def test_what_caches_need_not_keep_is_read_so(sides: tuple[int, int, int], word: str):
    pipeline = choose(Problem(*sides)).pipeline
    assert word in pipeline if word else "evict-first" not in pipeline


def test_sectors_are_counted_in_bytes():
    """8 elements of f32 are one sector, of bf16 half of one."""
    assert "evict-first" in choose(Problem.parse("16x4096x4104 f32->f32")).pipeline
    assert "evict-first" not in choose(Problem.parse("16x4096x4100 f32->f32")).pipeline


@pytest.mark.parametrize("field", ["m", "n", "batch"])
def test_an_empty_result_has_no_candidate(field: str):
    assert family(replace(PROBLEMS[0], **{field: 0}), H200) == []


@pytest.mark.parametrize("text", ["2048x2x2048", "4096x4x2048", "2x2048x2048", "5000x3x4096 f32"])
def test_every_gemv_of_few_rows_or_columns_can_be_built(text: str):
    problem = Problem.parse(text)
    vectors = [c for c in family(problem, H200) if c.kind is Kind.GEMV]
    assert vectors
    for config in vectors:
        config.program(problem)


@pytest.mark.parametrize("text", ["1x4096x4096 bf16 row*row", "4096x1x4096 bf16 col*col"])
def test_a_gemv_reads_its_matrix_along_k(text: str):
    """Control: with the other layout of the matrix there are some."""
    problem = Problem.parse(text)
    assert not any(c.kind is Kind.GEMV for c in family(problem, H200))
    turned = replace(problem, a_layout="row", b_layout="col")
    assert any(c.kind is Kind.GEMV for c in family(turned, H200))


@pytest.mark.sampled
@pytest.mark.parametrize("text", ["1x4096x4096 f64", "2x4096x4096 f64", "4x4096x4096 f32"])
def test_no_gemv_of_wide_types_spills(text: str):
    problem = Problem.parse(text)
    vectors = [c for c in family(problem, H200) if c.kind is Kind.GEMV]
    assert vectors
    for config in vectors:
        (kernel,) = compile(config.program(problem), "cuda:90", **config.settings()).kernels
        assert kernel.spill_bytes == 0, str(config)
