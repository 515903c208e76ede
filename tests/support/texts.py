"""Program texts that many tests edit."""

GEMM = """\
kernel @gemm(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
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
    store C[ti * BM +: BM, tj * BN +: BN], acc masked
  }
}
"""

MAX_ROWS = """\
kernel @row_max(X: f32[M, K], out Y: f32[M])
    where M = 96, K = 100, BM = 32, BK = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc top: register f32[BM]
    alloc x: shared f32[BM, BK]
    fill top, -inf
    reduce (top: max) {
      for kp in 0 .. P {
        coop_load x, X[ti * BM +: BM, kp * BK +: BK] masked else -inf
        ewise top = max(top, amax(x, 1))
      }
    }
    store Y[ti * BM +: BM], top masked
  }
}
"""


def edited(text: str, *edits: tuple[str, str]) -> str:
    """`text` with each old replaced by new; an old that does not occur exactly once is a mistake of
    the test."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text
