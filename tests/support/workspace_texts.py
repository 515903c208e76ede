"""Programs whose blocks meet in workspaces, as merges write them: slots and counters, sums in
place, a second kernel. `resized` gives them other sizes."""

from tests.support.stream_k_texts import LAST_ARRIVER
from tests.support.texts import edited

#: An unaligned walk: a unit's first or last tile may be shared; the last arriver folds its slots.
STREAM_K = """\
workspace partials: f32[SLOTS, BM, BN]
workspace arrivals: i32[TILES]

kernel @gemm(A: bf16[M, K], B: bf16[K, N], bias: f32[N], out C: bf16[M, N])
    where M = 40, N = 50, K = 90, BM = 16, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)),
        TN = ceildiv(N, BN), TILES = ceildiv(M, BM) * TN, TOTAL = TILES * P, UNITS = 5,
        SLOTS = 2 * UNITS {
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
      alloc a: shared bf16[BM, BK]
      alloc b: shared bf16[BK, BN]
      alloc row: register f32[BN]
      alloc result: register bf16[BM, BN]
      fill acc, 0
      reduce (acc: add) {
        for kp in k0 .. k1 {
          coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
          coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
          barrier
          dot acc, a, b
          barrier
        }
      }
      if k0 == 0 and k1 == P {
        load row, bias[tj * BN +: BN] masked
        ewise result = cast(bf16, max(acc + expand(row, 0), 0))
        store C[ti * BM +: BM, tj * BN +: BN], result masked
      } else {
        let first = ((tile * P + 1) * UNITS - 1) // TOTAL
        let parts = ((tile + 1) * P * UNITS - 1) // TOTAL - first + 1
        store partials[2 * first + 1 + unit - first, 0 +: BM, 0 +: BN], acc
        arrive last, arrivals[tile], parts
        if last {
          alloc acc_1: register f32[BM, BN]
          alloc part: register f32[BM, BN]
          fill acc_1, 0
          for s in 0 .. parts {
            load part, partials[2 * first + 1 + s, 0 +: BM, 0 +: BN]
            ewise acc_1 = acc_1 + part
          }
          load row, bias[tj * BN +: BN] masked
          ewise result = cast(bf16, max(acc_1 + expand(row, 0), 0))
          store C[ti * BM +: BM, tj * BN +: BN], result masked
        }
      }
      set it = tile * P + k1
    }
  }
}
"""

#: The same for any size, of as many units as the launcher picks.
PICKED = edited(
    STREAM_K,
    ("M = 40, N = 50, K = 90, BM", "BM"),
    ("UNITS = 5,\n        ", ""),
    ("SLOTS = 2 * UNITS {", "SLOTS = 2 * UNITS\n    requires at_most(UNITS, TOTAL) {"),
)

#: A table says which block takes which unit.
PERMUTED = edited(
    STREAM_K,
    ("bias: f32[N], out", "bias: f32[N], order: i32[UNITS], out"),
    ("(unit) in", "(block) in"),
    ("    let it = unit", "    let unit = order[block]\n    let it = unit"),
)

#: Exact sums of bytes.
I32 = edited(
    STREAM_K,
    ("partials: f32", "partials: i32"),
    ("A: bf16", "A: i8"),
    ("B: bf16", "B: i8"),
    ("bias: f32", "bias: i32"),
    ("out C: bf16", "out C: i32"),
    ("alloc acc: register f32", "alloc acc: register i32"),
    ("alloc a: shared bf16", "alloc a: shared i8"),
    ("alloc b: shared bf16", "alloc b: shared i8"),
    ("alloc row: register f32", "alloc row: register i32"),
    ("alloc result: register bf16", "alloc result: register i32"),
    ("alloc acc_1: register f32", "alloc acc_1: register i32"),
    ("alloc part: register f32", "alloc part: register i32"),
    ("cast(bf16, max(acc + expand(row, 0), 0))", "max(acc + expand(row, 0), 0)"),
    ("cast(bf16, max(acc_1 + expand(row, 0), 0))", "max(acc_1 + expand(row, 0), 0)"),
    ("BK = 16", "BK = 32"),
)

#: C = 2 * (A @ B) + 3 * C, where C is read once and written once.
IN_PLACE = edited(
    STREAM_K,
    ("bias: f32[N], out C: bf16", "inout C: bf16"),
    ("alloc row: register f32[BN]", "alloc row: register bf16[BM, BN]"),
    (
        "load row, bias[tj * BN +: BN] masked\n        ewise",
        "load row, C[ti * BM +: BM, tj * BN +: BN] masked\n        ewise",
    ),
    (
        "load row, bias[tj * BN +: BN] masked\n          ewise",
        "load row, C[ti * BM +: BM, tj * BN +: BN] masked\n          ewise",
    ),
    ("max(acc + expand(row, 0), 0)", "2 * acc + 3 * cast(f32, row)"),
    ("max(acc_1 + expand(row, 0), 0)", "2 * acc_1 + 3 * cast(f32, row)"),
)

#: An aligned split: unit = tile * S + s, constant trip counts, no whole tile.
SPLIT_K = """\
workspace partials: f32[TILES * S, BM, BN]
workspace arrivals: i32[TILES]

kernel @gemm(A: f16[M, K], B: f16[K, N], bias: f32[N], out C: f16[M, N])
    where M = 40, N = 50, K = 96, BM = 16, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)), S = 3,
        TN = ceildiv(N, BN), TILES = ceildiv(M, BM) * TN {
  grid1d (unit) in [TILES * S] persistent {
    let tile = unit // S
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
    store partials[tile * S + s, 0 +: BM, 0 +: BN], acc
    arrive last, arrivals[tile], S
    if last {
      alloc part: register f32[BM, BN]
      alloc row: register f32[BN]
      alloc result: register f16[BM, BN]
      fill acc, 0
      for q in 0 .. S {
        load part, partials[tile * S + q, 0 +: BM, 0 +: BN]
        ewise acc = acc + part
      }
      load row, bias[tj * BN +: BN] masked
      ewise result = cast(f16, acc + expand(row, 0))
      store C[ti * BM +: BM, tj * BN +: BN], result masked
    }
  }
}
"""

