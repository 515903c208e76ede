"""Data-parallel splits no tile, so that what a merge could not take is accepted: any epilogue, any
operator, fragments, any type; nothing is zeroed."""

import pytest

from loopir.nodes import Zeroed
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify
from passes.pipeline import parse_pipeline
from passes.stream_k import Decomposition, Merge, StreamKPass
from tests.support.differential import difference, known
from tests.support.kernels import BATCHED, DUAL, IN_PLACE, ROW_MAX, SIZES
from tests.support.texts import GEMM, MAX_ROWS, edited

STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
COUNTED = """\
workspace count: i32[1]

kernel @total(X: f32[M, K], inout Y: f32[M], out Z: f32[M])
    where M = 23, K = 12, BM = 4, BK = 4, P = max(1, ceildiv(K, BK)), TILES = ceildiv(M, BM) {
  grid (ti) in [TILES] {
    alloc s: register f32[BM]
    alloc x: shared f32[BM, BK]
    alloc last_tile: register f32[BM]
    fill s, 0
    reduce (s: add) {
      for kp in 0 .. P {
        load x, X[ti * BM +: BM, kp * BK +: BK] masked
        ewise s = s + sum(x, 1)
      }
    }
    store Y[ti * BM +: BM], s masked
    arrive last, count[0], TILES
    if last {
      for i in 0 .. TILES {
        load last_tile, Y[i * BM +: BM] masked
        ewise last_tile = last_tile * 2
        store Z[i * BM +: BM], last_tile masked
      }
    }
  }
}
"""
#: each is refused by an atomic merge
TAKEN = {
    "epilogue and a second type": DUAL,
    "max": MAX_ROWS,
    "max of rows": ROW_MAX,
    "in place": IN_PLACE,
    "fragment": GEMM.replace("acc: register", "acc: fragment"),
    "stored twice": edited(GEMM, (STORE, STORE + STORE)),
    "stored by some": edited(GEMM, (STORE, f"    if ti > 0 {{\n{STORE}    }}\n")),
    "starts at one": edited(GEMM, ("fill acc, 0", "fill acc, 1")),
    "the last block doubles": COUNTED,
    "i8 sums": edited(
        MAX_ROWS.replace("f32", "i8"), ("top: max", "top: add"), ("fill top, -inf", "fill top, 0"),
        (" else -inf", ""), ("max(top, amax(x, 1))", "top + sum(x, 1)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_an_atomic_merge_refuses_is_whole_in_units(name: str):
    program = parse(TAKEN[name])
    sizes = known(program, SIZES)
    atomic = StreamKPass(units=3, launch_constants=True, merge=Merge.ATOMIC)
    assert not atomic.can_be_applied(program)
    for units in (None, 1, 3, 100):
        made = StreamKPass(
            decomposition=Decomposition.DATA_PARALLEL, units=units, launch_constants=bool(sizes)
        )
        after = made.apply(program)
        verify(after)
        assert parse(to_text(after)) == after
        assert difference(program, after, sizes, seed=1, schedules=3) == ""
        assert not any(isinstance(r, Zeroed) for r in after.kernels[0].requires)
        assert dict(made.report(made.match(program)))["merge"] == "none: no tile is split"  # pyright: ignore


@pytest.mark.parametrize("units", ["", " units=2"])
@pytest.mark.parametrize("text", [BATCHED, GEMM], ids=["batched", "gemm"])
def test_a_plain_product_is_taken_with_every_order(text: str, units: str):
    program = parse(text)
    for order in ("along_n", "along_m", "group=2"):
        pipeline = f"tile-order{{{order}}},stream-k{{decomposition=data-parallel{units}"
        pipeline += " launch-constants=true}"
        after = parse_pipeline(pipeline).run(program)
        assert difference(program, after, known(program, SIZES), seed=2) == ""


@pytest.mark.parametrize("whole", ["units=4", "permuted=true", ""])
def test_fragments_may_be_made_before_or_after(whole: str):
    tile = f"stream-k{{decomposition=data-parallel {whole}}}"
    first, second = (
        parse_pipeline(p).run(parse(GEMM)) for p in (f"mma-expand,{tile}", f"{tile},mma-expand")
    )
    assert "fragment" in to_text(first)
    assert difference(parse(GEMM), first, {}, seed=3) == ""
    assert first == second


def test_a_tile_that_waits_for_no_other_is_all_there_is():
    """Control: without the last block's share, Z is not written."""
    program = parse(COUNTED)
    after = to_text(StreamKPass(decomposition=Decomposition.DATA_PARALLEL, units=2).apply(program))
    broken = parse(after.replace("count[0], TILES", "count[0], TILES + 1"))
    assert difference(program, broken, {}, seed=4) != ""
