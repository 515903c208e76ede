"""Programs and edits of them: which rules of the verifier each edit breaks, if any."""

from typing import NamedTuple

from tests.support.nests import GEMM_NEST
from tests.support.stream_k_texts import LAST_ARRIVER, STREAM_K
from tests.support.texts import GEMM, MAX_ROWS, edited

EWISE = """\
kernel @rows(X: f16[M, N], bias: f32[N], flags: i32[N], out Y: f32[M, N])
    where M = 64, N = 32, BM = 16 {
  grid (ti) in [ceildiv(M, BM)] {
    alloc x: register f16[BM, N]
    alloc y: register f32[BM, N]
    alloc row: register f32[BM]
    alloc b: register f32[N]
    alloc n: register i32[N]
    load x, X[ti * BM +: BM, 0 +: N]
    load b, bias[0 +: N]
    load n, flags[0 +: N]
    ewise n = max(n + 2, 0)
    ewise y = cast(f32, x) + expand(b, 0) * cast(f32, expand(n, 0))
    ewise row = sum(y, 1)
    ewise y = y / expand(row, 1)
    store Y[ti * BM +: BM, 0 +: N], y
  }
}
"""

ARGMAX = """\
kernel @argmax(X: f32[M, K], out Y: f32[M], out Z: f32[M])
    where M = 64, K = 32, BM = 16 {
  grid (ti) in [ceildiv(M, BM)] {
    alloc top: register f32[BM]
    alloc total: register f32[BM]
    alloc run: register f32[BM]
    alloc x: register f32[BM]
    alloc t: register f32[BM]
    fill top, -inf
    fill total, 0
    fill run, 0
    reduce (total: add, run: scan) {
      for k in 0 .. K {
        load x, X[ti * BM +: BM, k]
        ewise t = x * 2
        ewise total = total + t
        ewise run = run * 0.5 + x
        store Y[ti * BM +: BM], run
      }
    }
    store Z[ti * BM +: BM], total
  }
}
"""


#: partial tiles in fragment order
ORDERED = edited(LAST_ARRIVER, ("f32[UNITS, BM, BN]", "f32[UNITS, BM, BN] fragment_order"))

#: a scalar that depends on an accumulator, by way of memory, beside one that does not
CONDITIONAL = edited(
    ARGMAX,
    ("out Y: f32[M]", "inout F: i32[16], out Y: f32[M]"),
    ("    fill top", "    alloc mark: register i32[BM]\n    fill top"),
    (
        "        ewise total = total + t\n",
        "        ewise mark = cast(i32, run)\n        store F[0 +: BM], mark\n"
        "        let f = F[0]\n        if k == 0 {\n          ewise total = total + t\n        }\n",
    ),
)


class Case(NamedTuple):
    """The complete set of codes that one edit of an accepted program causes."""

    codes: str
    base: str
    old: str
    new: str


#: what a mask keeps may depend on an accumulator, by way of memory
MASKED = edited(
    CONDITIONAL, ("ewise total = total + t", "ewise total = total + mask(t, 0, k, BM, 0)")
)

#: every access through a descriptor
DESCRIBED = (
    GEMM.replace("BK] masked", "BK] masked descriptor")
    .replace("BN] masked", "BN] masked descriptor")
    .replace("acc masked", "acc masked descriptor")
)

