"""The parser: what it accepts beyond the canonical text, what it refuses and how it says so."""

import re
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from loopir import nodes as ir
from loopir.cursor import MAX_NESTING
from loopir.errors import LoopIRError, ParseError
from loopir.ewise_parser import MAX_OPERATIONS
from loopir.lexer import MAX_CHARACTERS, RESERVED
from loopir.parser import parse, parse_expr, parse_many
from loopir.printer import expr_text, stmt_text, to_text
from loopir.symbols import CeilDiv, FloorDiv, Min, Mod, sym
from loopir.types import ForKind, Space
from tests.support.random_programs import random_program
from tests.support.texts import GEMM, MAX_ROWS, edited

ROOT = Path(__file__).parents[2]
x, y, z = sym("x"), sym("y"), sym("z")


def body(*lines: str) -> str:
    """A kernel with these lines as its body; the first is line 2, indented by two."""
    return "\n".join(("kernel @f() {", *(f"  {line}" for line in lines), "}", ""))


def statements(*lines: str) -> ir.Body:
    return parse(body(*lines)).kernels[0].body


def refused(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return caught.value


# --- index expressions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y * z", x + y * z),
        ("x - y - z", x - y - z),
        ("x - (y - z)", x - y + z),
        ("x * x * x", x**3),
        ("2 * (x + y)", 2 * x + 2 * y),
        ("2 * z * (x + y)", sympy.Mul(2, z, x + y)),
        ("-x", -x),
        ("--x", x),
        ("x - -3", x + 3),
        ("-x // y", FloorDiv(-x, y)),
        ("-(x // y)", -FloorDiv(x, y)),
        ("x // y * z", FloorDiv(x, y) * z),
        ("x * y // z", FloorDiv(x * y, z)),
        ("x // y // z", FloorDiv(FloorDiv(x, y), z)),
        ("x // (y // z)", FloorDiv(x, FloorDiv(y, z))),
        ("x % y + 1", Mod(x, y) + 1),
        ("-7 // 2", sympy.Integer(-4)),
        ("-7 % 2", sympy.Integer(1)),
        ("ceildiv(x, 2)", CeilDiv(x, sympy.Integer(2))),
        ("min(x, y, x)", Min(x, y, x)),
        ("-9223372036854775808", sympy.Integer(-(2**63))),
        (" ( x )\n", x),
    ],
)
def test_index_expressions_have_the_precedence_of_python(text: str, expected: sympy.Expr):
    assert parse_expr(text) == expected


@pytest.mark.parametrize("name", ["N", "S", "E", "I", "Q", "O", "pi", "oo", "zoo", "beta", "gamma"])
def test_names_that_mean_something_to_sympy_are_plain_symbols(name: str):
    assert parse_expr(name) == sym(name)
    assert isinstance(parse_expr(name), sympy.Symbol)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected an index expression, found end of text"),
        ("x +", 4, "expected an index expression, found end of line"),
        ("x y", 3, "expected an operator or end of text, found `y`"),
        ("x / y", 3, "`/` is no integer operation; write `//` or ceildiv(a, b)"),
        ("x ** 2", 3, "there is no power operator"),
        ("A[x]", 2, "a buffer's element is read by a statement of its own"),
        ("x // 0", 6, "division by zero"),
        ("x % (y - y)", 5, "division by zero"),
        ("ceildiv(x, 0)", 1, "division by zero"),
        ("1.5", 1, "expected an index expression, found `1.5`"),
        ("1 + 2x", 5, "number 2 runs into 'x'"),
        ("9223372036854775808", 1, "a constant of this expression needs more than 64 bits"),
        ("x + 9999999999999999999", 5, "needs more than 64 bits"),
        ("4294967296 * x * 4294967296", 1, "needs more than 64 bits"),
        ("9223372036854775807 + x + 1", 1, "needs more than 64 bits"),
        ("2 * (5000000000000000000 * x + y)", 1, "needs more than 64 bits"),
        ("mni(x, y)", 1, "unknown function `mni`; did you mean `min`?"),
        ("round(x)", 1, "unknown function `round`; index expressions have min, max and ceildiv"),
        ("min(x)", 1, "`min` takes 2 or more arguments, found 1"),
        ("ceildiv(x, y, z)", 1, "`ceildiv` takes 2 arguments, found 3"),
        ("max(x y)", 7, "expected `,` or `)`, found `y`"),
        ("(x", 3, "expected `)`, found end of text"),
        ("min", 1, "found `min`, which is a reserved word"),
        ("_0 + 1", 1, "names that start with `_` are kept"),
        ("x & y", 3, "unexpected character '&'"),
    ],
)
def test_index_expressions_are_refused_with_the_place(text: str, column: int, message: str):
    with pytest.raises(ParseError, match=re.escape(message)) as caught:
        parse_expr(text)
    assert (caught.value.line, caught.value.column) == (1, column)


