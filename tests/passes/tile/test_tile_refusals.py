"""Every TI code: what is refused, with all the codes of the refusal, and an accepted neighbour."""

import pytest

from loopir.parser import parse
from loopir.types import Precision
from loopir.verifier import violations
from passes.base import Refused
from passes.tile import TilePass
from tests.support.texts import edited
from tests.support.tile_nests import gemm, nest

GEMM = gemm()
SUM = nest(
    "X: f32[M, K], out S: f32[M]",
    {"i": "M"},
    {"k": "K"},
    "acc f32, x f32",
    ("load x, X[i, k]", "ewise acc = acc + x"),
    ("store S[i], acc",),
)


GRID = """
kernel @zero(out Y: f32[64]) {
  grid (t) in [4] {
    alloc y: register f32[16]
    fill y, 0
    store Y[t * 16 +: 16], y
  }
}
"""
COPY = """
kernel @copy(X: f32[64], out Y: f32[64]) {
  parallel i in 0 .. 64 {
    alloc x: local f32[]
    load x, X[i]
    store Y[i], x
  }
}
"""
INSIDE_IF = edited(SUM, ("reduce (acc: add) {", "if i < 3 {\nreduce (acc: add) {")).replace(
    "store S", "}\nstore S"
)
TWICE = edited(
    SUM,
    (
        "store S[i], acc",
        "reduce (acc: add) {\nfor r in 0 .. K {\nload x, X[i, r]\newise acc = acc + x\n}\n}\n"
        "store S[i], acc",
    ),
)
MAXIMUM = edited(SUM, ("acc: add", "acc: max"), ("acc + x", "max(acc, x)"))

#: refused, its codes, accepted
CASES = {
    "two kernels": (GEMM + SUM.replace("@nest", "@sum"), "TI01", GEMM),
    "a grid": (GRID, "TI01", SUM),
    "no reduce": (COPY, "TI02", SUM),
    "two reduces": (TWICE, "TI02", SUM),
    "a reduce under a condition": (INSIDE_IF, "TI02", SUM),
    "a prefix sum": (edited(SUM, ("0 .. K", "0 .. i + 1")), "TI03", SUM),
    "a triangle of outputs": (edited(GEMM, ("j in 0 .. N", "j in 0 .. i + 1")), "TI03", GEMM),
    "an inner extent by an outer one": (
        edited(
            SUM,
            ("for k in 0 .. K {", "for k in 0 .. K {\nfor r in 0 .. k {"),
            ("acc + x", "acc + x\n}"),
        ),
        "TI03",
        edited(
            SUM,
            ("for k in 0 .. K {", "for k in 0 .. K {\nfor r in 0 .. 3 {"),
            ("acc + x", "acc + x\n}"),
        ),
    ),
    "a ragged sum": (
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[M], X: f32[M, K]"),
            ("fill acc", "let u = T[i]\nfill acc"),
            ("0 .. K", "0 .. u"),
        ),
        "TI03 TI06",
        SUM,
    ),
    "a length from memory": (
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[1], X: f32[M, K]"),
            ("fill acc", "let u = T[0]\nfill acc"),
            ("0 .. K", "0 .. u"),
        ),
        "TI03",
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[1], X: f32[M, K]"),
            ("fill acc", "let u = T[0]\nfill acc"),
        ),
    ),
    "a sum that starts at one": (edited(SUM, ("0 .. K", "1 .. K")), "TI03", SUM),
    "a band with a step": (edited(SUM, ("0 .. M", "0 .. M step 2")), "TI03", SUM),
    "a store inside the reduce": (
        edited(GEMM, ("load a,", "store C[i, j], acc\nload a,")).replace("acc: add", "acc: scan"),
        "TI04 TI09",
        GEMM,
    ),
    "a store of partial products": (
        edited(
            SUM,
            ("out S: f32[M]", "out S: f32[M], out Y: f32[M, K]"),
            ("load x, X[i, k]", "load x, X[i, k]\nstore Y[i, k], x"),
        ),
        "TI04",
        SUM,
    ),
    "a condition inside": (
        edited(SUM, ("ewise", "if k < 3 {\newise"), ("+ x", "+ x\n}")),
        "TI04",
        SUM,
    ),
    "a condition behind": (
        edited(SUM, ("store S[i], acc", "if i < 3 {\nstore S[i], acc\n}")),
        "TI04",
        SUM,
    ),
    "loops that are not nested perfectly": (
        edited(SUM, ("ewise", "for r in 0 .. 3 {\newise"), ("+ x", "+ x\n}")),
        "TI04",
        SUM,
    ),
    "a loop behind the reduce": (
        edited(
            SUM, ("store S[i], acc", "for r in 0 .. 2 {\newise acc = acc + 1\n}\nstore S[i], acc")
        ),
        "TI04",
        SUM,
    ),
    "an atomic": (
        edited(SUM, ("out S", "inout S"), ("store S[i], acc", "atomic add S[i], acc")),
        "TI04",
        SUM,
    ),
    "a barrier": (edited(SUM, ("load x", "barrier\nload x")), "TI04", SUM),
    "an axis of its own": (
        edited(SUM, ("acc + x", "acc + sum(expand(x, 0), 0)")),
        "TI04",
        SUM,
    ),
    "a tile of a row": (
        edited(SUM, ("alloc x: local f32[]", "alloc x: local f32[]\nalloc y: local f32[4]")),
        "TI05",
        SUM,
    ),
    "a register": (edited(SUM, ("alloc x: local", "alloc x: register")), "TI05", SUM),
    "a row gathered": (
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[M], X: f32[M, K]"),
            ("fill acc", "let u = T[i]\nfill acc"),
            ("X[i, k]", "X[u, k]"),
        ),
        "TI06",
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[M], X: f32[M, K]"),
            ("fill acc", "let u = T[0]\nfill acc"),
            ("X[i, k]", "X[u, k]"),
        ),
    ),
    "a column gathered": (
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[K], X: f32[M, K]"),
            ("load x, X[i, k]", "let u = T[k]\nload x, X[i, u]"),
        ),
        "TI06",
        SUM,
    ),
    "an element read inside": (
        edited(
            SUM,
            ("X: f32[M, K]", "T: i32[K], X: f32[M, K]"),
            ("load x, X[i, k]", "let u = T[0]\nload x, X[u, k]"),
        ),
        "TI06",
        SUM,
    ),
    "a divisor that is an index": (
        edited(SUM, ("X[i, k]", "X[k // (M - i), k]")),
        "TI06",
        edited(SUM, ("X[i, k]", "X[k // M, k]")),
    ),
    "an output index left out": (edited(GEMM, ("C[i, j]", "C[i, 0]")), "TI07 TI10", GEMM),
    "outputs that meet": (edited(SUM, ("S[i]", "S[i // 2]")), "TI07", SUM),
    "a load of another output": (
        edited(
            GEMM, ("out C", "inout C"), ("load a, A[i, k]", "load a, A[i, k]\nload acc2, C[i, k]")
        ).replace("alloc a:", "alloc acc2: local f32[]\nalloc a:"),
        "TI07",
        edited(
            GEMM, ("out C", "inout C"), ("load a, A[i, k]", "load a, A[i, k]\nload acc2, C[i, j]")
        ).replace("alloc a:", "alloc acc2: local f32[]\nalloc a:"),
    ),
    "an input that is the output": (
        edited(SUM, ("    where K = 5, M = 5 {", "    where K = 5, M = 5\n    alias(X, S) {")),
        "TI07",
        SUM,
    ),
    "a running value": (
        edited(
            SUM,
            ("alloc x: local f32[]", "alloc x: local f32[]\nalloc t: local f32[]\nfill t, 0"),
            ("ewise acc = acc + x", "ewise t = t + x\newise acc = acc + t"),
        ),
        "TI08",
        edited(
            SUM,
            ("alloc x: local f32[]", "alloc x: local f32[]\nalloc t: local f32[]\nfill t, 0"),
            ("ewise acc = acc + x", "ewise t = x + x\newise acc = acc + t"),
        ),
    ),
    "the last value behind the loops": (edited(SUM, ("S[i], acc", "S[i], x")), "TI08", SUM),
    "the value of the iteration before": (
        edited(
            SUM,
            ("alloc x: local f32[]", "alloc x: local f32[]\nfill x, 0"),
            ("load x, X[i, k]\newise acc = acc + x", "ewise acc = acc + x\nload x, X[i, k]"),
        ),
        "TI08",
        SUM,
    ),
    "a difference": (
        edited(SUM, ("acc: add", "acc: sub"), ("acc + x", "acc - x")),
        "TI09",
        SUM,
    ),
    "an argmax": (edited(MAXIMUM, ("acc: max", "acc: argmax")), "TI09", MAXIMUM),
    "a wider value than its place": (
        edited(GEMM, ("M = 5, N = 5", "M = 5, N = 1"), ("C[i, j]", "C[i, 0]")),
        "TI10",
        edited(GEMM, ("M = 5, N = 5", "M = 5, N = 1")),
    ),
}


