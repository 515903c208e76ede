"""Kernels whose blocks meet through a workspace, and texts that tests break."""

#: Each tile's panels are split in S; the last of S arrivers folds the slots in order.
FOLD = """\
workspace parts: f32[S * TILES, BM, BN]
workspace counts: i32[TILES]

kernel @fold(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 12, N = 20, K = 24, BM = 8, BN = 16, BK = 4, P = max(1, ceildiv(K, BK)),
      TILES = ceildiv(M, BM) * ceildiv(N, BN), S = 3 {
  grid1d (unit) in [S * TILES] persistent {
    let tile = unit // S
    let s = unit % S
    let ti = tile // ceildiv(N, BN)
    let tj = tile % ceildiv(N, BN)
    alloc acc: register f32[BM, BN]
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
    store parts[tile * S + s, 0 +: BM, 0 +: BN], acc
    arrive last, counts[tile], S
    if last {
      alloc part: register f32[BM, BN]
      fill acc, 0
      for q in 0 .. S {
        load part, parts[tile * S + q, 0 +: BM, 0 +: BN]
        ewise acc = acc + part
      }
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
    }
  }
}
"""

#: The same with one tile, whose three units make few enough schedules to try them all.
FOLD_ONE_TILE = FOLD.replace("M = 12, N = 20", "M = 7, N = 15")