# --- conditions and element-wise expressions ------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < y", ir.Cmp("<", x, y)),
        ("(x + y) * z >= 1", ir.Cmp(">=", (x + y) * z, sympy.Integer(1))),
        ("last", ir.Flag("last")),
        ("(last)", ir.Flag("last")),
        ("not last", ir.Negate(ir.Flag("last"))),
        ("a and b or c", ir.AnyOf((ir.AllOf((ir.Flag("a"), ir.Flag("b"))), ir.Flag("c")))),
        ("a and (b or c)", ir.AllOf((ir.Flag("a"), ir.AnyOf((ir.Flag("b"), ir.Flag("c")))))),
        ("(a and b) and c", ir.AllOf((ir.AllOf((ir.Flag("a"), ir.Flag("b"))), ir.Flag("c")))),
        ("not a and b", ir.AllOf((ir.Negate(ir.Flag("a")), ir.Flag("b")))),
        ("((x) == (y))", ir.Cmp("==", x, y)),
    ],
)
def test_conditions_bind_not_then_and_then_or(text: str, expected: ir.Cond):
    assert statements(f"if {text} {{", "}") == (ir.If(expected, ()),)


A, B = ir.TileRef("a"), ir.TileRef("b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - b - a", ir.Apply("sub", (ir.Apply("sub", (A, B)), A))),
        ("a - (b - a)", ir.Apply("sub", (A, ir.Apply("sub", (B, A))))),
        ("a + b * a", ir.Apply("add", (A, ir.Apply("mul", (B, A))))),
        ("-a * b", ir.Apply("mul", (ir.Apply("neg", (A,)), B))),
        ("-1", ir.Literal(-1)),
        ("-(1)", ir.Apply("neg", (ir.Literal(1),))),
        ("a - -inf", ir.Apply("sub", (A, ir.Literal(float("-inf"))))),
        ("add(a, b)", ir.Apply("add", (A, B))),
        ("and(a, b)", ir.Apply("and", (A, B))),
        ("exp", ir.TileRef("exp")),
        ("cast(bf16, sum(expand(a, 0), 1))",
         ir.Cast(ir.DType.BF16, ir.AxisReduce(ir.ReduceOp.ADD, ir.Expand(A, 0), 1))),
        ("prod(a, 0)", ir.AxisReduce(ir.ReduceOp.MUL, A, 0)),
        ("reduce_and(a, 0)", ir.AxisReduce(ir.ReduceOp.AND, A, 0)),
        ("reduce_or(a, 0)", ir.AxisReduce(ir.ReduceOp.OR, A, 0)),
        ("mask(a * b, 1, kp * BK, K, -inf)",
         ir.Mask(ir.Apply("mul", (A, B)), 1, sym("kp") * sym("BK"), sym("K"),
                 ir.Literal(float("-inf")))),
        ("mask", ir.TileRef("mask")),
        ("part(a + b, 1, 3, 4)", ir.Part(ir.Apply("add", (A, B)), 1, 3, 4)),
        ("part(part(a, 0, 0, 1), 1, 0, 2)", ir.Part(ir.Part(A, 0, 0, 1), 1, 0, 2)),
        ("part", ir.TileRef("part")),
    ],
)  # fmt: skip
def test_element_wise_expressions_keep_their_tree(text: str, expected: ir.Ewise_):
    assert statements(f"ewise t = {text}") == (ir.Ewise("t", expected),)


