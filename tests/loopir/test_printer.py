"""The printer: its order of terms, the short form of accesses, golden texts, excerpts."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sympy

from loopir import nodes as ir
from loopir.parser import parse, parse_expr
from loopir.printer import Line, cond_text, excerpt, expr_text, render, stmt_text, to_text
from loopir.symbols import FloorDiv, ceildiv, floordiv, imax, imin, mod, sym
from loopir.types import DType, ForKind, Precision, ReduceOp, Space
from loopir.verifier import violations
from tests.support.texts import GEMM, edited

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]

it_end, k1, tile, unit, ti = map(sym, ("it_end", "k1", "tile", "unit", "ti"))
P, BM, TOTAL, UNITS, M, N = map(sym, ("P", "BM", "TOTAL", "UNITS", "M", "N"))
x, y = sym("x"), sym("y")


# --- index expressions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (-P * tile + it_end, "it_end - tile * P"),
        (k1 + P * tile, "tile * P + k1"),
        (1 - x, "1 - x"),
        (1 + unit, "unit + 1"),
        (-1 + x, "x - 1"),
        (-x - 1, "-x - 1"),
        (-x - y * P, "-y * P - x"),
        (BM * ti, "ti * BM"),
        (P * x * 2, "2 * x * P"),
        (-2 * x, "-2 * x"),
        (x * x * x, "x * x * x"),
        ((x + y) ** 2, "(x + y) * (x + y)"),
        (2 * (x + y), "2 * x + 2 * y"),
        (2 * P * (x + y), "2 * (x + y) * P"),
        (P * (x + y), "(x + y) * P"),
        (M * (x + 1) + M, "(x + 1) * M + M"),
        (floordiv((unit + 1) * TOTAL, UNITS), "(unit + 1) * TOTAL // UNITS"),
        (floordiv(x + y, P), "(x + y) // P"),
        (floordiv(x, P) * P, "(x // P) * P"),
        (floordiv(x, P * 2), "x // (2 * P)"),
        (floordiv(x, ceildiv(M, BM)), "x // ceildiv(M, BM)"),
        (floordiv(floordiv(x, P), N), "(x // P) // N"),
        (mod(floordiv(x, P), N), "(x // P) % N"),
        (-floordiv(x, P), "-(x // P)"),
        (-floordiv(x, P) - y, "-(x // P) - y"),
        (y - floordiv(x, P), "y - x // P"),
        (floordiv(-x, P), "(-x) // P"),
        (mod(x, sympy.Integer(-2)), "x % (-2)"),
        (imin(it_end - tile * P, P), "min(it_end - tile * P, P)"),
        (imax(P, 1, x), "max(P, 1, x)"),
        (sympy.Integer(-3), "-3"),
        (7, "7"),
    ],
)
def test_terms_and_factors_stand_in_the_order_made_for_reading(expr: sympy.Expr, text: str):
    assert expr_text(expr) == text
    assert parse_expr(text) == expr


@pytest.mark.parametrize(
    "expr",
    [x / 2, x**y, sympy.sqrt(x), sympy.Mod(x, 3), sympy.floor(x / 2), x + sympy.Rational(1, 2)],
    ids=str,
)
def test_what_the_language_cannot_say_prints_in_angle_brackets(expr: sympy.Expr):
    assert re.search(r"<.+>", expr_text(expr))


def test_printing_time_does_not_double_with_every_level():
    expr = x
    for _ in range(45):
        expr = imin(y - 2 * P * (expr + 1), x)
    start = time.perf_counter()
    assert expr_text(imin(x, y - expr)).count("min") == 46
    assert time.perf_counter() - start < 5


# --- conditions and statements --------------------------------------------------------------------

A, B, LESS = ir.Flag("a"), ir.Flag("b"), ir.Cmp("<", x, y + 1)


@pytest.mark.parametrize(
    ("cond", "text"),
    [
        (ir.AllOf((A, LESS)), "a and x < y + 1"),
        (ir.AnyOf((ir.AllOf((A, B)), LESS)), "(a and b) or x < y + 1"),
        (ir.AllOf((ir.AllOf((A, B)), A)), "(a and b) and a"),
        (ir.Negate(LESS), "not (x < y + 1)"),
        (ir.Negate(A), "not a"),
        (ir.Negate(ir.Negate(A)), "not not a"),
        (ir.AllOf((ir.Negate(A), ir.Negate(ir.AnyOf((A, B))))), "not a and not (a or b)"),
    ],
)
def test_conditions_show_how_they_bind(cond: ir.Cond, text: str):
    assert cond_text(cond) == text
    (found,) = parse(f"kernel @f() {{\n  if {text} {{\n  }}\n}}\n").kernels[0].body
    assert found == ir.If(cond, ())


def access(index, *axes, masked=False) -> ir.Access:
    return ir.Access("X", tuple(index), axes, masked)


FIRST = ir.TileAxis("_0", ti * BM, BM)
SECOND = ir.TileAxis("_1", sympy.Integer(0), P)
ZERO, ONE, m = sym("_0"), sym("_1"), sym("m")
NAMED = ir.TileAxis("m", ti * BM, BM)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (access([]), "X[]"),
        (access([x, y]), "X[x, y]"),
        (access([ZERO, ONE], FIRST, SECOND), "X[ti * BM +: BM, 0 +: P]"),
        (access([x, ZERO, y, ONE], FIRST, SECOND), "X[x, ti * BM +: BM, y, 0 +: P]"),
        (access([m], NAMED), "X[m] over (m = ti * BM +: BM)"),
        (access([m], replace(NAMED, limit=M)), "X[m] over (m = ti * BM +: BM < M)"),
        (access([x], NAMED), "X[x] over (m = ti * BM +: BM)"),
        (access([2 * m - 1, x], NAMED), "X[2 * m - 1, x] over (m = ti * BM +: BM)"),
    ],
)
def test_an_access_is_short_exactly_where_it_is_a_slice(source: ir.Access, text: str):
    assert stmt_text(ir.Load("t", source)) == f"load t, {text}"
    assert parse(f"kernel @f() {{\nload t, {text}\n}}").kernels[0].body == (ir.Load("t", source),)


@pytest.mark.parametrize(
    "source",
    [
        access([ONE, ZERO], FIRST, SECOND),
        access([ZERO], FIRST, SECOND),
        access([ZERO, ZERO], FIRST),
        access([ZERO, ONE, ZERO + 1], FIRST, SECOND),
        access([ZERO + 1], FIRST),
        access([ZERO], replace(FIRST, limit=M)),
        access([ONE], SECOND),
    ],
)
def test_an_access_that_is_no_slice_never_prints_as_one(source: ir.Access):
    assert " over (" in stmt_text(ir.Load("t", source))


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (ir.Let("u", ir.ElementRead("order", (x,))), "let u = order[x]"),
        (ir.Alloc("t", Space.FRAGMENT, DType.F8E4M3, (BM,)), "alloc t: fragment f8e4m3[BM]"),
        (ir.Fill("t", ir.Literal(float("-inf"))), "fill t, -inf"),
        (ir.Fill("t", ir.Literal(1.0)), "fill t, 1.0"),
        (ir.Load("t", access([x], masked=True), True, ir.Literal(1)),
         "coop_load t, X[x] masked else 1"),
        (ir.Load("t", access([x]), False, ir.Literal(0.0)), "load t, X[x] else 0.0"),
        (ir.Store(access([x], masked=True), "t"), "store X[x], t masked"),
        (ir.Atomic(ReduceOp.MAX, access([x]), "t"), "atomic max X[x], t"),
        (ir.Arrive("last", ir.ElementRead("W", (x, y)), P), "arrive last, W[x, y], P"),
        (ir.Dot("c", "a", "b", Precision.TF32X3), "dot c, a, b tf32x3"),
        (ir.For("i", x, y, sympy.Integer(2), (), ForKind.WAVE), "wave i in x .. y step 2"),
        (ir.Grid1D("u", UNITS, ()), "grid1d (u) in [UNITS] persistent"),
        (ir.Ewise("t", ir.Apply("neg", (ir.Literal(1),))), "ewise t = -(1)"),
        (ir.Ewise("t", ir.Apply("neg", (ir.Literal(-1),))), "ewise t = --1"),
    ],
)  # fmt: skip
def test_a_statement_prints_on_one_line(stmt: ir.Stmt, text: str):
    assert stmt_text(stmt) == text


# --- golden texts ---------------------------------------------------------------------------------


def canonical_gemm() -> ir.Program:
    """The text of golden/gemm.lir, node by node."""
    K, BN, BK, tj, kp = map(sym, ("K", "BN", "BK", "tj", "kp"))
    sizes = {"M": 1536, "N": 1536, "K": 4096, "BM": 128, "BN": 128, "BK": 64}
    where = tuple(ir.Binding(n, sympy.Integer(v)) for n, v in sizes.items())

    def slice_of(buffer: str, rows: str, cols: str) -> ir.Access:
        names = {"m": (ti * BM, BM), "n": (tj * BN, BN), "k": (kp * BK, BK)}
        axes = tuple(ir.TileAxis(f"_{i}", *names[n]) for i, n in enumerate((rows, cols)))
        return ir.Access(buffer, (ZERO, ONE), axes, masked=True)

    panel = (
        ir.Load("a", slice_of("A", "m", "k"), cooperative=True),
        ir.Load("b", slice_of("B", "k", "n"), cooperative=True),
        ir.Barrier(),
        ir.Dot("acc", "a", "b"),
        ir.Barrier(),
    )
    loop = ir.For("kp", sympy.Integer(0), P, sympy.Integer(1), panel)
    tile_body = (
        ir.Alloc("acc", Space.REGISTER, DType.F32, (BM, BN)),
        ir.Alloc("a", Space.SHARED, DType.BF16, (BM, BK)),
        ir.Alloc("b", Space.SHARED, DType.BF16, (BK, BN)),
        ir.Fill("acc", ir.Literal(0)),
        ir.Reduce((ir.Accumulator("acc", ReduceOp.ADD),), (loop,)),
        ir.Store(slice_of("C", "m", "n"), "acc"),
    )
    axes = (ir.GridAxis("ti", ceildiv(M, BM)), ir.GridAxis("tj", ceildiv(N, BN)))
    params = (
        ir.Param("A", DType.BF16, (M, K)),
        ir.Param("B", DType.BF16, (K, N)),
        ir.Param("C", DType.F32, (M, N), ir.Direction.OUT),
    )
    panels = ir.Binding("P", imax(1, ceildiv(K, BK)))
    kernel = ir.Kernel("gemm", params, (ir.Grid(axes, tile_body),), (*where, panels))
    return ir.Program((kernel,))


def test_the_canonical_gemm_prints_as_its_golden_text():
    golden = (GOLDEN / "gemm.lir").read_text()
    assert to_text(canonical_gemm()) == golden
    assert parse(golden) == canonical_gemm()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.lir")), ids=lambda p: p.stem)
def test_golden_texts_print_byte_for_byte(path: Path):
    text = path.read_bytes()
    assert to_text(parse(text.decode())).encode() == text


def test_a_golden_text_with_one_changed_byte_prints_differently():
    text = (GOLDEN / "gemm.lir").read_text()
    assert to_text(parse(text.replace("kp * BK +: BK, tj", "kp*BK +: BK, tj"))) == text
    assert to_text(parse(text.replace("BK = 64", "BK = 32"))) != text


def documented_programs() -> list[str]:
    text = (ROOT / "docs" / "ir.md").read_text()
    return re.findall(r"^```lir\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_program_of_the_documentation_is_canonical_text_and_keeps_the_rules():
    programs = documented_programs()
    assert len(programs) >= 4
    for text in programs:
        assert to_text(parse(text)) == text
        assert violations(parse(text)) == ()


def test_the_documentation_shows_every_statement():
    shown = " ".join(documented_programs())
    missing = {w for w in _statement_words() if not re.search(rf"^ *{w}\b", shown, re.MULTILINE)}
    assert not missing


def _statement_words() -> tuple[str, ...]:
    from loopir.stmt_parser import _STATEMENTS

    return tuple(_STATEMENTS)


# --- lines and excerpts ---------------------------------------------------------------------------

IN_LOOP = ("kernels", 0, "body", 0, "body", 4, "body", 0, "body")


def test_lines_carry_the_paths_of_their_nodes():
    text = edited(GEMM, ("BK)) {\n", "BK))\n    alias(A, C)\n    requires zeroed(C) {\n"))
    lines = render(parse("workspace W: i32[4]\n\n" + text))
    assert lines[0] == Line("workspace W: i32[4]", ("workspaces", 0))
    paths = [line.path for line in lines]
    assert paths[1:7] == [
        (),
        ("kernels", 0),
        ("kernels", 0, "where"),
        ("kernels", 0, "aliases", 0),
        ("kernels", 0, "requires"),
        ("kernels", 0, "body", 0),
    ]
    assert paths[-1] == ("kernels", 0)


def test_else_belongs_to_its_branch_and_a_brace_to_its_statement():
    program = parse("kernel @f() {\n  if a {\n    barrier\n  } else {\n    barrier\n  }\n}\n")
    here = ("kernels", 0, "body", 0)
    assert [line.path for line in render(program)][1:6] == [
        here,
        (*here, "then", 0),
        (*here, "orelse"),
        (*here, "orelse", 0),
        here,
    ]


def test_an_excerpt_shows_numbered_lines_around_and_carets_under_the_focus():
    assert excerpt(parse(GEMM), (*IN_LOOP, 0, "source"), "kp * BK") == (
        "   8 |     reduce (acc: add) {\n"
        "   9 |       for kp in 0 .. P {\n"
        "  10 |         coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked\n"
        "     |                                       ^^^^^^^\n"
        "  11 |         coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked\n"
        "  12 |         barrier"
    )


def caret(path: tuple, focus: str = "", text: str = GEMM) -> str:
    """The text above the carets of an excerpt."""
    lines = excerpt(parse(text), path, focus).splitlines()
    (n,) = [i for i, line in enumerate(lines) if re.fullmatch(r" +\| *\^+", line)]
    return lines[n - 1][lines[n].index("^") : len(lines[n])]


@pytest.mark.parametrize(
    ("path", "focus", "marked"),
    [
        ((*IN_LOOP, 0), "", "c"),
        ((*IN_LOOP, 0), "a", "a"),
        ((*IN_LOOP, 0), "absent", "c"),
        ((*IN_LOOP, 0, "source", "axes", 1, "start"), "BK]", "BK]"),
        (("kernels", 0), "", "k"),
        (("kernels", 0, "params", 1), "K", "K"),
        (("kernels", 0, "params", 2), "", "o"),
        (("kernels", 0, "where", 6), "", "P"),
        (("kernels", 0, "where"), "BK = 16", "BK = 16"),
        (("kernels", 0, "where", 2, "expr"), "P", "P"),
        ((), "", "k"),
    ],
)
def test_carets_stand_under_the_focus_or_under_the_start_of_the_node(path, focus, marked):
    assert caret(path, focus) == marked


def test_a_focus_is_looked_for_as_a_word_and_inside_its_node_first():
    line = excerpt(parse(GEMM), ("kernels", 0, "params", 1), "K").splitlines()[1]
    signature = GEMM.splitlines()[0]
    assert line.index("^") - len("  1 | ") == signature.index("B: f16[K") + len("B: f16[")
    assert excerpt(parse(GEMM), (*IN_LOOP, 0), "a").splitlines()[3].index("^") == len(
        "  10 |         coop_load "
    )


def test_an_excerpt_at_an_end_of_the_text_shows_the_lines_there_are():
    assert excerpt(parse(GEMM), ("kernels", 0)).startswith("  1 | kernel @gemm")
    short = parse("kernel @f() {\n  barrier\n}\n")
    assert excerpt(short, ("kernels", 0, "body", 0)) == (
        "  1 | kernel @f() {\n  2 |   barrier\n    |   ^\n  3 | }"
    )


def test_a_program_that_cannot_be_parsed_back_still_prints_for_an_error():
    bad = ir.Kernel("f", (), (ir.Let("h", FloorDiv(x, sympy.Rational(1, 2))),))
    assert "let h = x // (<1/2>)" in excerpt(ir.Program((bad,)), ("kernels", 0, "body", 0))
