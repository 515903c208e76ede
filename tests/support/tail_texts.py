"""Tails of a tile: what may follow a reduction, and along which axes of the tile it can be cut."""

#: a product of 4 x 8 tiles, whose tail each test writes
HEAD = """\
kernel @tail(A: f32[M, K], B: f32[K, N], R: f32[M, N], bias: f32[N], inout S: f32[M, N], out C: f32[M, N], out T: f32[N, M], out Y: f32[ceildiv(N, BN), M], out Z: f32[ceildiv(M, BM), N])
    where M = 7, N = 13, K = 12, BM = 4, BN = 8, BK = 2, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc a: shared f32[BM, BK]
    alloc b: shared f32[BK, BN]
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
    alloc r: register f32[BM, BN]
    alloc row: register f32[BM]
    alloc column: register f32[BN]
"""  # noqa: E501
STORE = "store C[ti * BM +: BM, tj * BN +: BN], acc masked"


def tail(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + "  }\n}\n"


ROW_SUM = "ewise row = sum(acc, 1)"
BOTH, ROWS_ONLY, COLUMNS_ONLY, NEITHER = (0, 1), (0,), (1,), ()
TAILS = {
    "the accumulator": ((STORE,), BOTH),
    "a row and a column": (
        (
            "load column, bias[tj * BN +: BN] masked",
            "load row, S[ti * BM +: BM, 0] masked",
            "ewise acc = max(acc * expand(row, 1), expand(column, 0))",
            STORE,
        ),
        BOTH,
    ),
    "a tile in between": (("ewise r = acc", "ewise r = r * 2", STORE.replace("acc", "r")), BOTH),
    "a transposed index": (
        ("store T[n, m] over (m = ti * BM +: BM, n = tj * BN +: BN), acc masked",), BOTH),
    "a mask of rows": (("ewise acc = mask(acc, 0, ti * BM, M - 2, 3)", STORE), BOTH),
    "a sum of each row": (
        (ROW_SUM, "ewise acc = acc - expand(row, 1)", STORE), ROWS_ONLY),
    "the largest of each column": (
        ("ewise column = amax(acc, 0)", "ewise acc = acc - expand(column, 0)", STORE),
        COLUMNS_ONLY),
    "sums of rows and of columns": (
        (ROW_SUM, "ewise column = sum(acc, 0)",
         "ewise acc = expand(row, 1) + expand(column, 0)", STORE),
        NEITHER),
    "sums stored apart": (
        (STORE, ROW_SUM, "store Y[tj, ti * BM +: BM], row masked"), ROWS_ONLY),
    "a store of what no row is of": (
        (STORE, "load column, bias[tj * BN +: BN] masked",
         "store Z[ti, tj * BN +: BN], column masked"),
        NEITHER),
    "an output read where it is stored": (
        ("load r, S[ti * BM +: BM, tj * BN +: BN] masked", "ewise r = r * 2 + acc",
         "store S[ti * BM +: BM, tj * BN +: BN], r masked"), BOTH),
    "an output whose rows are summed first": (
        ("load r, S[ti * BM +: BM, tj * BN +: BN] masked", "ewise row = sum(r, 1)",
         "ewise acc = acc + expand(row, 1)", "store S[ti * BM +: BM, tj * BN +: BN], acc masked"),
        ROWS_ONLY),
    "columns stored in two parts": (
        ("alloc half: register f32[BM, BN // 2]", "ewise half = part(acc, 1, 0, 2)",
         "store C[ti * BM +: BM, tj * BN +: BN // 2], half masked",
         "ewise half = part(acc, 1, 1, 2)",
         "store C[ti * BM +: BM, tj * BN + BN // 2 +: BN // 2], half masked"), ROWS_ONLY),
    "a loop over a second output": (
        ("for j in 0 .. 2 {", "  ewise acc = acc + 1", "}", STORE), BOTH),
    "rows read one below": (
        ("for j in 0 .. 2 {", "  load r, R[ti * BM + j +: BM, tj * BN +: BN] masked",
         "  ewise acc = acc + r", "}", STORE), BOTH),
    "what one column stored, another reads": (
        ("load r, R[ti * BM +: BM, tj * BN +: BN] masked",
         "store S[ti * BM +: BM, tj * BN +: BN], r masked", "barrier",
         "alloc q: register f32[BN, BM]",
         "load q, S[m, n] over (n = tj * BN +: BN, m = ti * BM +: BM) masked",
         "ewise row = sum(q, 0)", "ewise acc = acc + expand(row, 1)", STORE), NEITHER),
    "an index that moves": (
        ("let i = 0", "while i < 2 {", "  load r, R[ti * BM +: BM, tj * BN + i +: BN] masked",
         "  ewise acc = acc + r", "  set i = i + 1", "}", STORE), BOTH),
    "a condition": (("if ti == 0 {", "  ewise acc = acc * 2", "}", STORE), BOTH),
}  # fmt: skip
