"""What the tiled program looks like."""

import pytest

from loopir.nodes import Alloc, Dot, Ewise, Load, Store
from loopir.parser import parse
from loopir.printer import stmt_text, to_text
from loopir.types import Precision
from loopir.walk import walk_program
from passes.pipeline import parse_pipeline
from passes.tile import TilePass
from tests.support.tile_nests import NESTS, gemm

DOT = TilePass(m=16, n=16, k=32)


def lines(name: str, *kinds: type, tiling: TilePass = DOT) -> list[str]:
    """The statements of some kinds in the tiled nest of that name."""
    if "n=" in str(tiling) and not tiling.can_be_applied(parse(NESTS[name])):
        tiling = TilePass(m=tiling.m, k=tiling.k)
    placed = walk_program(tiling.apply(parse(NESTS[name])))
    return [stmt_text(stmt) for _, stmt in placed if isinstance(stmt, kinds)]


def test_a_gemm():
    assert (
        to_text(TilePass(m=128, n=64, k=32).apply(parse(gemm())))
        == """\
kernel @nest(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where K = 5, M = 5, N = 5, BM = 128, BN = 64, BK = 32, P = max(1, ceildiv(K, BK)) {
  parallel ti in 0 .. ceildiv(M, BM) {
    parallel tj in 0 .. ceildiv(N, BN) {
      alloc acc: local f32[BM, BN]
      alloc a: local f16[BM, BK]
      alloc b: local f16[BK, BN]
      fill acc, 0
      reduce (acc: add) {
        for kp in 0 .. P {
          load a, A[ti * BM +: BM, kp * BK +: BK] masked
          load b, B[kp * BK +: BK, tj * BN +: BN] masked
          dot acc, a, b
        }
      }
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
    }
  }
}
"""
    )


def test_several_indices_of_a_group_are_flattened():
    m, n, k = (
        "m = ti * BM +: BM < B * U * V",
        "n = tj * BN +: BN < D",
        "k = kp * BK +: BK < C * R * S",
    )
    assert lines("convolution", Load, Store) == [
        "load a, X[m // (U * V), k // (R * S), (k // S) % R + 2 * ((m // V) % U) - 1, "
        f"2 * (k % S) + m % V - 1] over ({m}, {k}) masked",
        f"load b2, F[n, k // (R * S), (k // S) % R, k % S] over ({k}, {n}) masked",
        f"store Y[m // (U * V), n, (m // V) % U, m % V] over ({m}, {n}), acc masked",
    ]


def test_what_is_in_another_order_has_the_general_form():
    n, k = "n = tj * BN +: BN < N", "k = kp * BK +: BK < K"
    assert f"load b, B[n, k] over ({k}, {n}) masked" in lines("gemm of B transposed", Load)


def test_a_batch_stays_a_loop():
    text = to_text(DOT.apply(parse(NESTS["batched gemm"])))
    assert "parallel z in 0 .. Z {\n    parallel ti in 0 .. ceildiv(M, BM) {" in text
    assert "load a, A[z, ti * BM +: BM, kp * BK +: BK] masked" in text


def test_what_is_read_from_memory_for_a_batch_stays():
    assert "let u = T[z]" in to_text(DOT.apply(parse(NESTS["batched gemm, batch looked up"])))


@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("gemm of f64", "dot acc, a, b"),
        ("gemm of integers", "dot acc, a, b"),
        ("a computed operand", "dot acc, a, q"),
    ],
)
def test_a_product_of_rows_and_columns_is_a_dot(name: str, update: str):
    assert lines(name, Dot) == [update]


@pytest.mark.parametrize("sizes", [(8, 16, 32), (16, 8, 32), (16, 16, 8)])
def test_a_dot_has_a_least_size(sizes: tuple[int, int, int]):
    assert lines("gemm", Dot, tiling=TilePass(*sizes)) == []


def test_an_operand_that_is_not_zero_beyond_the_end_is_cleared():
    assert lines("operands that are not zero beyond", Ewise, Dot) == [
        "ewise a = mask(a, 1, kp * BK, K, 0)",
        "ewise b = mask(b, 0, kp * BK, K, 0)",
        "dot acc, a, b",
    ]
    assert lines("operands of two uses that are not zero beyond", Dot) == []


