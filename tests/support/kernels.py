"""Programs that no builder makes: what a backend must emit right without having foreseen them."""
# ruff: noqa: E501  a header of the IR is one line

from tests.support.texts import GEMM, edited

#: two accumulators of one reduction, a gated epilogue, a row-major and a transposed output
DUAL = """\
kernel @dual(A: bf16[M, K], B: bf16[K, N], D: bf16[K, N], bias: f32[N], out C: f32[M, N], out T: f16[N, M])
    where M = 100, N = 72, K = 130, BM = 64, BN = 32, BK = 32, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] order grouped(2) {
    alloc acc: register f32[BM, BN]
    alloc gate: register f32[BM, BN]
    alloc a: shared bf16[BM, BK]
    alloc b: shared bf16[BK, BN]
    alloc d: shared bf16[BK, BN]
    fill acc, 0
    fill gate, 0
    reduce (acc: add, gate: add) {
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        coop_load d, D[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        dot gate, a, d
        barrier
      }
    }
    alloc v: register f32[BN]
    load v, bias[tj * BN +: BN] masked
    alloc r: register f32[BM, BN]
    ewise r = max(acc * sigmoid(gate) + expand(v, 0), 0)
    alloc h: register f16[BM, BN]
    ewise h = cast(f16, r)
    store C[ti * BM +: BM, tj * BN +: BN], r masked
    store T[n, m] over (m = ti * BM +: BM, n = tj * BN +: BN), h masked
  }
}
"""

