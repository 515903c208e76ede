"""A nest as a batched matrix product in tiles: what the rules of decomposition are asked about."""

import pytest

from loopir.build import batched_gemm_nest, gemm, gemv_nest
from loopir.parser import parse
from passes.lowering import lower
from passes.stream_k.nest import Nest, find_nest
from passes.stream_k.problem import Problem, problem_of
from tests.support.texts import GEMM, MAX_ROWS, edited
from tests.support.wave_kernels import GEMM_ROWS


def found(program) -> Problem | None:
    nest = find_nest(program)
    assert isinstance(nest, Nest)
    return problem_of(nest)


@pytest.mark.parametrize(
    ("program", "problem", "grid"),
    [
        (
            gemm(1536, 1024, 4096, tile=(128, 256, 64)),
            Problem(1536, 1024, 1, 64, (128, 256), (128 * 256 * 4,)),
            (12, 4, 1),
        ),
        (
            gemm(200, 300, 64, tile=((64, 32), (128, 64), 64)),
            Problem(200, 300, 1, 1, (96, 192), (32768, 16384, 16384, 8192)),
            (3, 2, 1),
        ),
        (
            gemm(20, 300, 64, tile=(16, 64, 64), swapped=True),
            Problem(20, 300, 1, 1, (16, 64), (4096,)),
            (2, 5, 1),
        ),
        (gemm(100, 7, 0), Problem(100, 7, 1, 1, (128, 128), (65536,)), (1, 1, 1)),
        (gemm(0, 7, 1), Problem(0, 7, 1, 1, (128, 128), (65536,)), (0, 1, 1)),
        (gemm(64, 64, 64, "f64"), Problem(64, 64, 1, 1, (128, 128), (131072,)), (1, 1, 1)),
        (parse(GEMM), Problem(96, 80, 1, 7, (32, 32), (4096,)), (3, 3, 1)),
        (parse(MAX_ROWS), Problem(96, 1, 1, 7, (32, 1), (128,)), (3, 1, 1)),
        # four waves of 16 rows
        (parse(GEMM_ROWS), Problem(100, 72, 1, 5, (64, 32), (64 * 32 * 4,)), (2, 3, 1)),
    ],
    ids=["gemm", "pieces", "swapped", "ragged", "empty", "f64", "text", "rows", "waves"],
)
def test_sizes_tiles_and_bytes(program, problem, grid):
    assert found(program) == problem
    assert problem.grid == grid


def test_all_axes_but_the_last_two_are_the_batch():
    problem = found(lower(batched_gemm_nest(3, 100, 80, 64), m=32, n=32, k=16))
    assert problem is not None
    assert problem.grid == (4, 3, 3)
    assert (problem.m, problem.n, problem.batch) == (100, 80, 3)


def test_one_axis_is_rows():
    problem = found(lower(gemv_nest(100, 64), m=32, k=16))
    assert problem is not None
    assert problem.grid == (4, 1, 1)
    assert (problem.tiles, problem.panels, problem.n) == (4, 4, 1)


def test_an_output_of_other_extents_counts_whole_tiles():
    """Two buffers' worth of rows: the extents of the output say nothing of the tiles."""
    text = edited(GEMM, ("ceildiv(M, BM), ceildiv(N, BN)]", "2 * ceildiv(M, BM), ceildiv(N, BN)]"))
    assert found(parse(text)) == Problem(192, 96, 1, 7, (32, 32), (4096,))


@pytest.mark.parametrize("sizes", [(None, 64, 64), (64, None, 64), (64, 64, None)])
def test_a_size_of_the_launch_makes_no_problem(sizes):
    assert found(gemm(*sizes)) is None
