"""What a nest computes, element by element and in tiles, on small integers: the same."""

import itertools

import numpy as np
import pytest

from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import resized
from passes.tile import TilePass
from passes.tile.contributions import Way
from tests.support.tile_nests import NESTS, gemm

TILINGS = (TilePass(m=16, k=32), TilePass(m=4, k=4), TilePass(m=3, k=1), TilePass(m=1, k=5))
SIZES = (
    {},
    {"M": 1, "N": 2, "K": 1, "I": 2, "J": 1, "H": 1, "W": 2},
    {"M": 3, "N": 4, "K": 3, "I": 3, "J": 4, "Z": 2, "H": 4, "W": 3},
    {"M": 17, "N": 3, "K": 9, "I": 4, "J": 3, "Z": 1, "H": 6, "W": 7},
    {"M": 2, "N": 3, "K": 0, "I": 2, "J": 3, "Z": 1, "C": 0},
    {"M": 0, "N": 3, "K": 2, "I": 0, "J": 3, "B": 0, "H": 0},
)


def difference(before: Program, after: Program, arrays: dict[str, np.ndarray]) -> str:
    """The buffers that differ, zeros of either sign being one."""
    copies = {name: array.copy() for name, array in arrays.items()}
    run(before, arrays)
    run(after, copies)
    different = (n for n, a in arrays.items() if not np.array_equal(a, copies[n], equal_nan=True))
    return ", ".join(different)


@pytest.mark.sampled
@pytest.mark.parametrize("text", NESTS.values(), ids=NESTS.keys())
def test_tiles_compute_what_the_elements_did(text: str):
    for n, (sizes, tiling) in enumerate(itertools.product(SIZES, TILINGS)):
        if n % 4 not in (0, n // 4 % 3 + 1):  # two tilings for each sizes
            continue
        program = resized(parse(text), sizes)
        assert difference(program, tiling.apply(program), random_inputs(program, n)) == ""


@pytest.mark.parametrize("k", [0, 1, 3, 4, 5, 8])
def test_every_remainder_of_a_gemm(k: int):
    tiling = TilePass(m=3, n=4, k=4)
    for m, n in itertools.product((0, 1, 2, 3, 4), (1, 3, 4, 5, 9)):
        program = resized(parse(gemm()), {"M": m, "N": n, "K": k})
        assert difference(program, tiling.apply(program), random_inputs(program, m + n)) == ""


def test_tiling_is_done_before_sizes_are_known():
    text = gemm().replace("\n    where K = 5, M = 5, N = 5 {", " {")
    program = parse(text)
    for sizes in ({"M": 3, "N": 5, "K": 7}, {"M": 2, "N": 1, "K": 0}):
        arrays = random_inputs(program, 1, sizes=sizes)
        assert difference(program, TilePass(m=2, n=2, k=3).apply(program), arrays) == ""


@pytest.mark.parametrize("sizes", [{"C": 2, "R": 2, "S": 3}, {"C": 2, "R": 0, "S": 3}])
def test_flattened_extents_that_are_open_may_be_zero(sizes: dict[str, int]):
    text = """
kernel @k(X: f32[M, N, C, R, S], out Y: f32[M, N]) {
  parallel i in 0 .. M {
    parallel j in 0 .. N {
      alloc acc: local f32[]
      alloc x: local f32[]
      fill acc, 1
      reduce (acc: add) {
        for c in 0 .. C {
          for r in 0 .. R {
            for s in 0 .. S {
              load x, X[i, j, c, r, s]
              ewise acc = acc + x
            }
          }
        }
      }
      store Y[i, j], acc
    }
  }
}
"""
    program = parse(text)
    arrays = random_inputs(program, 0, sizes={"M": 3, "N": 2, **sizes})
    assert difference(program, TilePass(m=4, k=5).apply(program), arrays) == ""


def test_extents_that_are_negative_are_empty():
    text = gemm(loops={"k": "K - 2", "r": "K - 3"}, where="K = 1")
    program = parse(text)
    assert (
        difference(program, TilePass(m=4, n=4, k=4).apply(program), random_inputs(program, 0)) == ""
    )


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_poison_beyond_what_the_nest_reads_stays_out(dtype: str):
    text = gemm(params="A: f16[M + 2, K + 3], B: f16[K + 3, N + 1], out C: f32[M, N]")
    program = parse(text.replace("f16", dtype))
    arrays = random_inputs(program, 0)
    arrays["A"][5:] = arrays["A"][:, 5:] = np.nan
    arrays["B"][5:] = arrays["B"][:, 5:] = np.inf
    assert difference(program, TilePass(m=4, n=4, k=4).apply(program), arrays) == ""
    assert np.isfinite(arrays["C"]).all()


def test_poison_of_another_pixel_stays_out_of_a_window():
    program = parse(NESTS["convolution"])
    arrays = random_inputs(program, 0)
    arrays["X"][1, :, 4, 5] = np.nan
    assert difference(program, TilePass(m=4, n=2, k=5).apply(program), arrays) == ""
    assert np.isnan(arrays["Y"]).sum() == 3
    assert np.isnan(arrays["Y"][1, :, 2, 3:]).sum() == 3


def test_nests_show_every_way_to_sum_up():
    plans = [TilePass(m=16, k=32).can_be_applied(parse(text)).plan for text in NESTS.values()]  # pyright: ignore
    assert {c.way for plan in plans for c in plan.contributions.of.values()} == set(Way)


@pytest.mark.parametrize(
    ("old", "new"),
    [("BK +: BK, tj", "BK + 1 +: BK, tj"), ("dot acc, a, b", "dot acc, a, b\n dot acc, a, b")],
)
def test_the_comparison_can_fail(old: str, new: str):
    program = parse(gemm())
    text = to_text(TilePass(m=16, n=16, k=16).apply(program))
    assert old in text
    assert difference(program, parse(text.replace(old, new)), random_inputs(program, 1)) == "C"