@pytest.mark.parametrize(
    ("text", "tiling", "sizes"),
    [
        (gemm(), TilePass(), "BM = 128, BN = 128, BK = 64"),
        (NESTS["min-plus"], TilePass(), "BM = 32, BN = 32, BK = 16"),
        (NESTS["min-plus"], TilePass(m=64), "BM = 64, BN = 32, BK = 16"),
        (gemm(), TilePass(m=8), "BM = 8, BN = 32, BK = 16"),
        (NESTS["gemv"], TilePass(), "BM = 128, BK = 64"),
    ],
    ids=["dot", "no dot", "no dot, a size said", "too small for a dot", "rows"],
)
def test_tiles_whose_panels_are_cubes_are_smaller_unless_said(text, tiling, sizes):
    assert sizes in to_text(tiling.apply(parse(text)))


def test_bytes_need_longer_panels():
    assert lines("gemm of integers", Dot, tiling=TilePass(16, 16, 16)) == []
    assert lines("gemm", Dot, tiling=TilePass(16, 16, 16)) == ["dot acc, a, b"]


def test_a_sum_of_products_of_one_group_is_element_wise():
    update = "ewise acc = acc + sum(cast(f32, a) * expand(cast(f32, b), 0), 1)"
    assert lines("gemv", Ewise) == [update]


def test_a_contribution_that_is_not_the_identity_beyond_the_end_is_masked():
    (update,) = lines("min-plus", Ewise)
    inner = "expand(a, 2) + expand(b, 0)"
    assert update == f"ewise acc = min(acc, amin(mask({inner}, 1, kp * BK, K, inf), 1))"


def test_masks_of_the_nest_may_make_it_the_identity():
    assert lines("min-plus with masks of its own", Ewise) == [
        "ewise acc = min(acc, amin(expand(a, 2) + expand(b, 0), 1))"
    ]


def test_a_bare_load_gives_the_identity_itself():
    assert lines("products of integers", Load, Ewise)[0].endswith("masked else 1")
    assert "mask(" not in " ".join(lines("products of integers", Ewise))


def test_a_load_of_two_uses_keeps_its_own_number():
    load, *_ = lines("sum and maximum", Load)
    assert "else" not in load
    assert "mask(x, 1, kp * BK, K, -inf)" in " ".join(lines("sum and maximum", Ewise))


def test_a_tile_of_several_uses_is_several_tiles():
    assert lines("a tile used for several things", Alloc) == [
        "alloc acc: local f32[BM, BN]",
        "alloc a: local f16[BM]",
        "alloc a_mk: local f16[BM, BK]",
        "alloc a_n: local f16[BN]",
        "alloc b: local f16[BK, BN]",
    ]


def test_names_in_use_are_left_alone():
    text = to_text(TilePass(m=16, n=16, k=16).apply(parse(NESTS["names of the pass"])))
    assert "BK = 3, acc_k = 4, acc_mn = 5, " in text
    assert "BM_1 = 16, BN_1 = 16, BK_1 = 16, P_1 = max(1, ceildiv(K, BK_1))" in text
    assert "load kp, BM[ti * BM_1 +: BM_1, kp_1 * BK_1 +: BK_1] masked" in text


def test_precision_is_said_of_f32():
    text = gemm().replace("f16", "f32").replace("cast(f32, a) * cast(f32, b)", "a * b")
    tiled = TilePass(precision=Precision.TF32X3).apply(parse(text))
    assert "dot acc, a, b tf32x3" in to_text(tiled)


def test_options_have_text():
    assert str(TilePass(m=64, n=32, k=16, precision=Precision.TF32)) == (
        "tile{m=64 n=32 k=16 precision=tf32}"
    )
    assert parse_pipeline("tile{m=64}").passes == (TilePass(m=64),)


def test_the_report_tells_groups_and_ways():
    tiling = TilePass(m=16, n=16, k=32)
    verdict = tiling.can_be_applied(parse(NESTS["batched gemm"]))
    assert dict(tiling.report(verdict.plan)) == {  # pyright: ignore
        "group m": "i < M in tiles of 16",
        "group k": "k < K in tiles of 32",
        "group n": "j < N in tiles of 16",
        "loops": "z",
        "acc": "dot",
    }
