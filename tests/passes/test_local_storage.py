"""The pass `local-storage`: which tile goes where, what is moved and what must not be, the complete
set of codes of each program that it refuses, an accepted neighbour, and that no value changes."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from loopir.build import gemm
from loopir.errors import LaunchError
from loopir.interp import InterpError, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from passes import local_storage
from passes.local_storage import LocalStoragePass
from passes.pipeline import parse_pipeline
from passes.pipeline_text import parse_pass
from passes.stream_k import StreamKPass
from tests.support.differential import difference
from tests.support.interp import same_bits
from tests.support.legal_programs import Case as LegalCase
from tests.support.legal_programs import legal_case
from tests.support.mutations import changed
from tests.support.reference import outputs_of_both
from tests.support.refusals import check_accepted, check_refused
from tests.support.texts import GEMM, MAX_ROWS, edited
from tests.support.unplaced import with_local_tiles, with_parallel_loops

Edit = tuple[str, str]
PLACE = LocalStoragePass()

LOCAL_GEMM = """\
kernel @gemm(A: f16[M, K], B: f16[K, N], out C: f32[M, N])
    where M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: local f32[BM, BN]
    alloc a: local f16[BM, BK]
    alloc b: local f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        load a, A[ti * BM +: BM, kp * BK +: BK] masked
        load b, B[kp * BK +: BK, tj * BN +: BN] masked
        dot acc, a, b
      }
    }
    store C[ti * BM +: BM, tj * BN +: BN], acc masked
  }
}
"""

#: each panel takes a row of X, picked by a table, into the sum
ROWS = """\
kernel @rows(X: i32[R, N], order: i32[R], inout Z: i32[R, N], out Y: i32[N])
    where R = 5, N = 4 {
  grid (t) in [1] {
    alloc acc: local i32[N]
    alloc x: local i32[N]
    alloc y: local i32[N]
    fill acc, 0
    fill y, 2
    reduce (acc: add) {
      for k in 0 .. R {
        load x, X[k, 0 +: N]
        ewise acc = acc + x * y
      }
    }
    store Y[0 +: N], acc
  }
}
"""
PLACED_ROWS = """\
kernel @rows(X: i32[R, N], order: i32[R], inout Z: i32[R, N], out Y: i32[N])
    where R = 5, N = 4 {
  grid (t) in [1] {
    alloc acc: register i32[N]
    alloc x: shared i32[N]
    alloc y: register i32[N]
    fill acc, 0
    fill y, 2
    reduce (acc: add) {
      for k in 0 .. R {
        coop_load x, X[k, 0 +: N]
        barrier
        ewise acc = acc + x * y
        barrier
      }
    }
    store Y[0 +: N], acc
  }
}
"""
LOAD = "        load x, X[k, 0 +: N]\n"
UPDATE = "        ewise acc = acc + x * y\n"
REDUCE = ROWS[ROWS.index("    reduce") : ROWS.index("    store Y")]


def placed(*edits: Edit) -> str:
    """The text of ROWS, edited, after the pass."""
    program = parse(edited(ROWS, *edits))
    after = PLACE.apply(program)
    assert outputs(program) == outputs(after)
    return to_text(after)


def outputs(program: Program) -> dict[str, bytes]:
    arrays = random_inputs(program, 4, sizes={})
    if "order" in arrays:
        arrays["order"] %= 5
    run(program, arrays)
    return {name: array.tobytes() for name, array in arrays.items()}


def panel(text: str) -> list[str]:
    """The statements of the panel loop, without indentation."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("for k"))
    indent = len(lines[start]) - len(lines[start].lstrip())
    end = lines.index(" " * indent + "}", start)
    return [line.strip() for line in lines[start + 1 : end]]


# --- refusals


@dataclass(frozen=True)
class Case:
    """The base text is accepted; with the fault it is refused with just `codes`."""

    name: str
    codes: str
    fault: tuple[Edit, ...]
    base: str = field(default=LOCAL_GEMM, repr=False)


