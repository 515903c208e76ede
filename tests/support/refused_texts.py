"""Reductions whose meaning a split of the panel loop would change, in canonical form, each with all
the codes of its refusal."""

from typing import NamedTuple

from tests.support.texts import GEMM, edited


class RefusedText(NamedTuple):
    """`codes`: of stream-k, or of the verifier's rules; `in_slots`: of the merges that neither zero
    nor add, where they are others."""

    text: str
    codes: str
    in_slots: str = ""


PREFIX_SCAN = """\
kernel @prefix_scan(X: f32[M, K], out Y: f32[M, K])
    where M = 96, K = 40, BM = 32 {
  grid (ti) in [ceildiv(M, BM)] {
    alloc run: register f32[BM]
    alloc x: register f32[BM]
    fill run, 0
    reduce (run: scan) {
      for k in 0 .. K {
        load x, X[ti * BM +: BM, k] masked
        ewise run = run + x
        store Y[ti * BM +: BM, k], run masked
      }
    }
  }
}
"""

ARGMAX = """\
kernel @argmax(X: i32[M, K], number: i32[K], out best: i32[M], out place: i32[M])
    where M = 96, K = 40, BM = 32 {
  grid (ti) in [ceildiv(M, BM)] {
    alloc top: register i32[BM]
    alloc at: register i32[BM]
    alloc x: register i32[BM]
    alloc k_now: register i32[]
    alloc is_higher: register i32[BM]
    fill top, -1000000
    fill at, 0
    reduce (top: argmax, at: argmax) {
      for k in 0 .. K {
        load x, X[ti * BM +: BM, k] masked
        load k_now, number[k]
        ewise is_higher = min(max(x - top, 0), 1)
        ewise at = at + is_higher * (k_now - at)
        ewise top = max(top, x)
      }
    }
    store best[ti * BM +: BM], top masked
    store place[ti * BM +: BM], at masked
  }
}
"""

_HEAD, _FILL = "A: f16[M, K], B: f16[K, N], out C: f32[M, N]", "    fill acc, 0\n"
_STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"

RAGGED = edited(
    GEMM,
    (_HEAD, f"{_HEAD[: _HEAD.index('out')]}lengths: i32[3], out C: f32[M, N]"),
    (_FILL, f"{_FILL}    let panels = lengths[ti]\n"),
    ("in 0 .. P {", "in 0 .. panels {"),
)

#: the loss of each tile row is taken from C, which tiles that others compute belong to
FUSED_CONSUMER = edited(
    GEMM,
    (_HEAD, "A: f16[M, K], B: f16[K, N], inout C: f32[M, N], out loss: f32[M]"),
    (
        _STORE,
        f"""{_STORE}    alloc row: register f32[BM, N]
    alloc sums: register f32[BM]
    load row, C[ti * BM +: BM, 0 +: N] masked
    ewise sums = sum(row, 1)
    store loss[ti * BM +: BM], sums masked
""",
    ),
)

BIAS_START = edited(
    GEMM,
    (_HEAD, f"{_HEAD[: _HEAD.index('out')]}bias: f32[N], out C: f32[M, N]"),
    (
        _FILL,
        """    alloc row: register f32[BN]
    load row, bias[tj * BN +: BN] masked
    ewise acc = expand(row, 0)
""",
    ),
)

ALIASED_OUTPUT = edited(
    GEMM,
    (_HEAD, "A: f32[M, K], B: f32[K, N], out C: f32[M, N]"),
    ("a: shared f16", "a: shared f32"),
    ("b: shared f16", "b: shared f32"),
    ("ceildiv(K, BK)) {", "ceildiv(K, BK))\n    alias(A, C) {"),
)

#: refused by `stream-k{merge=atomic units=4}`
BY_STREAM_K = {
    "prefix_scan": RefusedText(PREFIX_SCAN, "SK03 SK07 SK13"),
    "argmax": RefusedText(ARGMAX, "SK03"),
    "ragged_panel_counts": RefusedText(RAGGED, "SK05"),
    "fused_consumer_reads_c": RefusedText(FUSED_CONSUMER, "SK07 SK08 SK13", "SK07"),
    "bias_as_the_start": RefusedText(BIAS_START, "SK12"),
    "output_aliased_with_an_input": RefusedText(ALIASED_OUTPUT, "SK09"),
}

#: the same, labelled as what they are not: refused by the verifier
BY_VERIFIER = {
    "prefix_scan_labelled_add": RefusedText(edited(PREFIX_SCAN, ("run: scan", "run: add")), "V39"),
    "argmax_labelled_max": RefusedText(
        edited(ARGMAX, ("top: argmax, at: argmax", "top: max, at: add")), "V39"
    ),
    "fused_consumer_of_an_out_parameter": RefusedText(
        edited(FUSED_CONSUMER, ("inout C", "out C")), "V25"
    ),
}
