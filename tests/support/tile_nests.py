"""Untiled nests written by hand: one a kind of operand, contribution, index or epilogue."""

from collections.abc import Iterable


def nest(
    params: str,
    band: dict[str, str],
    loops: dict[str, str],
    tiles: str,
    inside: Iterable[str],
    after: Iterable[str],
    before: Iterable[str] = ("fill acc, 0",),
    heads: str = "acc: add",
    where: str = "",
) -> str:
    """A program: `band` and `loops` give each index its extent, `tiles` is "name dtype, ...".
    `where`: bindings; a size that it leaves out is 5."""
    made = [tile.split() for tile in tiles.split(", ")]
    bound = {b.split(" = ")[0] for b in where.split(", ")} if where else set()
    ends = {e for e in (*band.values(), *loops.values()) if e.isidentifier()} - bound
    sizes = ", ".join([*(f"{e} = 5" for e in sorted(ends)), *([where] if where else [])])
    lines = [
        f"kernel @nest({params})" + (f"\n    where {sizes} {{" if sizes else " {"),
        *(f"parallel {i} in 0 .. {end} {{" for i, end in band.items()),
        *(f"alloc {name}: local {dtype}[]" for name, dtype in made),
        *before,
        f"reduce ({heads}) {{",
        *(f"for {i} in 0 .. {end} {{" for i, end in loops.items()),
        *inside,
        *["}"] * len(loops),
        "}",
        *after,
        *["}"] * len(band),
        "}",
    ]
    return "\n".join(lines) + "\n"


_MN, _K = {"i": "M", "j": "N"}, {"k": "K"}
_AB = "A: f16[M, K], B: f16[K, N]"
_LOADS = ("load a, A[i, k]", "load b, B[k, j]")
_MULTIPLY = "ewise acc = acc + cast(f32, a) * cast(f32, b)"
_GEMM = (*_LOADS, _MULTIPLY)
_TILES = "acc f32, a f16, b f16"
_STORE = "store C[i, j], acc"


def gemm(**changes) -> str:
    """C = A @ B, with some of the arguments of `nest` changed."""
    usual = {
        "params": f"{_AB}, out C: f32[M, N]",
        "band": _MN,
        "loops": _K,
        "tiles": _TILES,
        "inside": _GEMM,
        "after": (_STORE,),
    }
    return nest(**(usual | changes))