def test_a_mask_reads_back_with_its_index_expressions():
    text = "ewise t = mask(max(a, b) + 1, 0, kp * BK - x // 2, min(K, x), 0.5)"
    (stmt,) = statements(text)
    assert stmt_text(stmt) == text


def test_a_parallel_loop_is_a_loop_of_its_kind():
    nested = "parallel i in 0 .. M {", "parallel j in lo .. hi step 2 {", "}", "}"
    (outer,) = statements(*nested)
    assert isinstance(outer, ir.For)
    assert outer.kind is ForKind.PARALLEL
    assert [isinstance(s, ir.For) and s.kind for s in outer.body] == [ForKind.PARALLEL]
    assert stmt_text(outer.body[0]) == "parallel j in lo .. hi step 2"
    assert statements("for i in 0 .. M {", "}") != statements("parallel i in 0 .. M {", "}")


def test_a_tile_of_one_element_has_empty_brackets():
    (alloc,) = statements("alloc acc: local f32[]")
    assert alloc == ir.Alloc("acc", Space.LOCAL, ir.DType.F32, ())
    assert stmt_text(alloc) == "alloc acc: local f32[]"


@pytest.mark.parametrize("number", ["1", "1.0", "-0.0", "1e+22", "2.5e-07", "inf", "-inf"])
def test_numbers_keep_their_type_and_sign(number: str):
    (fill,) = statements(f"fill t, {number}")
    assert isinstance(fill, ir.Fill)
    assert str(fill.value.value) == number


# --- layout of the text ---------------------------------------------------------------------------


def test_comments_blank_lines_tabs_and_carriage_returns_say_nothing():
    lines = (f"\t{line} # note" for line in GEMM.splitlines())
    assert parse("# head\r\n\r\n" + "\r\n\r\n".join(lines)) == parse(GEMM)


def test_a_line_goes_on_in_brackets_and_after_commas_and_blocks_fit_on_one_line():
    text = edited(
        GEMM,
        ("@gemm(A: f16[M, K], B", "@gemm(\n  A: f16[M,\n K],\n  B"),
        ("N = 80, K", "N = 80,\n\n        K"),
        ("ti * BM +: BM, kp * BK +: BK] masked", "ti * BM +: BM,\n kp\n * BK +: BK] masked"),
        ("        dot acc, a, b\n", "if P == 1 { dot acc, a,\n b } else { dot acc, a, b }\n"),
    )
    whole = edited(
        GEMM,
        ("        dot acc, a, b\n", "if P == 1 {\ndot acc, a, b\n} else {\ndot acc, a, b\n}\n"),
    )
    assert parse(text) == parse(whole)


def test_words_of_the_grammar_can_be_names():
    made = statements("let step = order[masked]", "alloc else: shared f32[in]", "fill else, 1")
    assert [type(s) for s in made] == [ir.Let, ir.Alloc, ir.Fill]


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_cannot_be_names(word: str):
    assert "which is a reserved word" in refused(body(f"let {word} = 1")).message


def test_separators_divide_programs_and_parse_takes_only_one():
    two = f"# -----\n{GEMM}# -----\n\n# ---------\n{MAX_ROWS}# -----\n"
    assert parse_many(two) == (parse(GEMM), parse(MAX_ROWS))
    error = refused(two)
    assert "expected one program, found another" in error.message
    assert error.source_line.startswith("kernel @row_max")


def test_a_line_that_only_resembles_a_separator_is_a_comment():
    for line in ("# ----", "# ----- x", " # -----", "#-----"):
        assert len(parse_many(f"{GEMM}{line}\n{MAX_ROWS}")) == 1


