"""Kernels with wave loops that are whole-tile operations."""
# ruff: noqa: E501  a header of the IR is one line

#: a wave loop around everything: rows of the tile, the right operand shared by all
GEMM_ROWS = """\
kernel @rows(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 100, N = 72, K = 70, BM = 64, BN = 32, BK = 16, WM = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc b: shared f16[BK, BN]
    wave w in 0 .. BM // WM {
      alloc acc: register f32[WM, BN]
      alloc a: shared f16[WM, BK]
      fill acc, 0
      reduce (acc: add) {
        for kp in 0 .. P {
          load a, A[ti * BM + w * WM +: WM, kp * BK +: BK] masked
          coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
          dot acc, a, b
        }
      }
      store C[ti * BM + w * WM +: WM, tj * BN +: BN], acc masked
    }
  }
}
"""

#: the same, collapsed
GEMM_ROWS_WHOLE = """\
kernel @rows(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 100, N = 72, K = 70, BM = 64, BN = 32, BK = 16, WM = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc b: shared f16[BK, BN]
    alloc acc: register f32[4 * WM, BN]
    alloc a: shared f16[4 * WM, BK]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        load a, A[ti * BM +: 4 * WM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        dot acc, a, b
      }
    }
    store C[ti * BM +: 4 * WM, tj * BN +: BN], acc masked
  }
}
"""

#: two nested wave loops, rows and columns, with lets in them and steps other than one
GEMM_BLOCKS = """\
kernel @blocks(A: bf16[M, K], B: bf16[K, N], out C: f32[M, N], out T: f32[N, M])
    where M = 60, N = 72, K = 70, BM = 32, BN = 32, BK = 16, W = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    wave wm in 1 .. 3 {
      let row0 = ti * BM - W
      let row = row0 + wm * W
      wave wn in 0 .. BN step W {
        let col = tj * BN + wn
        alloc acc: register f32[W, W]
        alloc a: shared bf16[W, BK]
        alloc b: shared bf16[BK, W]
        fill acc, 0
        reduce (acc: add) {
          for kp in 0 .. P {
            load a, A[row +: W, kp * BK +: BK] masked
            load b, B[kp * BK +: BK, col +: W] masked
            dot acc, a, b
          }
        }
        store C[row +: W, col +: W], acc masked
        store T[n, m] over (m = row +: W < M, n = col +: W < N), acc masked
      }
    }
  }
}
"""

#: a wave loop around the epilogue only: bias, activation, cast, in parts of the columns
EPILOGUE = """\
kernel @epilogue(A: f16[M, K], B: f16[K, N], D: f32[M, N], bias: f32[N], out C: f32[M, N], out E: bf16[M, N])
    where M = 100, N = 72, K = 70, BM = 32, BN = 32, BK = 16, WN = 8, P = max(1, ceildiv(K, BK)) {
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
    wave v in 0 .. 4 {
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
    }
    alloc scale: register f32[BM]
    ewise scale = sum(acc, 1)
    wave w in 0 .. BN // WN {
      alloc d: register f32[BM, WN]
      alloc v1: register f32[WN]
      alloc two: register f32[BM, WN]
      alloc e: register bf16[BM, WN]
      load d, D[ti * BM +: BM, tj * BN + w * WN +: WN] masked
      load v1, bias[tj * BN + w * WN +: WN] masked
      fill two, 2
      ewise d = max(d * two + expand(v1, 0), 0) + expand(scale, 1)
      ewise e = cast(bf16, d)
      store E[ti * BM +: BM, tj * BN + w * WN +: WN], e masked
    }
  }
}
"""