def codes(text: str, options: TilePass | None = None) -> set[str]:
    program = parse(text)
    assert violations(program) == ()
    verdict = (options or TilePass(m=4, k=4)).can_be_applied(program)
    if not isinstance(verdict, Refused):
        return set()
    assert all(reason.hint and reason.found for reason in verdict.reasons)
    assert verdict.explain().count("hint:") == len(verdict.reasons)
    return set(verdict.codes)


@pytest.mark.parametrize(("text", "expected", "neighbour"), CASES.values(), ids=CASES.keys())
def test_refused_with_just_these_codes_and_accepted_one_step_away(
    text: str, expected: str, neighbour: str
):
    assert codes(text) == set(expected.split())
    assert codes(neighbour) == set()


def test_columns_of_a_nest_without_them_are_refused():
    assert codes(SUM, TilePass(n=8)) == {"TI11"}
    assert codes(SUM, TilePass(m=8)) == set()
    assert codes(GEMM, TilePass(n=8)) == set()


def test_a_precision_needs_a_dot_of_f32():
    in_f32 = GEMM.replace("f16", "f32").replace("cast(f32, a) * cast(f32, b)", "a * b")
    tf32 = TilePass(precision=Precision.TF32)
    assert codes(GEMM, tf32) == {"TI11"}
    assert codes(in_f32, tf32) == set()
    assert codes(in_f32, TilePass(m=8, precision=Precision.TF32)) == {"TI11"}


def test_every_code_has_a_case():
    shown = {code for _, found, _ in CASES.values() for code in found.split()}
    assert shown == {f"TI{n:02}" for n in range(1, 11)}


@pytest.mark.parametrize("field", ["m", "n", "k"])
def test_a_size_below_one_is_a_mistake(field: str):
    with pytest.raises(ValueError, match=field):
        TilePass(**{field: 0})