def test_two_kernels_without_a_separator_are_one_program():
    assert len(parse(GEMM + MAX_ROWS).kernels) == 2


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("kernel", "kernl", (1, 1), "found `kernl`; did you mean `kernel`?"),
        ("@gemm", "gemm", (1, 8), "expected `@`, found `gemm`"),
        ("A: f16[M", "A: bf61[M", (1, 17), "did you mean `bf16`?"),
        ("where", "were", (2, 5), "did you mean `where`?"),
        ("M = 96", "M 96", (2, 13), "expected `=`, found `96`"),
        ("M = 96, N", "M = 96 N", (2, 18), "expected `where`, `alias`, `requires` or `{`"),
        ("(ti, tj) in [", "(ti) in [", (3, 8), "a grid of 1 variable(s) and 2 extent(s)"),
        ("BN)] {", "BN)] order groupd(8) {", (3, 59), "did you mean `grouped`?"),
        ("alloc acc", "aloc acc", (4, 5), "found `aloc`; did you mean `alloc`?"),
        ("register", "global", (4, 16), "expected a space (local, shared, register, fragment)"),
        ("fill acc, 0", "fill acc, x", (7, 15), "expected a number, found `x`"),
        ("acc: add", "acc: plus", (8, 18), "expected an operator (add, mul"),
        ("0 .. P", "0 ... P", (9, 21), "unexpected character '.'"),
        ("0 .. P {", "0 .. P\n{", (9, 23), "expected `{`, found end of line"),
        ("ti * BM +: BM, kp", "_0 +: BM, kp", (10, 24), "names that start with `_` are kept"),
        ("dot acc, a, b", "dot acc, a, b tf23", (13, 23), "did you mean `tf32`?"),
        ("dot acc, a, b", "dot acc, a, b barrier", (13, 23), "found `barrier`"),
        ("dot acc, a, b", "dot acc, a b", (13, 20), "expected `,`, found `b`"),
        ("BN], acc masked", "BN] masked, acc", (17, 43), "expected `,`, found `masked`"),
        ("store C[ti * BM +: BM, ", "store C[ti * BM +: BM) ", (17, 26), "expected `,` or `]`"),
    ],
)
def test_a_mistake_is_shown_where_it_is(old: str, new: str, place: tuple[int, int], message: str):
    error = refused(edited(GEMM, (old, new)) if GEMM.count(old) == 1 else GEMM.replace(old, new, 1))
    assert message in error.message
    assert (error.line, error.column) == place


def test_an_error_prints_position_message_line_and_caret():
    assert str(refused(edited(GEMM, ("fill acc, 0", "fil acc, 0")))) == (
        "line 7, column 5: expected a statement, found `fil`; did you mean `fill`?\n"
        "      fil acc, 0\n"
        "      ^"
    )


def test_the_caret_of_a_long_line_stays_near_its_column():
    error = str(refused(body(f"let x = {'y + ' * 3000}?"))).splitlines()
    assert max(map(len, error)) < 300
    assert error[1][error[2].index("^")] == "?"


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in str(refused(body("let x = \x1b[2J \x00")))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["if x < y < z {", "}"], "comparisons do not chain; join them with `and`"),
        (["if x + 1 {", "}"], "expected a comparison, found `{`"),
        (["if x and {", "}"], "expected an index expression, found `{`"),
        (["load t, A[x +: 2] over (m = 0 +: 1)"], "`+:` in an index and `over` exclude each other"),
        (["load t, A[m] over (m = 0)"], "expected `+:`, found `)`"),
        (["ewise t = rsqr(a)"], "unknown function `rsqr`; did you mean `rsqrt`?"),
        (["ewise t = max(a)"], "`max` takes 2 argument(s), found 1"),
        (["ewise t = cast(f23, a)"], "did you mean `f32`?"),
        (["ewise t = mask(a, 0, k, K)"], "expected `,`, found `)`"),
        (["ewise t = mask(a, k, 0, K, 0)"], "expected an axis, found `k`"),
        (["ewise t = mask(a, 0, k, K, b)"], "expected a number, found `b`"),
        (["ewise t = mask(a, 0, k < K, K, 0)"], "expected `,`, found `<`"),
        (["ewise t = mask(a, 0, A[k], K, 0)"], "element is read by a statement of its own"),
        (["ewise t = part(a, 0, 1)"], "expected `,`, found `)`"),
        (["ewise t = part(a, 0, i, 2)"], "expected a number, found `i`"),
        (["ewise t = part(a, 0, -1, 2)"], "expected a number, found `-`"),
        (["ewise t = part(0, 2)"], "expected `,`, found `)`"),
        (["ewise t = reduce_an(a, 0)"], "did you mean `reduce_and`?"),
        (["paralel i in 0 .. 4 {", "}"], "did you mean `parallel`?"),
        (["ewise t = a % b"], "expected end of line, found `%`"),
        (["fill t, 1e999"], "beyond the range of f64; write inf"),
        (["fill t, 9223372036854775808"], "needs more than 64 bits"),
        (["grid1d (u) in [4] {", "}"], "expected `persistent`, found `{`"),
        (["for i in 0 .. 4 {"], "this `{` is never closed"),
        (["}"], "expected `kernel`, found `}`"),
    ],
)
def test_a_wrong_statement_is_refused(lines: list[str], message: str):
    assert message in refused(body(*lines)).message