#: max instead of add: the largest entry of each row, masked with the identity
ROW_MAX = """\
kernel @row_max(X: f32[M, K], out Y: f32[M])
    where M = 100, K = 300, BM = 64, BK = 128, P = max(1, ceildiv(K, BK)) {
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

#: a third grid axis: one product a batch, B transposed in memory, strides of all batches known at launch
BATCHED = """\
kernel @batched(A: f16[L, M, K], B: f16[L, K, N] contiguous(1), out C: f32[L, M, N])
    where M = 70, N = 40, K = 96, BM = 64, BN = 32, BK = 32, P = max(1, ceildiv(K, BK)) {
  grid (l, ti, tj) in [L, ceildiv(M, BM), ceildiv(N, BN)] order along_m {
    alloc acc: register f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        coop_load a, A[l, ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[l, kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    store C[l, ti * BM +: BM, tj * BN +: BN], acc masked
  }
}
"""

#: a matrix times a vector without a dot: multiply and sum along an axis
GEMV = """\
kernel @gemv(A: bf16[M, K], x: bf16[K], out y: f32[M])
    where BM = 64, BK = 128, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc acc: register f32[BM]
    alloc a: shared bf16[BM, BK]
    alloc v: shared bf16[BK]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load v, x[kp * BK +: BK] masked
        ewise acc = acc + sum(cast(f32, a) * expand(cast(f32, v), 0), 1)
      }
    }
    store y[ti * BM +: BM], acc masked
  }
}
"""

#: a 3x3 convolution of one channel of stride 2 and padding 1: indices with // and %, negative ones masked
CONV = """\
kernel @conv(X: f32[H, W], F: f32[R, S], out Y: f32[OH, OW])
    where H = 13, W = 11, R = 3, S = 3, OH = 7, OW = 6, BM = 64, BK = 16 {
  grid (t) in [ceildiv(OH * OW, BM)] {
    alloc x: register f32[BM, BK]
    load x, X[m // OW * 2 + k // S - 1, m % OW * 2 + k % S - 1] over (m = t * BM +: BM < OH * OW, k = 0 +: BK < R * S) masked
    alloc f: register f32[BK]
    load f, F[k // S, k % S] over (k = 0 +: BK < R * S) masked
    alloc y: register f32[BM]
    ewise y = sum(x * expand(f, 0), 1)
    store Y[m // OW, m % OW] over (m = t * BM +: BM < OH * OW), y masked
  }
}
"""

#: floor semantics: a numerator that is negative in the first blocks
FLOOR = """\
kernel @floor(X: i32[N], out Y: i32[N])
    where N = 96, BN = 32 {
  grid (t) in [ceildiv(N, BN)] {
    let d = t * 32 - 40
    let q = d // 7
    let r = d % 7
    alloc x: register i32[BN]
    load x, X[(n - 40) % 96] over (n = t * BN +: BN) masked
    if q < 0 - 5 {
      ewise x = x + 100
    } else {
      if r == 3 or not (q == 0 - 2) {
        ewise x = x + 1000
      }
    }
    store Y[t * BN +: BN], x masked
  }
}
"""

#: beta * C in place: an inout output that the epilogue reads where it writes
IN_PLACE = """\
kernel @in_place(A: f32[M, K], B: f32[K, N], inout C: f32[M, N])
    where M = 80, N = 48, K = 64, BM = 64, BN = 32, BK = 32, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc a: shared f32[BM, BK]
    alloc b: shared f32[BK, BN]
    alloc c: register f32[BM, BN]
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
    load c, C[ti * BM +: BM, tj * BN +: BN] masked
    ewise c = acc + c * 2
    barrier
    store C[ti * BM +: BM, tj * BN +: BN], c masked
  }
}
"""

#: rows in an order that a buffer gives, a while loop, a tile that only one branch sets
GATHER = """\
kernel @gather(order: i32[T], X: f32[M, N], out Y: f32[M, N])
    where T = 4, M = 32, N = 16, BM = 8 {
  grid (t) in [T] {
    let u = order[t]
    alloc x: register f32[BM, N]
    let i = 0
    while i < 3 {
      if i == 1 {
        load x, X[u * BM +: BM, 0 +: N] masked
      } else {
        if i == 2 {
          ewise x = x * 2 + 1
        }
      }
      set i = i + 1
    }
    store Y[t * BM +: BM, 0 +: N], x masked
  }
}
"""

#: a loop-carried copy: `previous` is set to `current` before `current` changes
COPY = """\
kernel @copy(X: f32[T, N], out Y: f32[N])
    where T = 5, N = 16 {
  grid (t) in [1] {
    alloc current: register f32[N]
    alloc previous: register f32[N]
    fill current, 0
    ewise previous = current
    for k in 0 .. T {
      ewise previous = current
      load current, X[k, 0 +: N]
    }
    ewise previous = previous * 10 + current
    store Y[0 +: N], previous
  }
}
"""

#: 8-bit integers summed in 32 bits
INT8 = edited(
    GEMM,
    ("@gemm(A: f16[M, K], B: f16[K, N], out C: f32[M, N])",
     "@int8(A: i8[M, K], B: i8[K, N], out C: i32[M, N])"),
    ("M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16",
     "M = 70, N = 40, K = 100, BM = 64, BN = 32, BK = 32"),
    ("register f32", "register i32"),
    ("shared f16[BM", "shared i8[BM"),
    ("shared f16[BK", "shared i8[BK"),
)  # fmt: skip

#: every function of `ewise` on f32 tiles, one output row each
FUNCTIONS = """\
kernel @functions(X: f32[N], Z: f32[N], out Y: f32[16, N])
    where N = 64 {
  grid (t) in [1] {
    alloc x: register f32[N]
    alloc z: register f32[N]
    alloc y: register f32[N]
    load x, X[0 +: N]
    load z, Z[0 +: N]
    ewise y = x + z
    store Y[0, 0 +: N], y
    ewise y = x - z * 2
    store Y[1, 0 +: N], y
    ewise y = x / z
    store Y[2, 0 +: N], y
    ewise y = -(x - z)
    store Y[3, 0 +: N], y
    ewise y = max(x, z)
    store Y[4, 0 +: N], y
    ewise y = min(x, 0.25)
    store Y[5, 0 +: N], y
    ewise y = abs(x)
    store Y[6, 0 +: N], y
    ewise y = exp(x)
    store Y[7, 0 +: N], y
    ewise y = log(abs(x))
    store Y[8, 0 +: N], y
    ewise y = sqrt(abs(x))
    store Y[9, 0 +: N], y
    ewise y = rsqrt(abs(x))
    store Y[10, 0 +: N], y
    ewise y = tanh(x)
    store Y[11, 0 +: N], y
    ewise y = sigmoid(x)
    store Y[12, 0 +: N], y
    ewise y = erf(x)
    store Y[13, 0 +: N], y
    ewise y = cast(f32, cast(i32, x * 8))
    store Y[14, 0 +: N], y
    ewise y = 1 - (x - (z - 3))
    store Y[15, 0 +: N], y
  }
}
"""

#: the kernels above
NAMES = (
    "DUAL",
    "ROW_MAX",
    "BATCHED",
    "GEMV",
    "CONV",
    "FLOOR",
    "IN_PLACE",
    "GATHER",
    "COPY",
    "INT8",
    "FUNCTIONS",
)

#: sizes that some of them leave open
SIZES = {"L": 2, "M": 70, "K": 90}


def text(name: str) -> str:
    return globals()[name]