#: load, ewise and sum along the axis that the waves do not split, in both directions
SUMS = """\
kernel @sums(X: f32[M, N], out R: f32[M], out C: f32[N], out H: f32[M])
    where M = 96, N = 64, BM = 32, WM = 8, WN = 16 {
  grid (t) in [ceildiv(M, BM)] {
    wave w in 0 .. 4 {
      alloc x: register f32[WM, N]
      alloc r: register f32[WM]
      alloc h: register f32[WM]
      load x, X[t * BM + w * WM +: WM, 0 +: N]
      ewise r = sum(x * 2 + 1, 1)
      ewise h = amax(x - expand(r, 1), 1)
      store R[t * BM + w * WM +: WM], r
      if t > 0 {
        store H[t * BM + w * WM +: WM], h
      } else {
        store H[t * BM + w * WM +: WM], r
      }
    }
    if t == 1 {
      wave w2 in 0 .. N // WN {
        alloc y: register f32[BM, WN]
        alloc c: register f32[WN]
        load y, X[0 +: BM, w2 * WN +: WN]
        ewise c = sum(y, 0)
        store C[w2 * WN +: WN], c
      }
    }
  }
}
"""

#: general accesses: a product of output positions split among waves, written by quotient and remainder
CONV = """\
kernel @conv(X: f32[H, W], F: f32[R, S], out Y: f32[OH, OW])
    where H = 13, W = 11, R = 3, S = 3, OH = 7, OW = 6, BM = 64, WM = 16, BK = 16 {
  grid (t) in [ceildiv(OH * OW, BM)] {
    alloc f: register f32[BK]
    load f, F[k // S, k % S] over (k = 0 +: BK < R * S) masked
    wave w in 0 .. BM // WM {
      alloc x: register f32[WM, BK]
      alloc y: register f32[WM]
      load x, X[m // OW * 2 + k // S - 1, m % OW * 2 + k % S - 1] over (m = t * BM + w * WM +: WM < OH * OW, k = 0 +: BK < R * S) masked
      ewise y = sum(x * expand(f, 0), 1)
      store Y[m // OW, m % OW] over (m = t * BM + w * WM +: WM < OH * OW), y masked
    }
  }
}
"""

#: what is read where it is written, a loop and a variable inside the waves, rows one by one
IN_PLACE = """\
kernel @in_place(order: i32[4], X: f32[M, N], inout Z: f32[M, N], inout Q: f32[M, N])
    where M = 64, N = 32, BM = 16 {
  grid (t) in [4] {
    let u = order[t]
    wave w in 0 .. BM {
      alloc x: register f32[1, N]
      alloc z: register f32[1, N]
      alloc s: register f32[1, N]
      load z, Z[u * BM + w +: 1, 0 +: N]
      fill s, 0
      for i in 0 .. 3 {
        let col = i * 8
        load x, X[(u + i) % 4 * BM + w +: 1, 0 +: N]
        ewise s = s + x * 2
        let j = 0
        while j < i {
          ewise s = s + 1
          set j = j + 1
        }
      }
      ewise z = z - s
      store Z[u * BM + w +: 1, 0 +: N], z
      load x, Z[u * BM + w +: 1, 0 +: N]
      ewise x = x * x
      store Z[u * BM + w +: 1, 0 +: N], x
      atomic add Q[u * BM + w +: 1, 0 +: N], x
    }
  }
}
"""

#: one wave: its number may stand anywhere
ONE_WAVE = """\
kernel @one(X: f32[4, N], out Y: f32[4, N])
    where N = 32 {
  grid (t) in [2] {
    alloc x: register f32[2, N]
    wave w in 1 .. 2 {
      let row = t * 2 // w
      load x, X[m * w, n] over (m = row +: 2, n = 0 +: N < N * w) masked else -1
      if w == 1 {
        ewise x = x + 1
      }
      store Y[row +: 2, 0 +: N], x
    }
  }
}
"""

NAMES = ("GEMM_ROWS", "GEMM_BLOCKS", "EPILOGUE", "SUMS", "CONV", "IN_PLACE", "ONE_WAVE")


def text(name: str) -> str:
    return globals()[name]