def test_a_clause_cannot_be_given_twice():
    twice = edited(GEMM, ("P = max", "Q = 1\n where P = max"))
    assert "a second `where`" in refused(twice).message


@pytest.mark.parametrize("text", [None, b"kernel", 3, ["kernel"]])
def test_what_is_no_text_is_refused(text: object):
    with pytest.raises(ParseError, match="expected text"):
        parse(text)  # pyright: ignore[reportArgumentType]


# --- limits ---------------------------------------------------------------------------------------


def nested_blocks(depth: int, *innermost: str) -> str:
    """A kernel whose blocks nest `depth` deep, its own among them."""
    return body(*("if a {",) * (depth - 1), *innermost, *("}",) * (depth - 1))


def deep_expr(height: int) -> str:
    return "min(a, " * height + "b" + ")" * height


def test_programs_at_every_limit_of_depth_parse_print_and_compare():
    ewise = " + ".join(["a"] * (MAX_OPERATIONS + 1))
    innermost = (
        f"let x = {deep_expr(MAX_NESTING)}",
        f"let x = {'x // ' * MAX_NESTING}y",
        f"ewise t = {ewise}",
        f"ewise t = {'-' * MAX_OPERATIONS}a",
        f"if {'not ' * (MAX_NESTING - 1)}x < {deep_expr(MAX_NESTING)} {{",
        "}",
        f"if {'a and (b or (' * ((MAX_NESTING - 2) // 2)}x < 1{'))' * ((MAX_NESTING - 2) // 2)} {{",
        "}",
    )
    text = nested_blocks(MAX_NESTING - 1, *innermost)
    program = parse(text)
    assert parse(to_text(program)) == program
    assert hash(parse(text)) == hash(program)
    assert repr(parse(text)) == repr(program)


@pytest.mark.parametrize(
    "text",
    [
        nested_blocks(MAX_NESTING + 1),
        nested_blocks(100_000),
        body(f"let x = {deep_expr(MAX_NESTING + 1)}"),
        body(f"let x = {deep_expr(100_000)}"),
        body(f"let x = {'(' * 100_000}"),
        body(f"let x = {'x // ' * 100_000}x"),
        body(f"if {'not ' * 100_000}a {{", "}"),
        body(f"if {'(' * 100_000}a {{", "}"),
        body(f"ewise t = {'-' * 100_000}a"),
        body(f"ewise t = {'a + ' * 100_000}a"),
        body(f"ewise t = {'exp(' * 100_000}a"),
        body(f"let {'x' * 200} = 1"),
        body(f"let x = {'1' * 5000}"),
        body(f"let x = {'2 * ' * 20_000}2"),
        body(f"let x = {'x * ' * 100_000}x"),
        " " * (MAX_CHARACTERS + 1),
    ],
    ids=lambda text: re.sub(r"\s+", " ", text)[:40],
)
def test_text_beyond_a_limit_is_refused_soon(text: str):
    start = time.perf_counter()
    refused(text)
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("operator", ["+", "*"])
@pytest.mark.parametrize("names", [("a",), tuple(f"a{i}" for i in range(10_000))])
def test_a_chain_of_ten_thousand_operands_reads_back(operator: str, names: tuple[str, ...]):
    expr = parse_expr(f" {operator} ".join(names * (10_000 // len(names))))
    assert parse_expr(expr_text(expr)) == expr


# --- nothing but ParseError -----------------------------------------------------------------------


def only_parse_errors(text: str) -> bool:
    """Whether the text parsed, and then reads back. Anything raised but a ParseError fails the
    test that asks."""
    try:
        programs = parse_many(text)
    except ParseError:
        return False
    assert parse_many("# -----\n".join(map(to_text, programs))) == programs
    return True


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_raise_only_parse_errors(data: bytes):
    assert not only_parse_errors(data.decode("latin-1")) or not data.strip()


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet=st.characters(), max_size=100), st.integers(0, len(GEMM)))
def test_random_unicode_inside_a_program_raises_only_parse_errors(junk: str, at: int):
    only_parse_errors(GEMM[:at] + junk + GEMM[at:])


PIECES = (
    *"(){}[],:=<>+-*/%@#._ \n\t\r\0",
    *("//", "..", "+:", "==", "0", "1.5", "-1", "99999999999999999999", "inf", "1e999", "é", "x"),
    *("_0", "not", "and", "min(", "ceildiv", "load", "reduce", "else", "over", "masked", "# -----"),
)


def mutated(rng: Random, text: str) -> str:
    """`text` with a few pieces put in, cut out, doubled or moved."""
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + rng.choice((0, 1, 1, 2, 5, 30)))
        piece = rng.choice((rng.choice(PIECES), "", text[i:j], text[i:j] * 2))
        at = rng.choice((i, j, rng.randrange(len(text) + 1)))
        text = text[:i] + text[j:]
        text = text[:at] + piece + text[at:]
    return text


