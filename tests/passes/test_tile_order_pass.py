"""The pass `tile-order`: what it sets, and all the codes of each program that it refuses."""

import pytest

from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import OrderKind
from loopir.verifier import verify
from passes.pipeline_text import parse_pass
from passes.tile_order import TileOrderPass
from tests.support.refusals import check_accepted, check_refused
from tests.support.texts import GEMM, MAX_ROWS, edited

GRID = "grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)]"
PERSISTENT = """\
kernel @walk(out C: f32[M])
    where M = 64, BM = 16 {
  grid1d (unit) in [4] persistent {
    alloc c: register f32[BM]
    fill c, 0
    store C[unit * BM +: BM], c
  }
}
"""
BATCHED = edited(
    GEMM,
    ("A: f16[M, K], B: f16[K, N], out C: f32[M, N]",
     "A: f16[L, M, K], B: f16[L, K, N], out C: f32[L, M, N]"),
    ("where M = 96", "where L = 3, M = 96"),
    ("grid (ti, tj) in [", "grid (l, ti, tj) in [L, "),
    ("A[ti", "A[l, ti"),
    ("B[kp", "B[l, kp"),
    ("store C[ti", "store C[l, ti"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("tile-order", " order grouped(8)"),
        ("tile-order{group=8}", " order grouped(8)"),
        ("tile-order{group=3}", " order grouped(3)"),
        ("tile-order{group=1}", " order grouped(1)"),
        ("tile-order{along_m}", " order along_m"),
        ("tile-order{along_n}", ""),
    ],
)
def test_the_order_of_the_grid_is_set_and_nothing_else(text, order):
    p = parse_pass(text)
    assert str(p) == text
    assert to_text(p.apply(parse(GEMM))) == edited(GEMM, (GRID, GRID + order))


def test_a_grid_with_more_axes_is_arranged_too():
    after = TileOrderPass(group=2).apply(parse(BATCHED))
    verify(after)
    assert "grid (l, ti, tj) in [L, ceildiv(M, BM), ceildiv(N, BN)] order grouped(2)" in to_text(
        after
    )


def test_a_later_order_replaces_an_earlier_one():
    once = TileOrderPass(order=OrderKind.ALONG_M).apply(parse(GEMM))
    assert TileOrderPass(order=OrderKind.ALONG_N).apply(once) == parse(GEMM)


def test_every_kernel_of_a_program_is_arranged():
    program = parse(GEMM + "\n" + edited(GEMM, ("@gemm", "@second")))
    assert to_text(TileOrderPass().apply(program)).count("order grouped(8)") == 2


REFUSED = [
    (MAX_ROWS, "tile-order", "TO01"),
    (GEMM + "\n" + MAX_ROWS, "tile-order", "TO01"),
    (GEMM, "tile-order{group=0}", "TO02"),
    (GEMM, "tile-order{group=-8}", "TO02"),
    (GEMM, "tile-order{group=8 along_m}", "TO02"),
    (GEMM, "tile-order{group=8 along_n}", "TO02"),
    (PERSISTENT, "tile-order", "TO03"),
    (PERSISTENT, "tile-order{group=0}", "TO02 TO03"),
    (MAX_ROWS + "\n" + PERSISTENT, "tile-order{group=0}", "TO01 TO02 TO03"),
]


@pytest.mark.parametrize(("program", "text", "codes"), REFUSED)
def test_refusals_list_every_failed_criterion(program, text, codes):
    check_refused(parse_pass(text), program, codes)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (edited(MAX_ROWS, ("grid (ti) in [", "grid (ti, one) in ["), ("BM)] {", "BM), 1] {")),
         "tile-order"),
        (GEMM, "tile-order{group=1}"),
        (GEMM, "tile-order{grouped group=8}"),
    ],
)  # fmt: skip
def test_the_accepting_neighbours_are_accepted(program, text):
    check_accepted(parse_pass(text), program)


def test_a_refusal_shows_the_place_with_a_caret_and_a_hint():
    text = TileOrderPass().can_be_applied(parse(MAX_ROWS)).explain()
    assert text.startswith("tile-order: not applicable, 1 reason(s)\n\nTO01: ")
    assert "grid (ti) in [ceildiv(M, BM)] {" in text
    assert "^" in text
    assert "found: a grid of 1 axis" in text
    assert "hint:  leave tile-order out" in text


def test_order_before_stream_k_is_accepted_and_after_it_refused():
    stream_k = parse_pass("stream-k{units=5}")
    ordered = TileOrderPass().apply(parse(GEMM))
    assert stream_k.can_be_applied(ordered)
    persistent = stream_k.apply(parse(GEMM))
    assert TileOrderPass().can_be_applied(persistent).codes == {"TO03"}


def test_the_report_names_the_order():
    for text, label in [("tile-order{group=4}", "grouped(4)"), ("tile-order{along_m}", "along_m")]:
        p = parse_pass(text)
        assert p.report(p.can_be_applied(parse(GEMM)).plan) == (("tile order", label),)
