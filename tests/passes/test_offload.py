"""The pass `offload`: what becomes of parallel loops, the complete set of codes of each program
that it refuses, an accepted neighbour, and that blocks do what one block does in order."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from loopir.build import gemm
from loopir.errors import InternalError, LaunchError
from loopir.interp import DivisorError, InterpError, random_inputs, run
from loopir.nodes import Grid, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from passes import offload
from passes.base import Refused
from passes.offload import OffloadPass
from passes.pipeline_text import parse_pass
from tests.support.differential import difference
from tests.support.interp import same_bits
from tests.support.legal_programs import Case as LegalCase
from tests.support.legal_programs import legal_case
from tests.support.mutations import changed
from tests.support.refusals import check_accepted, check_refused
from tests.support.texts import GEMM, MAX_ROWS, edited
from tests.support.unplaced import in_one_block, with_parallel_loops

Edit = tuple[str, str]
OFFLOAD = OffloadPass()

#: C = A + B, each element for itself
NEST = """\
kernel @add(A: i32[M, N], B: i32[M, N], out C: i32[M, N])
    where M = 5, N = 6 {
  parallel i in 0 .. M {
    parallel j in 0 .. N {
      alloc a: local i32[]
      alloc b: local i32[]
      load a, A[i, j]
      load b, B[i, j]
      ewise a = a + b
      store C[i, j], a
    }
  }
}
"""
BLOCKS = """\
kernel @add(A: i32[M, N], B: i32[M, N], out C: i32[M, N])
    where M = 5, N = 6 {
  grid (i, j) in [M, N] {
    alloc a: local i32[]
    alloc b: local i32[]
    load a, A[i, j]
    load b, B[i, j]
    ewise a = a + b
    store C[i, j], a
  }
}
"""


@dataclass(frozen=True)
class Case:
    """The base text with the `setup` edits is accepted; with the fault on top of them it is refused
    with just `codes`."""

    name: str
    codes: str
    fault: tuple[Edit, ...]
    setup: tuple[Edit, ...] = ()
    base: str = field(default=NEST, repr=False)


STORE = "      store C[i, j], a\n"
ATOMIC = (
    (STORE, "      atomic add C[i, 0], a\n"),
    ("M = 5, N = 6 {", "M = 5, N = 6\n    requires zeroed(C) {"),
)
IN_PLACE = (("out C", "inout C"), ("load b, B[i, j]", "load b, C[i, j]"))
LAST = "      load a, A[i, j]\n"

CASES = [
    Case("a_grid", "OF01", ((NEST, BLOCKS),)),
    Case("starts_at_one", "OF02", (("in 0 .. M", "in 1 .. M"),)),
    Case("steps_of_two", "OF02", (("in 0 .. N", "in 0 .. N step 2"),)),
    Case("starts_at_an_open_size", "OF02", (("in 0 .. M", "in Z .. M"),)),
    Case("a_triangle", "OF02", (("in 0 .. N", "in 0 .. i + 1"),)),
    Case("both_loops", "OF02", (("in 0 .. M", "in 1 .. M"), ("in 0 .. N", "in 1 .. N"))),
    Case("one_row_for_all", "OF03", (("C[i, j]", "C[0, j]"),)),
    Case("two_columns_for_one", "OF03", (("C[i, j]", "C[i, j // 2]"),)),
    Case("reads_what_a_neighbour_writes", "OF03", (("b, C[i, j]", "b, C[i, 0]"),), IN_PLACE),
    Case("reads_one_column_ahead", "OF03", (("b, C[i, j]", "b, C[i, N - 1 - j]"),), IN_PLACE),
    Case(
        "an_alias_of_what_is_written",
        "OF03",
        (("N = 6 {", "N = 6\n    alias(B, C) {"),),
    ),
    Case("atomics_of_two_operators", "OF03",
         ((LAST, LAST + "      atomic max C[i, 0], a\n"),), ATOMIC),
    Case("an_atomic_and_a_store", "OF03", ((LAST, LAST + "      store C[i, 0], a\n"),), ATOMIC),
    Case("several", "OF02 OF03", (("in 0 .. M", "in 1 .. M"), ("C[i, j]", "C[0, j]"))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fault_is_refused_with_just_these_codes(case: Case):
    check_refused(OFFLOAD, edited(edited(case.base, *case.setup), *case.fault), case.codes)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_neighbour_without_the_fault_is_accepted(case: Case):
    check_accepted(OFFLOAD, edited(case.base, *case.setup))


def test_every_code_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()}
    assert covered == {f"OF{n:02}" for n in range(1, 4)}


def test_a_persistent_kernel_is_refused():
    text = edited(BLOCKS, ("grid (i, j) in [M, N] {", "grid1d (i) in [M] persistent {"),
                  ("store C[i, j]", "store C[i, 0]"), ("A[i, j]", "A[i, 0]"),
                  ("B[i, j]", "B[i, 0]"))  # fmt: skip
    verdict = OFFLOAD.can_be_applied(parse(text))
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"OF01"}
    assert "found: a grid1d, whose iterations are blocks already" in verdict.explain()


def test_a_refusal_shows_the_place_with_a_caret_and_a_hint():
    text = OFFLOAD.can_be_applied(parse(edited(NEST, ("C[i, j]", "C[0, j]")))).explain()
    assert (
        text
        == """\
