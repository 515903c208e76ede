"""Small kernels for tests of the merges, each with something that a merge must get right."""
# ruff: noqa: E501  a header of the IR is one line

from tests.support.texts import edited

#: everything an epilogue may do: two outputs, one rounded to bf16 after bias, gelu and residual, one updated in place; 18 panels, the last cut short
EPILOGUE = """\
kernel @epilogue(A: bf16[M, K], B: bf16[K, N], bias: f32[N], R: bf16[M, N], inout C: f32[M, N], out H: bf16[M, N])
    where M = 5, N = 7, K = 35, BM = 4, BN = 4, BK = 2, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc a: shared bf16[BM, BK]
    alloc b: shared bf16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    alloc row: register f32[BN]
    alloc rest: register bf16[BM, BN]
    alloc x: register f32[BM, BN]
    alloc h: register bf16[BM, BN]
    load row, bias[tj * BN +: BN] masked
    load rest, R[ti * BM +: BM, tj * BN +: BN] masked
    ewise x = acc / 64 + expand(row, 0)
    ewise h = cast(bf16, x * 0.5 * (1 + erf(x * 0.7071067811865476)) + cast(f32, rest))
    store H[ti * BM +: BM, tj * BN +: BN], h masked
    alloc old: register f32[BM, BN]
    load old, C[ti * BM +: BM, tj * BN +: BN] masked
    ewise old = acc * 2 + old * 3
    store C[ti * BM +: BM, tj * BN +: BN], old masked
  }
}
"""

#: rows of a sum, panel by panel: what each part is, a loop in numpy can tell
ROWS = """\
kernel @rows(X: f32[M, K], out Y: f32[M])
    where M = 8, K = 12, BM = 8, P = max(1, K) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc total: register f32[BM]
    alloc x: register f32[BM]
    fill total, 0
    reduce (total: add) {
      for kp in 0 .. P {
        load x, X[ti * BM +: BM, kp] masked
        ewise total = total + x
      }
    }
    store Y[ti * BM +: BM], total masked
  }
}
"""

BOOLS = """\
kernel @bools(X: bool[M, K], out A: bool[M], out O: bool[M])
    where M = 7, K = 4, BM = 4, P = max(1, K) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc all: register bool[BM]
    alloc any: register bool[BM]
    alloc x: register bool[BM]
    fill all, 1
    fill any, 0
    reduce (all: and, any: or) {
      for kp in 0 .. P {
        load x, X[ti * BM +: BM, kp] masked
        ewise all = and(all, x)
        ewise any = or(any, x)
      }
    }
    store A[ti * BM +: BM], all masked
    store O[ti * BM +: BM], any masked
  }
}
"""

#: a sum and a maximum of one pass, both used by the epilogue, which stores a third time
TWO = edited(
    ROWS,
    ("@rows(X: f32[M, K], out Y: f32[M])", "@two(X: f32[M, K], out Y: f32[M], out Z: f32[M], out E: f32[M])"),
    ("M = 8, K = 12, BM = 8", "M = 7, K = 4, BM = 4"),
    ("    alloc x", "    alloc top: register f32[BM]\n    alloc x"),
    ("    reduce (total: add)", "    fill top, -inf\n    reduce (total: add, top: max)"),
    ("        ewise total", "        ewise top = max(top, x)\n        ewise total"),
    ("], total masked\n", "], total masked\n    store Z[ti * BM +: BM], top masked\n"
     "    ewise top = top * 2 + total\n    store E[ti * BM +: BM], top masked\n"),
)  # fmt: skip

#: a product in two tiles, small enough for every schedule of a few blocks
PAIR = edited(
    EPILOGUE,
    ("M = 5, N = 7, K = 35, BM = 4, BN = 4, BK = 2", "M = 2, N = 3, K = 8, BM = 2, BN = 2, BK = 2"),
)