@pytest.mark.timeout(600)
def test_mutated_programs_raise_only_parse_errors(request: pytest.FixtureRequest):
    rng = Random(2)
    count = 20_000 if request.config.getoption("--long") else 1_500
    texts = [GEMM, MAX_ROWS, *(to_text(random_program(seed)) for seed in range(20))]
    parsed = [only_parse_errors(mutated(rng, rng.choice(texts))) for _ in range(count)]
    assert 0.02 < sum(parsed) / count < 0.6, "mutants must be near programs, on both sides"


GROWTH = {
    "E": ("(E)", "E + E", "E - E", "E * E", "E // E", "E % E", "-E", "min(E, E)"),
    "C": ("E < E", "(C)", "C and C", "C or C", "not C", "not not C"),
    "T": ("(T)", "T + T", "T - T", "T * T", "T / T", "-T", "exp(T)", "max(T, T)"),
}
LEAVES = {"E": ("x", "y", "2", "-3"), "C": ("f", "g"), "T": ("a", "b", "1", "-0.5")}


def derived(rng: Random, text: str, size: int) -> str:
    """A text that grows from a capital by `size` derivations, the leftmost capital most often."""
    for _ in range(size):
        places = [m.start() for m in re.finditer("[ECT]", text)]
        at = rng.choice((places[0], rng.choice(places)))
        text = text[:at] + rng.choice(GROWTH[text[at]]) + text[at + 1 :]
    return re.sub("[ECT]", lambda m: rng.choice(LEAVES[m.group()]), text)


@pytest.mark.timeout(600)
def test_whatever_parses_reads_back_up_to_the_limits(request: pytest.FixtureRequest):
    rng = Random(3)
    count = 3000 if request.config.getoption("--long") else 150
    outcomes = set()
    for _ in range(count):
        size = rng.choice((3, 10, 40, 120, 200))
        cond, expr, tile = (derived(rng, s, size) for s in "CET")
        lines = (f"if {cond} {{", "}"), (f"let z = {expr}",), (f"ewise t = {tile}",)
        outcomes |= {(n, only_parse_errors(body(*line))) for n, line in enumerate(lines)}
    assert len(outcomes) == 6, "each kind must be met on both sides of its limits"


def test_an_error_of_another_class_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    from loopir import expr_parser

    monkeypatch.setattr(expr_parser, "_divide", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        only_parse_errors(body("let x = y // z"))


def test_a_parse_error_is_an_error_of_the_user():
    assert issubclass(ParseError, LoopIRError)


# --- speed ----------------------------------------------------------------------------------------


def best_time_s(work, repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def test_a_gemm_parses_and_prints_in_milliseconds():
    program = parse(GEMM)
    assert best_time_s(lambda: parse(GEMM)) < 0.005
    assert best_time_s(lambda: to_text(program)) < 0.005


def test_importing_the_text_form_loads_nothing_heavy():
    code = "import loopir.parser, loopir.printer, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "sympy" in loaded
    assert loaded.isdisjoint({"numpy", "networkx", "torch", "triton"})