offload: not applicable, 1 reason(s)

OF03: no dependence crosses the iterations of the parallel loops
   8 |       load b, B[i, j]
   9 |       ewise a = a + b
  10 |       store C[0, j], a
     |             ^
  11 |     }
  12 |   }
  found: iterations of i may meet in C: two write one element
  hint:  index what is written by i, or make i a loop inside"""
    )


def test_a_loop_that_is_no_range_shows_its_variable():
    text = OFFLOAD.can_be_applied(parse(edited(NEST, ("in 0 .. N", "in 0 .. i + 1")))).explain()
    assert "  4 |     parallel j in 0 .. i + 1 {\n    |              ^\n" in text
    assert "found: the end of j depends on i\n" in text


def test_a_refusal_names_the_alias():
    text = OFFLOAD.can_be_applied(parse(edited(NEST, ("N = 6 {", "N = 6\n    alias(B, C) {"))))
    assert "  found: iterations of i may meet in C, an alias of B: one reads" in text.explain()
    assert "  11 |       store C[i, j], a\n     |             ^\n" in text.explain()


def test_two_statements_that_meet_in_two_ways_are_one_reason():
    verdict = OFFLOAD.can_be_applied(parse(edited(NEST, *IN_PLACE, ("b, C[i, j]", "b, C[i, 0]"))))
    assert isinstance(verdict, Refused)
    assert len(verdict.reasons) == 1
    assert "one reads what another writes" in verdict.reasons[0].found


# --- what changes


def test_the_band_becomes_one_grid():
    assert to_text(OFFLOAD.apply(parse(NEST))) == BLOCKS


def test_a_sequential_loop_below_stays_a_loop():
    text = edited(NEST, ("parallel j", "for j"))
    assert to_text(OFFLOAD.apply(parse(text))) == edited(
        text, ("parallel i in 0 .. M {", "grid (i) in [M] {")
    )


def test_three_loops_become_three_axes_in_order():
    text = edited(NEST, ("i in 0 .. M {", "batch in 0 .. 1 {\n  parallel i in 0 .. M {"),
                  ("  }\n}", "  }\n}\n}"))  # fmt: skip
    (root,) = OFFLOAD.apply(parse(text)).kernels[0].body
    assert isinstance(root, Grid)
    assert [axis.iv for axis in root.axes] == ["batch", "i", "j"]


def test_a_canonical_gemm_is_the_one_that_was_taken_apart():
    for made in (gemm(40, 50, 70), gemm(None, 50, None, "f32"), gemm(0, 5, 0, "i8")):
        assert OFFLOAD.apply(with_parallel_loops(made)) == made


def test_kernels_with_a_grid_stay_as_they_are():
    two = OFFLOAD.apply(parse(NEST + MAX_ROWS))
    assert to_text(two) == BLOCKS + "\n" + MAX_ROWS
    plan = OFFLOAD.can_be_applied(parse(NEST + MAX_ROWS)).plan
    assert OFFLOAD.report(plan) == (("grid", "i < M * j < N"),)


def test_a_loop_to_a_negative_end_has_no_blocks():
    program = parse(edited(NEST, ("0 .. M", "0 .. M - 7"), ("0 .. N", "0 .. N - 8")))
    after = OFFLOAD.apply(program)
    assert "grid (i, j) in [max(0, M - 7), max(0, N - 8)] {" in to_text(after)
    arrays = random_inputs(program, 1)
    again = {n: a.copy() for n, a in arrays.items()}
    run(program, arrays)
    run(after, again)
    assert all(same_bits(arrays[n], again[n]) for n in arrays)
    wrong = parse(edited(BLOCKS, ("[M, N] {", "[M - 7, N - 8] {")))
    with pytest.raises(DivisorError):  # it has six blocks
        run(wrong, random_inputs(wrong, 1))


def test_input_is_left_as_it_was():
    program = parse(NEST)
    OFFLOAD.apply(program)
    assert program == parse(NEST)


def test_the_pass_is_named_in_pipelines():
    assert parse_pass("offload") == OFFLOAD
    assert str(OFFLOAD) == "offload"


# --- the same numbers: blocks in any order against one block that runs all iterations in order


def outcome(parallel: Program, reference: Program, case: LegalCase) -> str:
    """ "equal", the codes of a refusal, or why there is nothing to compare. AssertionError: the
    blocks do something else than the iterations in order."""
    if violations(parallel) or violations(reference):
        return "broken rule"
    verdict = OFFLOAD.can_be_applied(parallel)
    if isinstance(verdict, Refused):
        return " ".join(sorted(verdict.codes))
    after = OFFLOAD.apply(parallel)
    assert parse(to_text(after)) == after
    try:
        found = difference(reference, after, case.sizes, case.seed, schedules=2)
    except (InterpError, LaunchError):
        return "wrong before"
    assert not found, f"{found}\n{to_text(parallel)}"
    return "equal"


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    return 2000 if request.config.getoption("--long") else 25


@pytest.mark.timeout(600)
def test_blocks_do_what_the_iterations_of_a_random_program_do_in_order(count: int):
    tally = Counter[str]()
    for case in map(legal_case, range(count)):
        tally[outcome(with_parallel_loops(case.program), in_one_block(case.program), case)] += 1
    assert tally["equal"] > 0.7 * count, tally


#: changes that let iterations meet
MEETING = (
    *("a_grid_axis_left_out", "overlapping_tiles", "wrapped_around", "shifted", "a_store_before"),
    *("outputs_that_are_one", "an_input_is_the_output", "the_output_is_read_in_the_loop"),
    *("the_output_is_read_before", "stored_to_a_workspace", "an_atomic_writeback"),
    *("words_exchanged", "a_size_changed"),
)


def changed_outcomes(count: int) -> Counter[str]:
    tally = Counter[str]()
    for seed in range(count):
        rng, case = Random(seed), legal_case(seed)
        program = changed(rng, case.program, rng.choice(MEETING))
        tally[outcome(with_parallel_loops(program), in_one_block(program), case)] += 1
    return tally


@pytest.mark.timeout(600)
def test_a_changed_program_is_refused_or_its_blocks_do_what_its_iterations_do(count: int):
    tally = changed_outcomes(count)
    assert tally["OF03"] > 0.1 * count, tally
    assert tally["equal"] > 0.1 * count, tally


def test_without_of03_blocks_race(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offload, "_carried", lambda *_: iter(()))
    with pytest.raises(AssertionError, match="RaceError"):
        changed_outcomes(60)


def test_a_grid_that_breaks_a_rule_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offload, "_grid", lambda kernel, band: Grid((), band[-1][1].body))
    with pytest.raises(InternalError, match="a grid needs an axis"):
        OFFLOAD.apply(parse(NEST))


def test_gemm_as_parallel_loops_keeps_every_bit():
    program = with_parallel_loops(parse(GEMM))
    arrays = random_inputs(program, 3, integer_valued=False)
    again = {n: a.copy() for n, a in arrays.items()}
    run(program, arrays, seed=1)
    run(OFFLOAD.apply(program), again, seed=2)
    assert all(same_bits(arrays[n], again[n]) for n in arrays)
