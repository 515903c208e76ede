"""Almost-legal programs: what a pass accepts, it rewrites soundly; what it refuses, it says so.

Each is a legal program, which stream-k accepts, with one change. It is caught, by the verifier, by
a criterion, or because it was wrong before any pass (a race, a read of poison, a size without a
value), or it has the same results after the pass, under several schedules.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import TypeAlias

import pytest

from loopir.errors import LaunchError, NotApplicable
from loopir.interp import InterpError
from loopir.nodes import Program, Store
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify, violations
from loopir.walk import walk_program
from passes.base import Pass, Refused
from passes.stream_k import Decomposition, Merge, StreamKPass
from passes.stream_k.criteria import CRITERIA, accumulators, output, sizes
from passes.tile_order import TileOrderPass
from tests.support.differential import difference, random_stream_k, reproducer
from tests.support.edits import spliced
from tests.support.legal_programs import Case, legal_case
from tests.support.mutations import MUTATIONS, changed, mutated
from tests.support.shrinking import shrunk

CASES, LONG_CASES, CONTROLS = 8, 400, 36
SCHEDULES = 3
EQUAL, WRONG_BEFORE = "equal", "wrong before"
Asked: TypeAlias = tuple[Program, Case, StreamKPass]


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    return LONG_CASES if request.config.getoption("--long") else CASES


def accepted_cases(first_seed: int = 0) -> Iterator[tuple[Case, StreamKPass]]:
    """Legal programs with options that accept them, without end."""
    yield from (found for seed in itertools.count(first_seed) if (found := accepted(seed)))


@cache
def accepted(seed: int) -> tuple[Case, StreamKPass] | None:
    case = legal_case(seed)
    made = random_stream_k(Random(seed), case)
    return (case, made) if made.can_be_applied(case.program) else None


def outcomes(program: Program, case: Case, made: Pass) -> frozenset[str]:
    """What catches a program: codes, or WRONG_BEFORE; else EQUAL. AssertionError: the pass does
    wrong."""
    rules = frozenset(v.rule for v in violations(program))
    if rules:
        return rules
    text = to_text(program)
    verdict = made.can_be_applied(program)
    if isinstance(verdict, Refused):
        assert refusal(made, program) == verdict.explain()
        assert to_text(program) == text
        return verdict.codes
    after = made.apply(program)
    verify(after)
    assert to_text(program) == text
    assert parse(to_text(after)) == after
    try:
        found = difference(program, after, case.sizes, case.seed, SCHEDULES)
    except (InterpError, LaunchError):
        return frozenset((WRONG_BEFORE,))
    assert not found, found
    return frozenset((EQUAL,))


def refusal(made: Pass, program: Program) -> str:
    """The text of the error that `apply` raises."""
    try:
        made.apply(program)
    except NotApplicable as error:
        return str(error)
    return "applied"


def fault(program: Program, case: Case, made: Pass) -> str:
    """What the pass does wrong: it raises, whatever it is, or the result is wrong."""
    try:
        outcomes(program, case, made)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def checked(program: Program, case: Case, made: Pass) -> frozenset[str]:
    """`outcomes`; fails the test, with a shrunk program, if the pass does wrong."""
    try:
        return outcomes(program, case, made)
    except Exception:
        small = shrunk(program, lambda p: bool(fault(p, case, made)))
        pytest.fail(reproducer(small, case.seed, (made,), fault(small, case, made)))


def changed_programs(name: str, count: int) -> Iterator[Asked]:
    """`count` programs with the change of that name."""
    for case, made in accepted_cases():
        program = mutated(Random(case.seed), case.program, name)
        if program is not None and program != case.program:
            yield program, case, made
            count -= 1
        if not count:
            return


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.timeout(600)
def test_a_changed_program_is_caught_or_has_the_same_results(name: str, count: int):
    tally = Counter[str]()
    for program, case, made in changed_programs(name, count):
        tally.update(checked(program, case, made))
    print(f"{name}: {dict(tally)}")
    assert (MUTATIONS[name].caught_by or {EQUAL}) <= tally.keys(), f"{name}: {dict(tally)}"


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.timeout(600)
def test_a_changed_program_of_whole_tiles_is_refused_for_its_counts_only(name: str, count: int):
    """Data-parallel merges nothing: whatever else changes, results are those of the grid form."""
    tally = Counter[str]()
    for program, case, made in changed_programs(name, count // 3):
        rng = Random(case.seed)
        whole = StreamKPass(
            decomposition=Decomposition.DATA_PARALLEL,
            units=rng.choice((None, 1, 2, 5)),
            permuted=rng.random() < 0.3,
            launch_constants=made.launch_constants,
        )
        tally.update(checked(program, case, whole))
    print(f"{name}: {dict(tally)}")
    assert {code for code in tally if code.startswith("SK")} <= COUNTS


#: of the structure of a program, its panels and its tiles
COUNTS = {"SK01", "SK02", "SK05", "SK06", "SK15"}

#: changes that are often harmless, and those that may be anything
SUBTLE = (
    *(name for name, made in MUTATIONS.items() if not made.caught_by),
    *("a_statement_gone", "a_statement_twice", "two_statements_swapped", "a_statement_moved"),
    *("a_size_changed", "words_exchanged", "one_panel_less", "unmasked", "a_larger_output"),
    *("a_grid_axis_left_out", "a_writeback_in_waves", "loaded_in_the_first_panel_only"),
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunk", range(4))
def test_a_program_with_several_changes_is_caught_or_has_the_same_results(chunk: int, count: int):
    tally, rng = Counter[str](), Random(chunk)
    for case, made in itertools.islice(accepted_cases(100_000 * (chunk + 1)), 5 * count):
        program = case.program
        for name in rng.choices(SUBTLE, k=rng.choice((2, 2, 3, 4))):
            program = changed(rng, program, name)
        tally.update(checked(program, case, made))
        if case.seed % 4 == 0:
            checked(program, case, TileOrderPass(group=2))
    print(dict(tally))
    assert tally[EQUAL] > count, "too few changes are harmless"
    assert len(tally) > 8, "too few rules and criteria are met"


# --- controls: without a criterion, a change leads to a wrong result ------------------------------

BITES = {
    accumulators.associative_operators: "another_operator",
    accumulators.nothing_carried: "last_panels_tile",
    accumulators.starts_at_identity: "starts_elsewhere",
    sizes.constant_panels: "panels_by_tile",
    output.writeback_to_output: "a_row_of_tiles_too_few",
    output.no_epilogue: "an_epilogue",
    output.no_alias: "the_output_is_read_in_the_loop",
    output.injective_writeback: "a_writeback_in_waves",
    output.no_side_effects: "a_store_before",
}
#: those that other merges than atomic need as much
SLOTS_NEED = {
    accumulators.nothing_carried: "last_panels_tile",
    accumulators.starts_at_identity: "starts_elsewhere",
    accumulators.nothing_left_to_waves: "left_to_the_next_wave",
    sizes.constant_panels: "panels_by_tile",
    output.no_side_effects: "a_store_before",
}

#: without its criterion the pass itself stops, with a program that breaks a rule
CRASHES = {sizes.constant_panels}


@pytest.mark.parametrize(("criterion", "name"), BITES.items(), ids=BITES.values())
def test_without_its_criterion_a_change_is_miscompiled(monkeypatch, criterion, name: str):
    check_bites(monkeypatch, criterion, of_merge(Merge.ATOMIC, name))


@pytest.mark.parametrize("merge", [Merge.WORKSPACE, Merge.FIXUP], ids=lambda m: m.value)
@pytest.mark.parametrize(("criterion", "name"), SLOTS_NEED.items(), ids=SLOTS_NEED.values())
def test_without_its_criterion_a_change_is_miscompiled_in_slots(
    monkeypatch, criterion, name: str, merge: Merge
):
    check_bites(monkeypatch, criterion, of_merge(merge, name))


def of_merge(merge: Merge, name: str) -> Iterator[Asked]:
    """Programs with the change of that name, which that merge accepted before."""
    found = 0
    for case, made in accepted_cases():
        made = replace(made, merge=merge, pieces=None, deterministic=False)
        program = mutated(Random(case.seed), case.program, name)
        if program in (None, case.program) or not made.can_be_applied(case.program):
            continue
        yield program, case, made  # pyright: ignore[reportReturnType]
        found += 1
        if found == CONTROLS:
            return


def check_bites(monkeypatch, criterion, programs: Iterable[Asked]) -> None:
    rest = tuple(c for c in CRITERIA if c is not criterion)
    assert len(rest) == len(CRITERIA) - 1
    refused = (asked for asked in programs if is_refused(*asked))
    faults = (fault_by(rest, *asked, monkeypatch) for asked in refused)
    found = (name for name in faults if name)
    assert {*found} == {"InternalError"} if criterion in CRASHES else "AssertionError" in found


def is_refused(program: Program, _: Case, made: Pass) -> bool:
    """By a criterion of the pass, not by a rule of the language."""
    return not violations(program) and not made.can_be_applied(program)


def fault_by(criteria, program: Program, case: Case, made: Pass, monkeypatch) -> str:
    """The class of what the pass does wrong with these criteria alone."""
    with monkeypatch.context() as patch:
        patch.setattr("passes.stream_k.stream_k.CRITERIA", criteria)
        return fault(program, case, made).partition(":")[0]


def test_a_pass_that_raises_or_loses_stores_is_seen(monkeypatch: pytest.MonkeyPatch):
    case, made = next(accepted_cases())
    assert fault(case.program, case, made) == ""
    monkeypatch.setattr("passes.stream_k.stream_k.persistent", lambda *_: 1 // 0)
    assert fault(case.program, case, made).startswith("ZeroDivisionError")
    monkeypatch.setattr("passes.stream_k.stream_k.persistent", lambda p, _: without_stores(p))
    assert fault(case.program, case, made).startswith("AssertionError")
    monkeypatch.setattr("passes.stream_k.stream_k.persistent", lambda program, _: program)
    assert fault(case.program, case, made) == "", "control: the grid form itself"


def without_stores(program: Program) -> Program:
    stores = [path for path, stmt in walk_program(program) if isinstance(stmt, Store)]
    for path in reversed(stores):
        program = spliced(program, path, ())
    return program
