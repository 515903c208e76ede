"""Nests that no pass has tiled yet, and kernels whose expressions mask what no panel has."""

#: C = A @ B, element by element
GEMM_NEST = """\
kernel @gemm(A: bf16[M, K], B: bf16[K, N], out C: f32[M, N])
    where M = 5, N = 6, K = 7 {
  parallel i in 0 .. M {
    parallel j in 0 .. N {
      alloc acc: local f32[]
      alloc a: local bf16[]
      alloc b: local bf16[]
      fill acc, 0
      reduce (acc: add) {
        for k in 0 .. K {
          load a, A[i, k]
          load b, B[k, j]
          ewise acc = acc + cast(f32, a) * cast(f32, b)
        }
      }
      store C[i, j], acc
    }
  }
}
"""

#: the sum of x + 1 over each row: beyond the row's end a contribution would be 1, not 0
MASKED_ROWS = """\
kernel @rows(X: f32[M, K], out Y: f32[M])
    where M = 10, K = 22, BM = 4, BK = 8, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc acc: register f32[BM]
    alloc x: register f32[BM, BK]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        load x, X[ti * BM +: BM, kp * BK +: BK] masked
        ewise acc = acc + sum(mask(x + 1, 1, kp * BK, K, 0), 1)
      }
    }
    store Y[ti * BM +: BM], acc masked
  }
}
"""
