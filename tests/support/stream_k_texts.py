"""Decomposed kernels as passes write them: an atomic Stream-K walk, a last-arriver fold."""

STREAM_K = """\
kernel @gemm(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 1536, N = 1792, K = 4096, BM = 128, BN = 128, BK = 64,
        P = max(1, ceildiv(K, BK)), TM = ceildiv(M, BM), TN = ceildiv(N, BN), TOTAL = TM * TN * P,
        UNITS = 132
    requires zeroed(C) {
  grid1d (unit) in [UNITS] persistent {
    let it = unit * TOTAL // UNITS
    let it_end = (unit + 1) * TOTAL // UNITS
    while it < it_end {
      let tile = it // P
      let k0 = it % P
      let k1 = min(it_end - tile * P, P)
      let ti = tile // TN
      let tj = tile % TN
      alloc acc: register f32[BM, BN]
      alloc a: shared f16[BM, BK]
      alloc b: shared f16[BK, BN]
      fill acc, 0
      reduce (acc: add) {
        for kp in k0 .. k1 {
          coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
          coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
          dot acc, a, b
        }
      }
      if k0 == 0 and k1 == P {
        store C[ti * BM +: BM, tj * BN +: BN], acc masked
      } else {
        atomic add C[ti * BM +: BM, tj * BN +: BN], acc masked
      }
      set it = tile * P + k1
    }
  }
}
"""

LAST_ARRIVER = """\
workspace slots: f32[UNITS, BM, BN]
workspace count: i32[TILES]

kernel @gemm(A: f16[M, K], B: f16[K, N], order: i32[TILES], out C: f32[M, N], out D: bf16[M, N])
    where M = 96, N = 80, K = 96, BM = 32, BN = 32, BK = 16, P = ceildiv(K, BK), S = 2,
        TM = ceildiv(M, BM), TN = ceildiv(N, BN), TILES = TM * TN, UNITS = TILES * S
    alias(A, B) {
  grid1d (unit) in [UNITS] persistent {
    let tile = order[unit // S]
    let s = unit % S
    let ti = tile // TN
    let tj = tile % TN
    alloc acc: fragment f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in s * P // S .. (s + 1) * P // S {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    store slots[tile * S + s, 0 +: BM, 0 +: BN], acc
    arrive last, count[tile], S
    if last {
      alloc sum: register f32[BM, BN]
      alloc part: register f32[BM, BN]
      alloc half: register bf16[BM, BN]
      fill sum, 0
      for i in 0 .. S {
        load part, slots[tile * S + i, 0 +: BM, 0 +: BN]
        ewise sum = sum + part
      }
      ewise half = cast(bf16, max(sum, 0))
      wave w in 0 .. 4 {
        store C[m, n] over (m = ti * BM +: BM < M, n = tj * BN +: BN < N), sum masked
      }
      store D[ti * BM +: BM, tj * BN +: BN], half masked
    }
  }
}
"""