CASES = [
    # parallel bands
    Case("V11", GEMM_NEST, "    alloc acc", "    parallel z in 0 .. 2 {\n    }\n    alloc acc"),
    Case("V11", GEMM_NEST, "parallel j in 0 .. N {", "let z = i\nparallel j in 0 .. N {"),
    Case("V11 V37", GEMM_NEST, "for k in 0 .. K {", "parallel k in 0 .. K {"),
    Case("V11", GEMM_NEST, "parallel i in 0 .. M {", "grid (i) in [M] {"),
    Case("V11", GEMM_NEST, "parallel i in 0 .. M {", "for i in 0 .. M {"),
    Case("V11", GEMM_NEST, "parallel j in 0 .. N {", "grid (j) in [N] {"),
    Case("V13", GEMM_NEST, "parallel i in 0 .. M {", "parallel i in 0 .. M step M - 5 {"),
    Case("V03", GEMM_NEST, "parallel i in 0 .. M {", "parallel i in 0 .. k {"),
    # tiles of one element
    Case("V33", GEMM_NEST, "cast(f32, b)", "expand(cast(f32, b), 0)"),
    Case("V33", GEMM_NEST, "cast(f32, b)", "sum(cast(f32, b), 0)"),
    Case("V33", GEMM_NEST, "cast(f32, b)", "mask(cast(f32, b), 0, k, K, 0)"),
    Case("V23", GEMM_NEST, "load a, A[i, k]", "load a, A[i, k +: 1]"),
    Case("V38", GEMM_NEST, "alloc acc: local", "alloc acc: shared"),
    Case("V31", GEMM_NEST, "load b, B[k, j]", "load b, B[k, j]\ndot acc, a, b"),
    # descriptors
    Case("V41", DESCRIBED, "B: f16[K, N]", "B: f16[K, N] contiguous(none)"),
    Case("V41", DESCRIBED, "tj * BN +: BN] masked", "tj * BN + 1 +: BN] masked"),
    Case("V41", DESCRIBED, "BK] masked descriptor", "BK] masked else 1 descriptor"),
    Case("V41", DESCRIBED, "BK = 16", "BK = 4"),
    Case(
        "V41",
        DESCRIBED,
        "A[ti * BM +: BM, kp * BK +: BK]",
        "A[m, k] over (m = ti * BM +: BM < M - 1, k = kp * BK +: BK)",
    ),
    Case(
        "V41",
        DESCRIBED,
        "    store C[ti * BM +: BM, tj * BN +: BN], acc masked descriptor\n",
        "wave w in 0 .. 1 {\nstore C[ti * BM +: BM, tj * BN +: BN], acc masked descriptor\n}\n",
    ),
    Case(
        "V42",
        edited(DESCRIBED, ("out C", "inout C")),
        "fill acc, 0",
        "load acc, C[ti * BM +: BM, tj * BN +: BN] masked",
    ),
    # slots in fragment order
    Case("V43", ORDERED, "f32[UNITS, BM, BN]", "f32[UNITS, BM, 8]"),
    Case("V26 V43", ORDERED, "f32[UNITS, BM, BN]", "f64[UNITS, BM, BN]"),
    Case("V43", ORDERED, "BM = 32", "BM = 8"),
    Case("V43", ORDERED, "+ s, 0 +: BM, 0 +: BN], acc", "+ s, 8 +: BM, 0 +: BN], acc"),
    Case("V43", ORDERED, "+ s, 0 +: BM, 0 +: BN], acc", "+ s, 0 +: BM, s * 8 +: BN], acc"),
    Case("V43", ORDERED, "+ s, 0 +: BM, 0 +: BN], acc", "+ s, 0 +: BM, 0 +: BN], acc masked"),
    Case(
        "V43",
        ORDERED,
        "slots[tile * S + i, 0 +: BM, 0 +: BN]",
        "slots[tile * S + i, n, m] over (m = 0 +: BM, n = 0 +: BN)",
    ),
    Case(
        "V43",
        ORDERED,
        "ewise sum = sum + part",
        "wave z in 0 .. 1 {\nload part, slots[0, 0 +: BM, 0 +: BN]\n}\newise sum = sum + part",
    ),
    Case("V43", ORDERED, "count: i32[TILES]", "count: i32[TILES] fragment_order"),
    # names
    Case(
        "V02",
        GEMM,
        "alloc b: shared f16[BK, BN]",
        "alloc b: shared f16[BK, BN]\nalloc b: shared f16[BK, BN]",
    ),
    Case("V02", GEMM, "    fill acc, 0", "    let P = 3\n    fill acc, 0"),
    Case("V02", GEMM, "for kp in 0 .. P {", "for kp in 0 .. P {\nlet ti = 0"),
    Case("V02", GEMM, "BK = 16,", "BK = 16, BK = 16,"),
    Case("V02", GEMM, "B: f16[K, N]", "B: f16[K, N], B: f16[K, N]"),
    Case("V02 V19 V25", LAST_ARRIVER, "order: i32[TILES]", "count: i32[TILES], order: i32[TILES]"),
    Case(
        "V02",
        LAST_ARRIVER,
        "C[m, n] over (m = ti * BM +: BM < M",
        "C[tile, n] over (tile = ti * BM +: BM < M",
    ),
    Case(
        "V02",
        LAST_ARRIVER,
        "C[m, n] over (m = ti * BM +: BM < M, n =",
        "C[m, m] over (m = ti * BM +: BM < M, m =",
    ),
    Case("V03", GEMM, "C[ti * BM", "C[kp * BM"),
    Case("V03", GEMM, "fill acc, 0", "fill acd, 0\nfill acc, 0"),
    Case("V03", GEMM, "fill acc, 0", "fill A, 0\nfill acc, 0"),
    Case("V03 V39", GEMM, "in 0 .. P", "in acc .. P"),
    Case("V03", GEMM, "    alloc acc", "    let x = y\n    let y = 1\n    alloc acc"),
    Case("V03", GEMM, "    alloc acc", "    let x = x\n    alloc acc"),
    Case("V03", GEMM, "A: f16[M, K]", "A: f16[ti, K]"),
    Case("V03", GEMM, "reduce (acc: add)", "reduce (acc: add, top: max)"),
    Case("V03", LAST_ARRIVER, "store D", "barrier\n}\nif s == 0 {\nstore D"),
    Case("V03", LAST_ARRIVER, "m = ti * BM +: BM < M", "m = ti * BM +: BM < m"),
    Case("V03", LAST_ARRIVER, "let s = unit % S", "let s = unit % S + 0 * n + n"),
    Case("V03", LAST_ARRIVER, "f32[UNITS, BM, BN]", "f32[tile, BM, BN]"),
    Case("V04", GEMM, "  }\n}\n", "  }\n}\n\nkernel @gemm() {\n  grid (t) in [1] {\n  }\n}\n"),
    # header
    Case("V05", GEMM, "A: f16[M, K]", "A: f16[M, K] contiguous(2)"),
    Case("V05", GEMM, "A: f16[M, K]", "Z: f16[4, 2 - 3], A: f16[M, K]"),
    Case("V06", LAST_ARRIVER, "alias(A, B)", "alias(A, A)"),
    Case("V06", LAST_ARRIVER, "alias(A, B)", "alias(A, slots)"),
    Case("V07", GEMM, "where M = 96,", "where Q = P, M = 96,"),
    Case("V07", GEMM, "where M = 96,", "where Q = Q + 1, M = 96,"),
    Case("V07", GEMM, "where M = 96,", "where Q = ti, M = 96,"),
    Case("V08", GEMM, "where M = 96,", "where Q = 3 - 4, M = 96,"),
    Case(
        "V08", GEMM, "where M = 96,", "where Q = 9223372036854775807, R = Q * Q, T = R * R, M = 96,"
    ),
    Case("V08", GEMM, "where M = 96,", "where Q = 0, R = 5 % Q, M = 96,"),
    Case("V08", GEMM, "fill acc, 0", "let q = ti // (BM - 32)\nfill acc, 0"),
    Case("V10", STREAM_K, "zeroed(C)", "zeroed(C), zeroed(A)"),
    Case("V10", STREAM_K, "zeroed(C)", "zeroed(C), zeroed(tile)"),
    Case("V10", STREAM_K, "zeroed(C)", "zeroed(C), at_most(UNITS, TOTAL)"),
    Case("V10", STREAM_K, "zeroed(C)", "zeroed(C), at_most(Q, TOTAL)"),
    Case(
        "V10",
        edited(STREAM_K, (",\n        UNITS = 132", "")),
        "zeroed(C)",
        "zeroed(C), at_most(UNITS, tile)",
    ),
    Case(
        "V10",
        edited(STREAM_K, (",\n        UNITS = 132", "")),
        "zeroed(C)",
        "zeroed(C), at_most(UNITS, UNITS)",
    ),
    # structure
    Case(
        "V11",
        GEMM,
        "  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {",
        "  let ti = 0\n  let tj = 0\n  if ti == 0 {",
    ),
    Case("V11", GEMM, "  grid (ti, tj)", "  grid (t) in [1] {\n  }\n  grid (ti, tj)"),
    Case("V11", GEMM, "    fill acc, 0", "    grid (t) in [1] {\n    }\n    fill acc, 0"),
    Case(
        "V11", GEMM, "    fill acc, 0", "    grid1d (t) in [1] persistent {\n    }\n    fill acc, 0"
    ),
    Case("V12", GEMM, "ceildiv(N, BN)] {", "ceildiv(N, BN)] order grouped(0) {"),
    Case("V12", MAX_ROWS, "ceildiv(M, BM)] {", "ceildiv(M, BM)] order grouped(2) {"),
    Case("V13", LAST_ARRIVER, "for i in 0 .. S", "for i in 0 .. S step 1 - 1"),
    Case("V13", LAST_ARRIVER, "for i in 0 .. S", "for i in 0 .. S step tile"),
    Case("V14", LAST_ARRIVER, "wave w in 0 .. 4", "wave w in 0 .. tile"),
    Case("V15", LAST_ARRIVER, "wave w in 0 .. 4 {", "wave w in 0 .. 4 {\nbarrier"),
    Case(
        "V15",
        LAST_ARRIVER,
        "wave w in 0 .. 4 {",
        "wave w in 0 .. 4 {\nif w == 0 {\narrive again, count[tile], 2\n}",
    ),
    Case("V16", STREAM_K, "set it =", "set tile ="),
    Case("V16", STREAM_K, "set it =", "set nothing ="),
    Case("V16", STREAM_K, "set it = tile * P + k1", "set it = it_end\nset TOTAL = 3"),
    Case("V16", STREAM_K, "    while it < it_end {", "    set it = 0\n    while it < it_end {"),
    Case(
        "V16",
        STREAM_K,
        "while it < it_end",
        "while not (it < it_end and UNITS < 4) {\nset UNITS = 3\n}\nwhile it < it_end",
    ),
    Case(
        "V16",
        STREAM_K,
        "      set it = tile * P + k1",
        "wave w in 0 .. 2 {\nset it = tile * P + k1\n}",
    ),
    Case("V17", LAST_ARRIVER, "if last {", "if lost or last {"),
    Case("V17", LAST_ARRIVER, "if last {", "if last and not tile {"),
    # memory
    Case("V19 V25", LAST_ARRIVER, "count[tile]", "order[tile]"),
    Case("V19", LAST_ARRIVER, "count[tile]", "nothing[tile]"),
    Case("V19", LAST_ARRIVER, "count: i32[TILES]", "count: f32[TILES]"),
    Case("V19", LAST_ARRIVER, "count[tile]", "count[tile, 0]"),
    Case("V19", LAST_ARRIVER, "count[tile], S", "count[tile], S - 2"),
    Case("V20", LAST_ARRIVER, "order: i32", "order: f32"),
    Case("V20", LAST_ARRIVER, "order[unit // S]", "order[unit // S, 0]"),
    Case("V20", LAST_ARRIVER, "order[unit // S]", "other[unit // S]"),
    Case("V21", GEMM, "alloc a: shared f16[BM, BK]", "alloc a: shared f16[BM, Q]"),
    Case("V21", GEMM, "alloc a: shared f16[BM, BK]", "alloc a: shared f16[BM, BK - 16]"),
    Case("V22", GEMM, "coop_load a, A", "coop_load a, D"),
    Case("V22 V39", GEMM, "coop_load a, A", "coop_load a, acc"),
    Case("V22", GEMM, "A[ti * BM", "A[0, ti * BM"),
    Case("V23", GEMM, "A[ti * BM +: BM, kp * BK +: BK]", "A[ti * BM +: BM, kp * BK +: BM]"),
    Case("V23", GEMM, "A[ti * BM +: BM, kp * BK +: BK]", "A[ti * BM +: BM, kp]"),
    Case("V23", GEMM, "A[ti * BM +: BM, kp * BK +: BK]", "A[ti * BM +: BM, kp * BK +: kp]"),
    Case("V24", LAST_ARRIVER, "C[m, n] over", "C[m, 0] over"),
    Case("V25", GEMM, "out C", "C"),
    Case("V25", GEMM, "A: f16[M, K]", "out A: f16[M, K]"),
    Case(
        "V25",
        edited(LAST_ARRIVER, ("order: i32", "inout order: i32")),
        "inout order: i32",
        "out order: i32",
    ),
    Case("V26", GEMM, "B: f16[K, N]", "B: bf16[K, N]"),
    Case("V26", GEMM, "C: f32", "C: f64"),
    Case("V27", STREAM_K, "    requires zeroed(C) {", " {"),
    Case("V28", STREAM_K, "atomic add", "atomic argmax"),
    Case("V28", STREAM_K, "atomic add", "atomic sub"),
    Case("V28", STREAM_K, "atomic add", "atomic or"),
    Case("V29", EWISE, "load n, flags[0 +: N]", "load n, flags[0 +: N] masked else inf"),
    Case("V29", EWISE, "load n, flags[0 +: N]", "load n, flags[0 +: N] masked else 0.5"),
    Case("V29", EWISE, "load n, flags[0 +: N]", "fill n, 2147483648"),
    Case("V29", EWISE, "load x, X[ti * BM +: BM, 0 +: N]", "fill x, 70000"),
    Case("V30", LAST_ARRIVER, "alloc a: shared", "alloc a: fragment"),
    Case("V30", LAST_ARRIVER, "alloc part: register", "alloc part: fragment"),
    # compute
    Case("V31 V23", GEMM, "alloc b: shared f16[BK, BN]", "alloc b: shared f16[BN, BN]"),
    Case("V31 V23", GEMM, "alloc acc: register f32[BM, BN]", "alloc acc: register f32[BM]"),
    Case("V31", edited(GEMM, ("BN = 32", "BN = 16")), "dot acc, a, b", "dot acc, b, a"),
    Case("V32 V26", GEMM, "alloc b: shared f16", "alloc b: shared bf16"),
    Case("V32 V26", GEMM, "alloc acc: register f32", "alloc acc: register f64"),
    Case("V32", GEMM, "dot acc, a, b", "dot acc, a, b tf32"),
    Case("V33", EWISE, "expand(b, 0)", "expand(b, 1)"),
    Case("V33", EWISE, "expand(b, 0)", "b"),
    Case("V33", EWISE, "expand(b, 0)", "expand(b, 2)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(y, 0)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(y, 2)"),
    Case("V33", EWISE, "sum(y, 1)", "expand(sum(y, 1), 0)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(mask(y, 2, ti, N, 0), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(mask(1, 0, ti, N, 0) * y, 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 2, 0, 1), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 1, 2, 2), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 1, 0, 3), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 1, 0, 0), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 1, 0, 1024), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "sum(part(y, 0, 0, 2), 1)"),
    Case("V33", EWISE, "sum(y, 1)", "part(2, 0, 0, 1) + sum(y, 1)"),
    Case("V33", EWISE, "alloc row: register f32[BM]", "alloc row: register f32[]"),
    Case("V03", EWISE, "sum(y, 1)", "sum(mask(y, 1, row, N, 0), 1)"),
    Case("V03", EWISE, "sum(y, 1)", "sum(mask(y, 1, 0, X, 0), 1)"),
    Case("V08", EWISE, "sum(y, 1)", "sum(mask(y, 1, ti // (N - 32), N, 0), 1)"),
    Case("V34", EWISE, "cast(f32, x) +", "x +"),
    Case("V34", EWISE, "ewise row = sum(y, 1)", "ewise row = cast(f64, sum(y, 1))"),
    Case("V34", EWISE, "cast(f32, x) +", "cast(f32, x * 2) +"),
    Case("V34", EWISE, "sum(y, 1)", "cast(f32, sum(x, 1))"),
    Case("V34", EWISE, "max(n + 2, 0)", "n / 2"),
    Case("V34", EWISE, "max(n + 2, 0)", "exp(n)"),
    Case("V34", EWISE, "y / expand(row, 1)", "or(y, y)"),
    Case("V34", EWISE, "max(n + 2, 0)", "mask(cast(i64, n), 0, ti, N, 0)"),
    Case("V34", EWISE, "sum(y, 1)", "sum(part(x, 1, 0, 2), 1)"),
    Case("V34", EWISE, "sum(y, 1)", "reduce_or(y, 1)"),
    Case("V34", EWISE, "sum(y, 1)", "cast(f32, prod(x, 1))"),
    Case("V35", EWISE, "max(n + 2, 0)", "mask(n, 0, ti, N, 0.5)"),
    Case("V35", EWISE, "max(n + 2, 0)", "mask(n, 0, ti, N, 2147483648)"),
    Case("V35", EWISE, "sum(y, 1)", "sum(mask(y, 1, ti, N, 1e39), 1)"),
    Case("V35", EWISE, "sum(y, 1)", "sum(cast(f32, mask(x, 1, ti, N, 65505)), 1)"),
    Case("V35", EWISE, "max(n + 2, 0)", "part(n + 2.5, 0, 0, 1)"),
    Case("V35", EWISE, "max(n + 2, 0)", "n + 2.5"),
    Case("V35", EWISE, "max(n + 2, 0)", "min(n, inf)"),
    Case("V35", EWISE, "y / expand(row, 1)", "y + cast(f32, cast(f16, 65505))"),
    Case("V36", GEMM, "coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked", "barrier"),
    Case(
        "V36",
        EWISE,
        "load b, bias[0 +: N]",
        "store Y[ti * BM +: BM, 0 +: N], y\nload b, bias[0 +: N]",
    ),
    Case("V36", LAST_ARRIVER, "fill sum, 0", "barrier"),
    Case("V36", GEMM_NEST, "fill acc, 0", "if i < 3 {\newise b = a\n}\nfill acc, 0"),
    # reduce
    Case("V37", GEMM, "reduce (acc: add) {", "reduce (acc: add) {\nbarrier"),
    Case("V37", GEMM, "for kp in 0 .. P {", "for kp in 0 .. P step 2 {"),
    Case("V37", GEMM, "for kp in 0 .. P {", "wave w in 0 .. P {\n}\nfor kp in 0 .. P {"),
    Case(
        "V37 V38",
        GEMM,
        "for kp in 0 .. P {",
        "for kp in 0 .. P {\nalloc c: register f32[1]\nreduce (c: add) {\nfor kq in 0 .. P {\n}\n}",
    ),
    Case("V38", GEMM, "    fill acc, 0\n", ""),
    Case("V38", GEMM, "alloc acc: register", "alloc acc: shared"),
    Case("V38", GEMM, "reduce (acc: add)", "reduce (acc: add, acc: add)"),
    Case("V38", STREAM_K, "      fill acc, 0\n", ""),
    Case("V39", GEMM, "reduce (acc: add)", "reduce (acc: max)"),
    Case("V39", GEMM, "reduce (acc: add)", "reduce (acc: sub)"),
    Case("V39", MAX_ROWS, "reduce (top: max)", "reduce (top: add)"),
    Case(
        "V39",
        edited(
            MAX_ROWS,
            ("reduce (top: max)", "reduce (top: sub)"),
            ("max(top, amax(x, 1))", "top - amax(x, 1)"),
        ),
        "top - amax(x, 1)",
        "amax(x, 1) - top",
    ),
    Case("V39", MAX_ROWS, "max(top, amax(x, 1))", "max(amax(x, 1), max(top, 0))"),
    Case("V39", MAX_ROWS, "max(top, amax(x, 1))", "max(top, top)"),
    Case("V39", MAX_ROWS, "max(top, amax(x, 1))", "max(top, amax(x + expand(top, 1), 1))"),
    Case("V39", MAX_ROWS, "max(top, amax(x, 1))", "amax(x, 1)"),
    Case("V39", MAX_ROWS, "ewise top = max(top, amax(x, 1))", "if kp == 0 {\nfill top, -inf\n}"),
    Case("V39", GEMM, "dot acc, a, b\n", "dot acc, a, b\nif kp == 1 {\newise acc = acc * 0.5\n}\n"),
    Case(
        "V39",
        GEMM,
        "dot acc, a, b\n",
        "dot acc, a, b\nstore C[ti * BM +: BM, tj * BN +: BN], acc masked\n",
    ),
    Case(
        "V25 V39", MAX_ROWS, "coop_load x, X", "load top, Y[ti * BM +: BM] masked\ncoop_load x, X"
    ),
    Case("V39", CONDITIONAL, "if k == 0", "if f == 0"),
    Case("V39", MASKED, "mask(t, 0, k, BM, 0)", "mask(t, 0, f, BM, 0)"),
    Case("V39", MASKED, "mask(t, 0, k, BM, 0)", "mask(t, 0, k, f + 1, 0)"),
    Case("V39", MASKED, "mask(t, 0, k, BM, 0)", "mask(total, 0, k, BM, 0)"),
    Case("V39", MASKED, "total + mask(t, 0, k, BM, 0)", "mask(total + t, 0, k, BM, 0)"),
    Case("V39", ARGMAX, "ewise t = x * 2", "ewise t = total * 2"),
    Case("V39", ARGMAX, "ewise t = x * 2", "ewise t = run * 2"),
    Case("V39", ARGMAX, "ewise total = total + t", "ewise total = total + run"),
    Case("V39", ARGMAX, "ewise total = total + t", "ewise total = total - t"),
    Case(
        "V39",
        edited(ARGMAX, ("out Y", "inout Y")),
        "load x, X[ti * BM +: BM, k]",
        "load x, Y[ti * BM +: BM]",
    ),
]

#: (base, old, new): edits that look like a violation and are none
ACCEPTED = [
    (GEMM, "    alloc acc", "    let x = QUEUE\n    alloc acc"),
    (GEMM, "where M = 96, N = 80, K = 100,", "where"),
    (GEMM, "BM = 32, BN = 32, BK = 16,", "BM = 32, BN = BM, BK = BM // 2,"),
    (GEMM, "where M = 96,", "where Q = LAUNCHED - 1, M = 96,"),
    (GEMM, "A: f16[M, K]", "A: f16[M, K] contiguous(none)"),
    (GEMM, "A: f16[M, K]", "A: f16[M, K] contiguous(0)"),
    (GEMM, "ceildiv(N, BN)] {", "ceildiv(N, BN)] order grouped(8) {"),
    (GEMM, "for kp in 0 .. P {", "for kp in QUEUE .. 2 * P step BK // 16 {"),
    (GEMM, "dot acc, a, b", "if kp > 0 {\ndot acc, a, b\n}"),
    (GEMM, "dot acc, a, b", "wave w in 0 .. 4 {\ndot acc, a, b\n}"),
    (GEMM, "dot acc, a, b", "dot acc, a, b\newise acc = acc + 1"),
    (GEMM, "dot acc, a, b", "dot acc, a, b\newise acc = 1 + acc"),
    (GEMM, "fill acc, 0", "fill acc, 3.5e3\newise acc = 0"),
    (GEMM, "coop_load b", "load b"),
    (
        STREAM_K,
        "UNITS = 132\n    requires zeroed(C)",
        "Q = 1\n    requires zeroed(C), at_most(UNITS, TOTAL)",
    ),
    (GEMM, "out C", "inout C"),
    (edited(STREAM_K, ("M = 1536", "M = 0")), "UNITS = 132", "UNITS = min(132, TOTAL)"),
    (
        edited(STREAM_K, ("M = 1536, N = 1792", "N = 0"), ("TOTAL = TM *", "TOTAL =")),
        "TN * P,\n        UNITS = 132",
        "TN * P * TM,\n        UNITS = min(132, TOTAL)",
    ),
    (STREAM_K, "atomic add", "atomic max"),
    (
        STREAM_K,
        "set it = tile * P + k1",
        "if k1 > 0 {\nset it = tile * P + k1\n} else {\nset it = it_end\n}",
    ),
    (STREAM_K, "while it < it_end", "while not (it >= it_end or it < 0)"),
    (LAST_ARRIVER, "for i in 0 .. S", "for i in 0 .. S step S"),
    (LAST_ARRIVER, "if last {", "if last and not (tile < 0 or last) {"),
    (LAST_ARRIVER, "alloc acc: fragment", "alloc acc: register"),
    (LAST_ARRIVER, "ewise sum = sum + part", "ewise sum = sum + part * acc"),
    (MAX_ROWS, "max(top, amax(x, 1))", "max(amax(x, 1), top)"),
    (MAX_ROWS, "max(top, amax(x, 1))", "max(top, max(amax(x, 1), 0))"),
    (MAX_ROWS, "fill top, -inf", "if ti == 0 {\nfill top, -inf\n}"),
    (EWISE, "sum(y, 1)", "sum(y, 1) * sum(sum(y, 1), 0)"),
    (EWISE, "sum(y, 1)", "sum(sum(y, 1), 0)"),
    (EWISE, "sum(y, 1)", "prod(mask(y, 1, ti - 3, Q + 1, -inf), 1)"),
    (EWISE, "sum(y, 1)", "sum(part(y, 1, 1, 2) - part(y, 1, 0, 2), 1)"),
    (EWISE, "sum(y, 1)", "part(sum(part(y, 1, 0, 2), 1), 0, 0, 1)"),
    (EWISE, "y / expand(row, 1)", "expand(row, 1)"),
    (EWISE, "max(n + 2, 0)", "mask(n, 0, 0, ti, -2147483648)"),
    (EWISE, "max(n + 2, 0)", "reduce_and(expand(n, 0), 0)"),
    (MASKED, "mask(t, 0, k, BM, 0)", "mask(t, 0, k - BM, ti + 1, 0)"),
    (ARGMAX, "total + t", "total + mask(t, 0, k, BM, 0)"),
    (GEMM_NEST, "alloc acc: local", "alloc acc: register"),
    (GEMM_NEST, "parallel i in 0 .. M {", "parallel i in 1 .. M step 2 {"),
    (GEMM_NEST, "store C[i, j], acc", "ewise acc = 1\nstore C[i, j], acc"),
    (EWISE, "max(n + 2, 0)", "or(and(n, 7), 1)"),
    (EWISE, "y / expand(row, 1)", "exp(2) * y"),
    (EWISE, "load x, X", "fill x, 65504\nload x, X"),
    (ARGMAX, "run * 0.5 + x", "run * 0.5 + total"),
]

LATE_READ = """\
kernel @late(X: f32[8], out Y: f32[8]) {
  grid (t) in [1] {
    alloc x: register f32[8]
    for i in 0 .. 4 {
      if i > 0 {
        store Y[0 +: 8], x
      }
      load x, X[0 +: 8]
    }
  }
}
"""

NESTED_BANDS = """\
kernel @bands(X: f32[8, 8], out Y: f32[8, 8]) {
  grid (b) in [8] {
    grid (t) in [8] {
      alloc x: register f32[1]
      load x, X[b, t +: 1]
      store Y[b, t +: 1], x
    }
  }
}
"""

BASES = {
    "gemm nest": GEMM_NEST,
    "descriptors": DESCRIBED,
    "gemm": GEMM,
    "max rows": MAX_ROWS,
    "stream-k": STREAM_K,
    "last arriver": LAST_ARRIVER,
    "ewise": EWISE,
    "argmax": ARGMAX,
    "late read": LATE_READ,
    "nested bands": NESTED_BANDS,
}
