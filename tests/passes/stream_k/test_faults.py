"""Faults of the rewrite, seeded by hand: the interpreter catches each, under every schedule."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from loopir.interp import InterpError, WorkspaceMemory, random_inputs, random_schedules, run
from loopir.interp.schedule import Schedule
from loopir.nodes import For, Program, Set, While
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import to_expr
from loopir.verifier import verify
from passes.stream_k import Merge, StreamKPass
from tests.support.protocols import FOLD
from tests.support.texts import GEMM, edited

UNTRANSFORMED = edited(GEMM, ("N = 80", "N = 48"))  # 3 x 2 tiles of 7 panels
STREAM_K = to_text(StreamKPass(units=5, merge=Merge.ATOMIC).apply(parse(UNTRANSFORMED)))
WRONG = "wrong result"


def outcome(program: Program, schedule: Schedule, launches: int = 1) -> str:
    """`right`, `wrong result`, or the name of the error that the interpreter raises."""
    workspace = WorkspaceMemory()
    for launch in range(launches):
        arrays = random_inputs(program, launch)
        expected = reference(arrays)
        try:
            run(program, arrays, schedule=schedule, workspace=workspace)
        except InterpError as error:
            return type(error).__name__
        if not np.array_equal(arrays["C"], expected):
            return WRONG
    return "right"


def reference(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """What the untransformed program writes, which is the exact product."""
    m, k = arrays["A"].shape
    sizes = ("M = 96, N = 48, K = 100", f"M = {m}, N = {arrays['B'].shape[1]}, K = {k}")
    copies = {name: array.copy() for name, array in arrays.items()}
    run(parse(edited(UNTRANSFORMED, sizes)), copies)
    assert np.array_equal(copies["C"], arrays["A"].astype(float) @ arrays["B"].astype(float))
    return copies["C"]


def by_text(*edits: tuple[str, str], base: str = STREAM_K) -> Callable[[], Program]:
    return lambda: parse(edited(base, *edits))


def segment_run_twice() -> Program:
    """Everything between the lets of a segment and the `set`, once more."""

    def twice(walk: While) -> While:
        *body, last = walk.body
        assert isinstance(last, Set)
        again = For("again", to_expr(0), to_expr(2), to_expr(1), tuple(body))
        return replace(walk, body=(again, last))

    program = parse(STREAM_K)
    (kernel,) = program.kernels
    (grid,) = kernel.body
    body = tuple(twice(s) if isinstance(s, While) else s for s in grid.body)
    return replace(program, kernels=(replace(kernel, body=(replace(grid, body=body),)),))


PROLOGUE = "alloc acc: register f32[BM, BN]\n"
WALK = "    while it < it_end {\n"


@dataclass(frozen=True)
class Fault:
    """`caught_as`: every outcome that some schedule may have; none of them is `right`."""

    name: str
    make: Callable[[], Program]
    caught_as: frozenset[str]


def fault(name: str, make: Callable[[], Program], *caught_as: str) -> Fault:
    return Fault(name, make, frozenset(caught_as))


FAULTS = (
    fault(
        "output_not_zeroed",
        by_text(("    requires zeroed(C) {", "{")),
        "PoisonError",
    ),
    fault("k1_off_by_one", by_text(("for kp in k0 .. k1 {", "for kp in k0 .. k1 - 1 {")), WRONG),
    fault("store_where_an_atomic_is_due", by_text(("atomic add C[", "store C[")), "RaceError"),
    fault(
        "tile_decoded_by_the_wrong_extent",
        by_text(
            ("let ti = tile // ceildiv(N, BN)", "let ti = tile // ceildiv(M, BM)"),
            ("let tj = tile % ceildiv(N, BN)", "let tj = tile % ceildiv(M, BM)"),
        ),
        "RaceError",
        WRONG,
    ),
    fault("segment_run_twice", segment_run_twice, WRONG),
    fault(
        "segment_skipped",
        by_text(("set it = tile * P + k1", "set it = (tile + 1) * P + k1")),
        WRONG,
    ),
    fault(
        "fold_without_zeroing",
        by_text(("      fill acc, 0\n      for q", "      for q"), base=FOLD),
        WRONG,
    ),
    fault(
        "prologue_not_repeated",
        by_text(
            (f"      {PROLOGUE}", ""),
            ("      fill acc, 0\n", ""),
            (WALK, f"    {PROLOGUE}    fill acc, 0\n{WALK}"),
        ),
        WRONG,
    ),
)

MORE_FAULTS = (
    fault(
        "k1_not_clipped_to_the_tile",
        by_text(("let k1 = min(it_end - tile * P, P)", "let k1 = it_end - tile * P")),
        WRONG,
    ),
    fault("whole_tile_test_forgets_k0", by_text(("k0 == 0 and k1 == P", "k1 == P")), "RaceError"),
    fault(
        "unit_ends_early",
        by_text(("(unit + 1) * TOTAL // UNITS", "(unit * TOTAL + TOTAL - 1) // UNITS")),
        WRONG,
    ),
    fault(
        "fold_of_one_slot_too_few",
        by_text(("for q in 0 .. S", "for q in 0 .. S - 1"), base=FOLD),
        WRONG,
    ),
    fault(
        "fold_before_all_have_arrived",
        by_text(("counts[tile], S\n", "counts[tile], S - 1\n"), base=FOLD),
        "PoisonError",
        "RaceError",
        "CounterError",
    ),
    fault(
        "one_slot_for_two_units",
        by_text(("tile * S + s, 0", "tile * S + s // 2, 0"), base=FOLD),
        "RaceError",
    ),
    fault(
        "counter_of_another_tile",
        by_text(("counts[tile], S\n", "counts[0], S\n"), base=FOLD),
        "PoisonError",
        "RaceError",
    ),
)


@pytest.mark.parametrize("text", [UNTRANSFORMED, STREAM_K, FOLD], ids=["grid", "stream_k", "fold"])
def test_sound_programs_are_right_under_forty_schedules(text):
    program = parse(text)
    verify(program)
    assert {outcome(program, s, launches=2) for s in random_schedules(40)} == {"right"}


@pytest.mark.parametrize("case", [*FAULTS, *MORE_FAULTS], ids=lambda case: case.name)
def test_a_fault_is_caught_under_every_schedule(case):
    program = case.make()
    outcomes = {outcome(program, s) for s in random_schedules(10)}
    assert outcomes
    assert outcomes <= case.caught_as