PARALLEL = to_text(with_parallel_loops(parse(ROWS)))
CASES = [
    Case("placed_already", "LS01", ((LOCAL_GEMM, GEMM),)),
    Case("no_tile", "LS01", ((LOCAL_GEMM, "kernel @k() {\n  grid (t) in [4] {\n  }\n}\n"),)),
    Case("parallel_loops", "LS02", (("grid (t) in [1] {", "parallel t in 0 .. 1 {"),), ROWS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fault_is_refused_with_just_these_codes(case: Case):
    check_refused(PLACE, edited(case.base, *case.fault), case.codes)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_neighbour_without_the_fault_is_accepted(case: Case):
    check_accepted(PLACE, case.base)


def test_every_code_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()}
    assert covered == {"LS01", "LS02"}


def test_a_refusal_shows_the_place_with_a_hint():
    text = PLACE.can_be_applied(parse(PARALLEL)).explain()
    assert (
        text
        == """\
local-storage: not applicable, 1 reason(s)

LS02: a tile is placed for the block of a grid, not for an iteration of a parallel loop
  1 | kernel @rows(X: i32[R, N], order: i32[R], inout Z: i32[R, N], out Y: i32[N])
  2 |     where R = 5, N = 4 {
  3 |   parallel t in 0 .. 1 {
    |   ^^^^^^^^
  4 |     alloc acc: local i32[N]
  5 |     alloc x: local i32[N]
  found: a parallel loop at the root
  hint:  put offload before local-storage"""
    )


@pytest.mark.parametrize(("old", "found"), [("i32", "no tile"), ("", "every tile has a place")])
def test_nothing_to_do_says_why(old: str, found: str):
    program = parse(GEMM if not old else "kernel @k() {\n  grid (t) in [4] {\n  }\n}\n")
    assert f"found: {found}\n" in PLACE.can_be_applied(program).explain()


def test_kernels_without_local_tiles_stay_as_they_are_even_with_parallel_loops():
    empty = "kernel @other() {\n  parallel i in 0 .. 4 {\n  }\n}\n"
    two = parse(ROWS + MAX_ROWS + empty)
    assert to_text(PLACE.apply(two)) == "\n".join((PLACED_ROWS, MAX_ROWS, empty))


# --- what goes where


def test_a_gemm_gets_its_canonical_form():
    assert to_text(PLACE.apply(parse(LOCAL_GEMM))) == GEMM


@pytest.mark.parametrize(
    "made",
    [
        gemm(40, 50, 70, "f16", "f16"),
        gemm(None, 50, None, "f32", precision="tf32"),
        gemm(0, 5, 0, "i8", b_layout="col"),
    ],
)
def test_a_canonical_gemm_is_the_one_that_was_taken_apart(made: Program):
    assert PLACE.apply(with_local_tiles(made)) == made
    both = parse_pipeline("offload,local-storage")
    assert both.run(with_parallel_loops(with_local_tiles(made))) == made


def test_only_the_tile_that_the_panel_loop_loads_is_staged():
    assert placed() == PLACED_ROWS
    plan = PLACE.can_be_applied(parse(ROWS)).plan
    assert PLACE.report(plan) == (("shared", "x"), ("registers", "acc, y"))


def test_single_elements_stay_in_registers():
    text = placed(("N = 4", "N = 1"), ("x: local i32[N]", "x: local i32[]"),
                  ("load x, X[k, 0 +: N]", "load x, X[k, 0]"))  # fmt: skip
    assert "alloc x: register i32[]" in text
    assert "barrier" not in text


def test_a_load_in_a_condition_or_a_loop_stays_in_registers():
    for head in ("if k < 9 {", "for q in 0 .. 1 {"):
        text = placed((LOAD + UPDATE, f"        {head}\n{LOAD + UPDATE}        }}\n"))
        assert "alloc x: register" in text
        assert "barrier" not in text


def test_a_tile_with_two_writers_stays_in_registers():
    for line in (LOAD, "        fill x, 1\n", "        ewise x = x * 2\n"):
        text = placed((LOAD, LOAD + line))
        assert "alloc x: register" in text
        assert "barrier" not in text


def test_a_loop_in_no_reduce_stages_nothing():
    plain = REDUCE.split("\n", 1)[1].rsplit("    }\n", 1)[0]
    text = placed((REDUCE, plain))
    assert "alloc x: register" in text


def test_nothing_is_staged_in_a_wave_loop_where_no_barrier_may_stand():
    text = placed((REDUCE, f"    wave w in 0 .. 1 {{\n{REDUCE}    }}\n"))
    assert "alloc x: register" in text
    assert "barrier" not in text


def test_tiles_that_have_a_place_keep_it():
    edits = (("x: local", "x: register"), ("acc: local", "acc: fragment"))
    text = placed(*edits)
    assert text == to_text(parse(edited(ROWS, *edits, ("y: local", "y: register"))))


def test_the_value_beyond_an_edge_is_kept():
    text = placed(("load x, X[k, 0 +: N]", "load x, X[k, 2 +: N] masked else -3"))
    assert "coop_load x, X[k, 2 +: N] masked else -3\n" in text


def test_two_reduces_are_staged_each_for_itself():
    again = (
        REDUCE.replace("k in", "l in").replace("load x, X[k", "load z, X[l").replace("+ x", "+ z")
    )
    text = placed((REDUCE, REDUCE + again), ("    fill y", "    alloc z: local i32[N]\n    fill y"))
    assert text.count("coop_load") == 2
    assert text.count("barrier") == 4
    assert "alloc z: shared" in text


def test_a_tile_loaded_in_two_reduces_stays_in_registers():
    again = REDUCE.replace("k in", "l in").replace("X[k", "X[l")
    assert "alloc x: register" in placed((REDUCE, REDUCE + again))


# --- what is moved


def test_loads_go_before_the_compute_between_them():
    text = placed(
        (UPDATE, "        ewise acc = acc + y\n        load z, Z[k, 0 +: N]\n"
                 "        ewise acc = acc + z * x\n"),
        ("    fill y", "    alloc z: local i32[N]\n    fill y"),
    )  # fmt: skip
    assert panel(text) == [
        "coop_load x, X[k, 0 +: N]",
        "coop_load z, Z[k, 0 +: N]",
        "barrier",
        "ewise acc = acc + y",
        "ewise acc = acc + z * x",
        "barrier",
    ]


def test_the_lets_and_allocs_that_a_load_needs_go_along():
    text = placed(
        (LOAD, "        ewise acc = acc + y\n        let unused = k + 1\n"
               "        let row = order[k]\n        let half = row // 2\n"
               "        alloc z: local i32[N]\n" + LOAD.replace("load x, X[k", "load z, X[half")),
        ("acc + x * y", "acc + z * y"),
    )  # fmt: skip
    assert panel(text) == [
        "let row = order[k]",
        "let half = row // 2",
        "alloc z: shared i32[N]",
        "coop_load z, X[half, 0 +: N]",
        "barrier",
        "ewise acc = acc + y",
        "let unused = k + 1",
        "ewise acc = acc + z * y",
        "barrier",
    ]


STUCK = {
    "a store of this panel is read": (
        (LOAD, "        store Z[k, 0 +: N], y\n" + LOAD.replace("X[", "Z[")),
    ),
    "a store into what may be the same buffer": (
        (LOAD, "        store Z[k, 0 +: N], y\n" + LOAD),
        ("N = 4 {", "N = 4\n    alias(X, Z) {"),
    ),
    "a let reads what this panel stores": (
        ("inout Z: i32[R, N]", "inout Z: i32[R]"),
        (LOAD, "        alloc z: local i32[1]\n        fill z, 1\n        store Z[k +: 1], z\n"
               "        let row = Z[k]\n" + LOAD.replace("X[k", "X[row")),
    ),
    "an atomic": (
        (LOAD, "        atomic add Z[k, 0 +: N], y\n" + LOAD.replace("X[", "Z[")),
    ),
    "a barrier": ((LOAD, "        barrier\n" + LOAD),),
}  # fmt: skip


@pytest.mark.parametrize("name", STUCK)
def test_a_load_behind_what_it_needs_stays_in_registers(name: str):
    assert "alloc x: register" in placed(*STUCK[name])


def test_a_tile_read_before_its_load_stays_in_registers():
    text = edited(ROWS, (LOAD + UPDATE, "        if k > 0 {\n  " + UPDATE + "        }\n" + LOAD))
    program = parse(text)
    after = PLACE.apply(program)
    assert "alloc x: register" in to_text(after)
    assert outputs(program) == outputs(after)


def test_a_load_behind_an_arrive_stays_in_registers():
    """Another block may have stored what it reads, just before it arrived."""
    counted = (("kernel @rows", "workspace seen: i32[R]\n\nkernel @rows"),
               (LOAD, "        arrive last, seen[k], 1\n" + LOAD))  # fmt: skip
    assert "alloc x: register" in placed(*counted)
    before = (counted[0], (LOAD, LOAD + "        arrive last, seen[k], 1\n"))
    assert "alloc x: shared" in placed(*before)


def test_without_what_must_stay_before_it_a_load_reads_something_else(monkeypatch):
    monkeypatch.setattr(local_storage, "_earlier", lambda *_: frozenset())
    program = parse(edited(ROWS, *STUCK["a store of this panel is read"]))
    after = PLACE.apply(program)
    assert "alloc x: shared" in to_text(after)
    assert outputs(program) != outputs(after)


def test_input_is_left_as_it_was():
    program = parse(LOCAL_GEMM)
    PLACE.apply(program)
    assert program == parse(LOCAL_GEMM)


def test_the_pass_is_named_in_pipelines():
    assert parse_pass("local-storage") == PLACE
    assert str(PLACE) == "local-storage"


# --- the same numbers


@pytest.mark.parametrize("text", [LOCAL_GEMM, MAX_ROWS.replace("shared", "local")])
def test_the_result_interprets_and_emits_to_the_same_bits(text: str):
    before = parse(text)
    after = PLACE.apply(before)
    arrays = random_inputs(before, 3, integer_valued=False)
    again = {n: a.copy() for n, a in arrays.items()}
    run(before, arrays, seed=1)
    run(after, again, seed=1)
    assert all(same_bits(arrays[n], again[n]) for n in arrays)
    for found, expected in outputs_of_both(after, integer_valued=True):
        assert found.equal(expected)


def test_stream_k_takes_the_result():
    assert StreamKPass(units=5).can_be_applied(PLACE.apply(parse(LOCAL_GEMM)))


def outcome(program: Program, case: LegalCase) -> str:
    """Whether tiles are "staged" or "kept", or why there is nothing to compare. AssertionError: the
    pass changes a bit."""
    local = with_local_tiles(program)
    if violations(local):
        return "broken rule"
    if not PLACE.can_be_applied(local):
        return "no tile"
    after = PLACE.apply(local)
    assert parse(to_text(after)) == after
    try:
        found = difference(local, after, case.sizes, case.seed)
    except (InterpError, LaunchError):
        return "wrong before"
    assert not found, f"{found}\n{to_text(local)}"
    return "staged" if "shared" in to_text(after) else "kept"


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    return 2000 if request.config.getoption("--long") else 25


@pytest.mark.timeout(600)
def test_random_programs_keep_every_bit(count: int):
    tally = Counter(outcome(case.program, case) for case in map(legal_case, range(count)))
    assert tally["staged"] > 0.6 * count, tally
    assert tally["staged"] + tally["kept"] == count, tally


#: changes to the panel loop
CHANGES = (
    *("two_statements_swapped", "a_statement_moved", "a_statement_gone", "a_statement_twice"),
    *("the_output_is_read_in_the_loop", "an_atomic_in_the_loop", "last_panels_tile", "an_arrive"),
    *("an_input_is_the_output", "loaded_in_the_first_panel_only"),
)


@pytest.mark.timeout(600)
def test_changed_programs_keep_every_bit(count: int):
    tally = Counter[str]()
    for seed in range(2 * count):
        rng, case = Random(seed), legal_case(seed)
        tally[outcome(changed(rng, case.program, rng.choice(CHANGES)), case)] += 1
    assert tally["staged"] > 0.4 * count, tally
