"""Each rule of the verifier has edits that break it and neighbours that are accepted."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import sympy

from loopir.errors import VerifyError
from loopir.nodes import (
    Access,
    Alloc,
    Cmp,
    Fill,
    Grid,
    GridAxis,
    If,
    Kernel,
    Let,
    Literal,
    Param,
    Program,
    Reduce,
    Store,
    TileAxis,
)
from loopir.parser import parse
from loopir.printer import excerpt
from loopir.symbols import sym, to_expr
from loopir.types import Direction, DType, Space
from loopir.verifier import RULES, verify, violations
from tests.support.random_programs import random_program
from tests.support.texts import GEMM, edited
from tests.support.verifier_cases import ACCEPTED, BASES, CASES


def codes_of(program: Program) -> set[str]:
    return {v.rule for v in violations(program)}


@pytest.mark.parametrize("name", BASES)
def test_a_well_formed_program_has_no_violation(name):
    program = parse(BASES[name])
    assert violations(program) == ()
    verify(program)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.codes}: {c.new[:40]!r}")
def test_one_edit_breaks_exactly_these_rules(case):
    assert violations(parse(case.base)) == ()
    broken = parse(edited(case.base, (case.old, case.new)))
    assert codes_of(broken) == set(case.codes.split())


@pytest.mark.parametrize("edit", ACCEPTED, ids=lambda e: repr(e[2])[:50])
def test_one_edit_away_is_accepted(edit):
    base, old, new = edit
    assert violations(parse(edited(base, (old, new)))) == ()


def test_every_rule_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()}
    assert covered | BUILT_CODES == set(RULES)


# --- what the text form cannot say

BUILT_CODES = {"V01", "V09", "V18", "V40"}
BODY = Let("x", sym("M") + 1)


def built(*body, params: tuple[Param, ...] = ()) -> Program:
    return Program((Kernel("k", params, (Grid((GridAxis("t", to_expr(4)),), body),)),))


@pytest.mark.parametrize(
    "expr",
    [sym("M") / 2, sym("M") ** sym("M"), sympy.sqrt(sym("M")), sympy.Symbol("M"), sympy.Float(2)],
    ids=str,
)
def test_arithmetic_that_is_not_integer_is_refused(expr):
    assert codes_of(built(BODY)) == set()
    assert codes_of(built(replace(BODY, expr=expr))) == {"V09"}


def test_a_comparison_that_is_not_one_is_refused():
    assert codes_of(built(If(Cmp("<=", sym("t"), sym("M")), (BODY,)))) == set()
    assert codes_of(built(If(Cmp("<>", sym("t"), sym("M")), (BODY,)))) == {"V18"}


@pytest.mark.parametrize(
    "name", ["a b", "1x", "", "min", "inf", "x;y", "\u00e9", "x\n", "_", "not"]
)
def test_a_name_that_is_no_identifier_never_reaches_a_backend(name):
    assert codes_of(built(replace(BODY, name=name))) == {"V01"}
    assert codes_of(built(Let("x", sym(name)))) == {"V01"}
    assert codes_of(built(params=(Param(name, DType.F32, (to_expr(4),)),))) == {"V01"}
    program = built(BODY)
    assert codes_of(Program((replace(program.kernels[0], name=name),))) == {"V01"}


def test_a_slice_may_call_its_axes_by_position_only():
    tile = Alloc("x", Space.REGISTER, DType.F32, (to_expr(4),))
    out = Param("Y", DType.F32, (to_expr(4),), Direction.OUT)
    for name, limit, codes in (
        ("_0", None, set()),
        ("_0", to_expr(4), {"V01"}),
        ("_9", None, {"V01"}),
        ("_x", None, {"V01"}),
        ("__0", None, {"V01"}),
    ):
        access = Access("Y", (sym(name),), (TileAxis(name, to_expr(0), to_expr(4), limit),))
        body = (tile, Fill("x", Literal(0)), Store(access, "x"))
        assert codes_of(built(*body, params=(out,))) == codes


@pytest.mark.parametrize("space", [Space.GLOBAL, Space.WORKSPACE])
def test_an_alloc_makes_tiles_of_a_block_only(space):
    assert codes_of(built(Alloc("x", Space.SHARED, DType.F32, (to_expr(4),)))) == set()
    assert codes_of(built(Alloc("x", space, DType.F32, (to_expr(4),)))) == {"V21"}
    assert codes_of(built(Alloc("x", Space.SHARED, DType.F32, ()))) == set()


def test_what_is_empty_is_refused():
    assert codes_of(Program((Kernel("k", (), (Grid((), ()),)),))) == {"V11"}
    assert codes_of(Program((Kernel("k", (), ()),))) == {"V11"}
    assert codes_of(built(Reduce((), ()))) == {"V37"}
    assert codes_of(built(params=(Param("A", DType.F32, ()),))) == {"V05"}
    assert codes_of(Program(())) == {"V40"}


# --- the report


def test_every_violation_is_listed_and_shown_inside_the_ir():
    broken = edited(
        GEMM,
        ("reduce (acc: add)", "reduce (acc: max)"),
        ("    fill acc, 0\n", ""),
        ("B: f16", "B: bf16"),
        ("alloc a: shared f16[BM, BK]", "alloc a: shared f16[BM, Q]"),
    )
    with pytest.raises(VerifyError) as error:
        verify(parse(broken))
    text = str(error.value)
    assert text.startswith("4 violation(s)")
    assert all(code in text for code in ("V21: ", "V26: ", "V38: ", "V39: "))
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith("alloc a: shared f16[BM, Q]"))
    assert lines[at + 1].index("^") == lines[at].index("alloc a") + len("alloc ")
    assert "found: nothing has written accumulator `acc` before" in text


def test_a_violation_marks_a_text_of_its_line():
    for case in CASES:
        broken = parse(edited(case.base, (case.old, case.new)))
        for violation in violations(broken):
            shown = excerpt(broken, violation.path, violation.focus).splitlines()
            at = next(i for i, line in enumerate(shown) if set(line) <= set(" |^"))
            marked = shown[at - 1][shown[at].index("^") : shown[at].rindex("^") + 1]
            assert marked == violation.focus or not violation.focus, violation


def test_a_long_list_is_cut_and_says_so():
    fills = "fill nothing, 0\n" * 130
    with pytest.raises(VerifyError, match=r"130 violation.*\n(?s:.*)and 30 more"):
        verify(parse(edited(GEMM, ("    fill acc, 0", f"{fills}fill acc, 0"))))


def test_random_programs_of_any_nonsense_get_codes_and_no_exception():
    seen = set()
    for seed in range(80):
        program = random_program(seed)
        found = violations(program)
        seen |= {v.rule for v in found}
        with pytest.raises(VerifyError):
            verify(program)
    assert len(seen) > 20


HOSTILE = """\
workspace C: f8e4m3[C, q - 9]
workspace C: bool[0 - 1]
kernel @min(out A: i8[acc, A], A: f64[x % (y - 7)])
    where A = B, B = A, Z = 0, Y = 7 // Z, x = 0 - 5
    alias(A, nothing)
    requires zeroed(Q), at_most(x, x), at_most(acc, kp) {
  wave acc in acc .. acc step acc {
    reduce (acc: argmax, acc: or, zz: scan) {
      grid1d (acc) in [acc] persistent {
        set acc = set - 1
        arrive acc, acc[acc], 0
        if acc or not acc {
          dot acc, acc, acc tf32x3
          ewise acc = cast(bool, sum(acc, 7) + expand(acc, 9) * inf)
          load acc, acc[acc +: acc, acc] masked else inf descriptor
          store A[k, k], acc descriptor
          atomic scan A[k] over (k = k +: k < k, k = 0 +: 1), acc
          alloc acc: fragment i64[Z, 3 // Z]
        }
      }
    }
    grid (acc, acc) in [acc, 0 - 1] order grouped(0) {
      while acc {
        let acc = acc[acc]
      }
    }
  }
}
"""


def test_a_program_with_dozens_of_violations_gets_them_all():
    program = parse(edited(HOSTILE, ("@min", "@m")))
    assert len(violations(program)) > 40
    assert len(codes_of(program)) > 20
    with pytest.raises(VerifyError):
        verify(program)


def test_bindings_that_square_each_other_end():
    squares = ", ".join(f"X{i} = X{i - 1} * X{i - 1}" for i in range(1, 60))
    text = edited(GEMM, ("where M", f"where X0 = 1000000000, {squares}, M"))
    assert codes_of(parse(text)) == {"V08"}


def test_every_rule_is_documented_by_its_title():
    text = (Path(__file__).parents[2] / "docs" / "verifier.md").read_text()
    rows = dict(re.findall(r"^\| (V\d\d) \| (.*?) \| .+ \|$", text, re.MULTILINE))
    assert rows == {code: rule.title for code, rule in RULES.items()}