NESTS = {
    "gemm": gemm(),
    "gemm, columns first": gemm(band={"j": "N", "i": "M"}),
    "gemm of B transposed": gemm(
        params="A: f16[M, K], B: f16[N, K], out C: f32[M, N]",
        inside=("load a, A[i, k]", "load b, B[j, k]", _MULTIPLY),
    ),
    "gemm, stored transposed": gemm(
        params=f"{_AB}, out C: f32[N, M]", after=("store C[j, i], acc",)
    ),
    "gemm, loads behind their use of each other": gemm(
        inside=(
            "load b, B[k, j]",
            "load a, A[i, k]",
            "ewise acc = cast(f32, b) * cast(f32, a) + acc",
        )
    ),
    "gemm of integers": gemm(
        params="A: i8[M, K], B: i8[K, N], out C: i32[M, N]",
        tiles="acc i32, a i8, b i8",
        inside=(*_LOADS, "ewise acc = acc + cast(i32, a) * cast(i32, b)"),
    ),
    "gemm of f64": gemm(
        params="A: f64[M, K], B: f64[K, N], out C: f64[M, N]",
        tiles="acc f64, a f64, b f64",
        inside=(*_LOADS, "ewise acc = acc + a * b"),
    ),
    "dual gemm": gemm(
        params=f"{_AB}, D: f16[K, N], out C: f32[M, N]",
        tiles=f"{_TILES}, acc2 f32, d f16, y f32",
        before=("fill acc, 0", "fill acc2, 0"),
        heads="acc: add, acc2: add",
        inside=(*_GEMM, "load d, D[k, j]", "ewise acc2 = acc2 + cast(f32, a) * cast(f32, d)"),
        after=("ewise y = max(acc, 0) * acc2", "store C[i, j], y"),
    ),
    "gemm with row sums": gemm(
        params=f"{_AB}, out C: f32[M, N], out S: f32[M, N]",
        tiles=f"{_TILES}, s f32",
        before=("fill acc, 0", "fill s, 0"),
        heads="acc: add, s: add",
        inside=(*_GEMM, "ewise s = s + cast(f32, a)"),
        after=(_STORE, "store S[i, j], s"),
    ),
    "min-plus": gemm(
        params="A: f32[M, K], B: f32[K, N], out C: f32[M, N]",
        tiles="acc f32, a f32, b f32",
        before=("fill acc, inf",),
        heads="acc: min",
        inside=(*_LOADS, "ewise acc = min(acc, a + b)"),
    ),
    "min-plus with masks of its own": gemm(
        params="A: f32[M, K], B: f32[K, N], out C: f32[M, N]",
        tiles="acc f32, a f32, b f32",
        before=("fill acc, inf",),
        heads="acc: min",
        inside=(
            "load a, A[i, k] masked else inf",
            "load b, B[k, j] masked else inf",
            "ewise acc = min(acc, a + b)",
        ),
    ),
    "the largest product": gemm(
        before=("fill acc, -inf",),
        heads="acc: max",
        inside=(*_LOADS, "ewise acc = max(acc, cast(f32, a) * cast(f32, b))"),
    ),
    "sum and maximum": nest(
        "X: f32[M, K], out S: f32[M], out T: f32[M]",
        {"i": "M"},
        _K,
        "acc f32, top f32, x f32",
        ("load x, X[i, k]", "ewise acc = acc + x", "ewise top = max(x, top)"),
        ("store S[i], acc", "store T[i], top"),
        ("fill acc, 0", "fill top, -inf"),
        "acc: add, top: max",
    ),
    "smallest of bytes": nest(
        "X: i8[M, K], out S: i32[M]",
        {"i": "M"},
        _K,
        "acc i32, x i8",
        ("load x, X[i, k]", "ewise acc = min(acc, cast(i32, x))"),
        ("store S[i], acc",),
        ("fill acc, 2147483647",),
        "acc: min",
    ),
    "all of flags": nest(
        "X: bool[M, K], out S: bool[M], out T: bool[M]",
        {"i": "M"},
        _K,
        "acc bool, any bool, x bool",
        ("load x, X[i, k]", "ewise acc = and(acc, x)", "ewise any = or(any, x)"),
        ("store S[i], acc", "store T[i], any"),
        ("fill acc, 1", "fill any, 0"),
        "acc: and, any: or",
    ),
    "products of integers": nest(
        "X: i32[K, M], out S: i32[M]",
        {"i": "M"},
        _K,
        "acc i32, x i32",
        ("load x, X[k, i]", "ewise acc = acc * x"),
        ("store S[i], acc",),
        ("fill acc, 1",),
        "acc: mul",
    ),
    "gemv": nest(
        "A: f16[M, K], X: f16[K], out C: f32[M]",
        {"i": "M"},
        _K,
        _TILES,
        ("load a, A[i, k]", "load b, X[k]", _MULTIPLY),
        ("store C[i], acc",),
    ),
    "a batch of dots": nest(
        "A: f16[M, K], X: f16[M, K], out C: f32[M]",
        {"i": "M"},
        _K,
        _TILES,
        ("load a, A[i, k]", "load b, X[i, k]", _MULTIPLY),
        ("store C[i], acc",),
    ),
    "batched gemm": nest(
        "A: f16[Z, M, K], B: f16[Z, K, N], out C: f32[Z, M, N]",
        {"i": "M", "z": "Z", "j": "N"},
        _K,
        _TILES,
        ("load a, A[z, i, k]", "load b, B[z, k, j]", _MULTIPLY),
        ("store C[z, i, j], acc",),
    ),
    "batched gemm, batch looked up": nest(
        "T: i32[Z], A: f16[5, M, K], B: f16[5, K, N], out C: f32[Z, M, N]",
        {"z": "Z", "i": "M", "j": "N"},
        _K,
        _TILES,
        ("load a, A[u, i, k]", "load b, B[u, k, j]", _MULTIPLY),
        ("store C[z, i, j], acc",),
        ("let u = T[z]", "fill acc, 0"),
    ),
    "gemm, batch of A only": nest(
        "A: f16[Z, M, K], B: f16[K, N], out C: f32[Z, M, N]",
        {"z": "Z", "i": "M", "j": "N"},
        _K,
        _TILES,
        ("load a, A[z, i, k]", "load b, B[k, j]", _MULTIPLY),
        ("store C[z, i, j], acc",),
    ),
    "three operands": nest(
        "A: f32[I, K], B: f32[J, K], D: f32[L, K], out C: f32[I, J, L]",
        {"i": "I", "j": "J", "l": "L"},
        _K,
        "acc f32, a f32, b f32, d f32",
        ("load a, A[i, k]", "load b, B[j, k]", "load d, D[l, k]", "ewise acc = acc + a * b * d"),
        ("store C[i, j, l], acc",),
        where="L = 2",
    ),
    "convolution": nest(
        "X: f16[B, C, H, W], F: f16[D, C, R, S], out Y: f32[B, D, U, V]",
        {"b": "B", "d": "D", "u": "U", "v": "V"},
        {"c": "C", "r": "R", "s": "S"},
        _TILES,
        (
            "load a, X[b, c, u * 2 + r - 1, v + s * 2 - 1] masked",
            "load b2, F[d, c, r, s]",
            "ewise acc = acc + cast(f32, a) * cast(f32, b2)",
        ),
        ("store Y[b, d, u, v], acc",),
        where="B = 2, C = 2, H = 5, W = 6, R = 3, S = 2, D = 3, U = (H - 1) // 2 + 1, V = W",
    ).replace("alloc b: local", "alloc b2: local"),
    "largest of a window": nest(
        "X: f32[H, W], out Y: f32[H, W]",
        {"u": "H", "v": "W"},
        {"r": "3", "s": "2"},
        "acc f32, x f32",
        ("load x, X[u + r - 1, v + s - 1] masked else -inf", "ewise acc = max(acc, x)"),
        ("store Y[u, v], acc",),
        ("fill acc, -inf",),
        "acc: max",
    ),
    "window of ones": nest(
        "X: f32[H, K], out Y: f32[H]",
        {"u": "H"},
        {"k": "K", "one": "1"},
        "acc f32, x f32",
        ("load x, X[u + one, k]", "ewise acc = acc + x"),
        ("store Y[u], acc",),
    ),
    "bias as the start": gemm(
        params=f"{_AB}, E: f32[N], out C: f32[M, N]", before=("load acc, E[j]",)
    ),
    "residual in place": gemm(
        params=f"{_AB}, inout C: f32[M, N]",
        tiles=f"{_TILES}, c f32, y f32",
        after=("load c, C[i, j]", "ewise y = acc * 2 + c", "store C[i, j], y"),
    ),
    "bias, activation, cast": gemm(
        params=f"{_AB}, E: f16[N], R: f32[M], out C: f16[M, N]",
        tiles=f"{_TILES}, e f16, r f32, y f16",
        after=(
            "load e, E[j]",
            "load r, R[i]",
            "ewise acc = max(acc + cast(f32, e) * r, 0)",
            "ewise y = cast(f16, acc)",
            "store C[i, j], y",
        ),
    ),
    "a value of fewer indices, stored": gemm(
        params=f"{_AB}, E: f32[N], out C: f32[M, N], out D: f32[M, N], out F: f32[M, N]",
        tiles=f"{_TILES}, e f32, f f32",
        before=("fill acc, 0", "fill f, 2"),
        after=("load e, E[j]", "store D[i, j], e", _STORE, "store F[i, j], f"),
    ),
    "a tile used for several things": gemm(
        params=f"{_AB}, E: f16[N], R: f16[M], out C: f32[M, N]",
        before=("load a, R[i]", "ewise acc = cast(f32, a)"),
        after=("load a, E[j]", "ewise acc = acc + cast(f32, a)", _STORE),
    ),
    "counts of the summed index": gemm(inside=(*_GEMM, "ewise acc = acc + 1")),
    "a term without the summed index": gemm(
        params=f"{_AB}, R: f32[M], out C: f32[M, N]",
        tiles=f"{_TILES}, r f32",
        inside=(*_GEMM, "load r, R[i]", "ewise acc = acc + r"),
    ),
    "a product of no loads, beyond zero": gemm(
        inside=(*_LOADS, "ewise acc = acc + (cast(f32, a) + 1) * cast(f32, b)")
    ),
    "steps between": gemm(
        tiles=f"{_TILES}, p f32, q f32",
        inside=(
            *_LOADS,
            "ewise p = cast(f32, a) * 2",
            "ewise q = cast(f32, b)",
            "ewise p = p * q",
            "ewise acc = acc + p",
        ),
    ),
    "a computed operand": gemm(
        params="A: f32[M, K], B: i8[K, N], R: f32[N], out C: f32[M, N]",
        tiles="acc f32, a f32, b i8, q f32, r f32",
        inside=(*_LOADS, "load r, R[j]", "ewise q = cast(f32, b) * r", "ewise acc = acc + a * q"),
    ),
    "operands that are not zero beyond": gemm(
        inside=(
            "load a, A[i, k] masked else 2",
            "load b, B[k, j] masked else inf",
            _MULTIPLY,
        ),
    ),
    "operands of two uses that are not zero beyond": gemm(
        tiles=f"{_TILES}, acc2 f32",
        params=f"{_AB}, out C: f32[M, N], out D: f32[M, N]",
        before=("fill acc, 0", "fill acc2, -inf"),
        heads="acc: add, acc2: max",
        inside=(
            "load a, A[i, k] masked else -inf",
            *_GEMM[1:],
            "ewise acc2 = max(acc2, cast(f32, a))",
        ),
        after=(_STORE, "store D[i, j], acc2"),
    ),
    "lets": gemm(
        params="A: f16[M + 1, 2 * K], B: f16[K, N], out C: f32[M, N]",
        inside=(
            "let up = i + 1",
            "let twice = k * 2",
            "let odd = twice + 1",
            "load a, A[up, odd]",
            "load b, B[k, j]",
            _MULTIPLY,
        ),
    ),
    "floor division and remainder": gemm(
        params="A: f16[M, K], B: f16[2, 3], out C: f32[M, N]",
        inside=("load a, A[i, k]", "load b, B[k % 2, j // 2]", _MULTIPLY),
    ),
    "the diagonal": gemm(
        params="A: f16[M, M], B: f16[K, N], out C: f32[M, N]",
        inside=("load a, A[i, i]", "load b, B[k, j]", _MULTIPLY),
    ),
    "names of the pass": nest(
        "BM: f16[M, K], BN: f16[K, N], out P: f32[M, N]",
        {"k": "M", "m": "N"},
        {"ti": "K"},
        "acc f32, kp f16, tj f16, n f32",
        (
            "load kp, BM[k, ti]",
            "load tj, BN[ti, m]",
            "ewise n = cast(f32, kp)",
            "ewise acc = acc + n * cast(f32, tj)",
        ),
        ("store P[k, m], acc",),
        where="BK = 3, acc_k = 4, acc_mn = 5",
    ),
    "all indices of one group": nest(
        "X: f32[I, J, K], out S: f32[J, I]",
        {"i": "I", "j": "J"},
        _K,
        "acc f32, x f32",
        ("load x, X[i, j, k]", "ewise acc = acc + x"),
        ("store S[j, i], acc",),
    ),
    "no loads": nest(
        "out S: f32[I, J]",
        {"i": "I", "j": "J"},
        {"k": "K", "l": "L"},
        "acc f32",
        ("ewise acc = acc + 2",),
        ("store S[i, j], acc",),
        where="L = 3",
    ),
    "an index of the epilogue only": nest(
        "X: f32[I, K], E: f32[J], out S: f32[I, J]",
        {"i": "I", "j": "J"},
        _K,
        "acc f32, x f32, e f32",
        ("load x, X[i, k]", "ewise acc = acc + x"),
        ("load e, E[j]", "ewise acc = acc * e", "store S[i, j], acc"),
    ),
}