#: The first kernel leaves partial tiles, the second one folds them, a quarter of a tile a block.
FIXUP = """\
workspace partials: f32[TILES * S, BM, BN]

kernel @gemm(A: f16[M, K], B: f16[K, N])
    where M = 40, N = 50, K = 96, BM = 16, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)), S = 3,
        TN = ceildiv(N, BN), TILES = ceildiv(M, BM) * TN {
  grid1d (unit) in [TILES * S] persistent {
    let tile = unit // S
    let s = unit % S
    alloc acc: fragment f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in s * P // S .. (s + 1) * P // S {
        coop_load a, A[tile // TN * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tile % TN * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    store partials[tile * S + s, 0 +: BM, 0 +: BN], acc
  }
}

kernel @gemm_fixup(bias: f32[N], out C: f16[M, N])
    where M = 40, N = 50, BM = 16, BN = 32, BR = 4, S = 3, TN = ceildiv(N, BN) {
  grid (ti, tj, piece) in [ceildiv(M, BM), ceildiv(N, BN), BM // BR] {
    alloc acc: register f32[BR, BN]
    alloc part: register f32[BR, BN]
    alloc row: register f32[BN]
    alloc result: register f16[BR, BN]
    fill acc, 0
    for q in 0 .. S {
      load part, partials[(ti * TN + tj) * S + q, piece * BR +: BR, 0 +: BN]
      ewise acc = acc + part
    }
    load row, bias[tj * BN +: BN] masked
    ewise result = cast(f16, acc + expand(row, 0))
    store C[ti * BM + piece * BR +: BR, tj * BN +: BN], result masked
  }
}
"""

#: Partial tiles are added up where they meet, in any order.
ATOMIC = """\
workspace sums: f32[TILES, BM, BN]
workspace arrivals: i32[TILES]

kernel @gemm(A: f16[M, K], B: f16[K, N], bias: f32[N], out C: f16[M, N])
    where M = 40, N = 50, K = 96, BM = 16, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)), S = 3,
        TN = ceildiv(N, BN), TILES = ceildiv(M, BM) * TN
    requires zeroed(sums) {
  grid1d (unit) in [TILES * S] persistent {
    let tile = unit // S
    let s = unit % S
    alloc acc: register f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in s * P // S .. (s + 1) * P // S {
        coop_load a, A[tile // TN * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tile % TN * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    atomic add sums[tile, 0 +: BM, 0 +: BN], acc
    arrive last, arrivals[tile], S
    if last {
      alloc row: register f32[BN]
      alloc result: register f16[BM, BN]
      load acc, sums[tile, 0 +: BM, 0 +: BN]
      load row, bias[tile % TN * BN +: BN] masked
      ewise result = cast(f16, acc + expand(row, 0))
      store C[tile // TN * BM +: BM, tile % TN * BN +: BN], result masked
    }
  }
}
"""

#: Two sums of one walk over the panels, one of them a maximum, each with a workspace.
TWO = """\
workspace partials: f32[TILES * S, BM, BN]
workspace partials_1: f32[TILES * S, BM]
workspace arrivals: i32[TILES]

kernel @gemm(A: f16[M, K], B: f16[K, N], out C: f32[M, N], out D: f32[M, TN])
    where M = 40, N = 50, K = 96, BM = 16, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)), S = 3,
        TN = ceildiv(N, BN), TILES = ceildiv(M, BM) * TN {
  grid1d (unit) in [TILES * S] persistent {
    let tile = unit // S
    let s = unit % S
    let ti = tile // TN
    let tj = tile % TN
    alloc acc: register f32[BM, BN]
    alloc top: register f32[BM]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    fill top, -inf
    reduce (acc: add, top: max) {
      for kp in s * P // S .. (s + 1) * P // S {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        ewise top = max(top, amax(cast(f32, a), 1))
        barrier
      }
    }
    store partials[tile * S + s, 0 +: BM, 0 +: BN], acc
    store partials_1[tile * S + s, 0 +: BM], top
    arrive last, arrivals[tile], S
    if last {
      alloc part: register f32[BM, BN]
      alloc part_1: register f32[BM]
      fill acc, 0
      fill top, -inf
      for q in 0 .. S {
        load part, partials[tile * S + q, 0 +: BM, 0 +: BN]
        load part_1, partials_1[tile * S + q, 0 +: BM]
        ewise acc = acc + part
        ewise top = max(top, part_1)
      }
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
      store D[m, tj] over (m = ti * BM +: BM < M), top masked
    }
  }
}
"""

#: by name; sizes are small enough for the interpreters
TEXTS = {
    "stream-k": STREAM_K,
    "picked": PICKED,
    "permuted": PERMUTED,
    "i32": I32,
    "in-place": IN_PLACE,
    "split-k": SPLIT_K,
    "fixup": FIXUP,
    "atomic": ATOMIC,
    "two": TWO,
    "last-arriver": LAST_ARRIVER,
}
#: of the names that a text leaves open
SIZES = {"M": 40, "N": 50, "K": 90}
