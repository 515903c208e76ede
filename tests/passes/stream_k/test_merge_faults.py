"""Faults of the merges, seeded by hand: the interpreter catches each under every schedule."""

from dataclasses import dataclass
from functools import cache

import pytest

from loopir.interp import InterpError, WorkspaceMemory, random_inputs, random_schedules, run
from loopir.interp.schedule import Schedule
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from passes.pipeline import parse_pipeline
from tests.support.differential import Arrays
from tests.support.interp import same_bits
from tests.support.merge_texts import EPILOGUE
from tests.support.texts import edited

BEFORE = parse(EPILOGUE)  # 4 tiles of 18 panels
TEXTS = {
    name: to_text(parse_pipeline(f"stream-k{{merge={name} units=7}}").run(BEFORE))
    for name in ("workspace", "fixup", "atomic-workspace")
}
RIGHT, WRONG = "right", "wrong result"
MEMORY = ("PoisonError", "RaceError", "CounterError", "OutOfBoundsError", WRONG)


@dataclass(frozen=True)
class Fault:
    """`caught_as`: every outcome that some schedule may have."""

    name: str
    merge: str
    edits: tuple[tuple[str, str], ...]
    caught_as: frozenset[str]

    def program(self) -> Program:
        made = parse(edited(TEXTS[self.merge], *self.edits))
        assert violations(made) == ()
        return made


def fault(name: str, merge: str, old: str, new: str, *caught_as: str) -> Fault:
    return Fault(name, merge, ((old, new),), frozenset(caught_as))


@cache
def results(seed: int) -> Arrays:
    arrays = random_inputs(BEFORE, seed)
    run(BEFORE, arrays)
    return arrays


def outcome(program: Program, schedule: Schedule, launches: int = 2) -> str:
    """Of launches with different inputs on one workspace."""
    workspace = WorkspaceMemory()
    for launch in range(launches):
        wanted, arrays = results(launch), random_inputs(BEFORE, launch)
        try:
            run(program, arrays, schedule=schedule, workspace=workspace)
        except InterpError as error:
            return type(error).__name__
        if not all(same_bits(wanted[name], arrays[name]) for name in wanted):
            return WRONG
    return RIGHT


STORE = "store partials[first + unit, 0 +: BM, 0 +: BN], acc\n"
ARRIVE = "arrive last, arrivals[first], parts\n"
FOLD = "for s in 0 .. parts {"
LOAD = "load acc_part, partials[2 * first + s, 0 +: BM, 0 +: BN]"
ADD = "ewise acc_1 = acc_1 + acc_part"
WORKSPACE = (
    fault("the slot of the first", "workspace", STORE, STORE.replace("+ unit", "+ first"),
          "RaceError", "PoisonError"),
    fault("the slot behind", "workspace", STORE, STORE.replace("+ unit", "+ unit + 1"), *MEMORY),
    fault("one arrival too few expected", "workspace", ARRIVE,
          ARRIVE.replace("parts", "parts - 1"), *MEMORY),
    fault("one arrival too many expected", "workspace", ARRIVE,
          ARRIVE.replace("parts", "parts + 1"), "CounterError", "PoisonError"),
    fault("the counter of another tile", "workspace", ARRIVE,
          ARRIVE.replace("[first]", "[max(first - 1, 0)]"), *MEMORY),
    fault("one counter for all", "workspace", ARRIVE, ARRIVE.replace("[first]", "[0]"), *MEMORY),
    fault("a slot is not folded", "workspace", FOLD, FOLD.replace("parts", "parts - 1"), WRONG),
    fault("a slot is folded twice", "workspace", ADD, ADD + f"\n{ADD}", WRONG),
    fault("a slot too many is folded", "workspace", FOLD, FOLD.replace("parts", "parts + 1"),
          *MEMORY),
    fault("the slots of another tile", "workspace", LOAD, LOAD.replace("2 * first", "first"),
          *MEMORY),
    fault("no identity before the fold", "workspace", "fill acc_1, 0", "fill acc_1, 1", WRONG),
    fault("every part runs the fold and the epilogue", "workspace", "if last {", "if unit >= 0 {",
          "PoisonError", "RaceError"),
    fault("the fold takes its own part from registers too", "workspace",
          "          fill acc_1, 0", "          ewise acc_1 = acc", WRONG),
    fault("a part that ends its tile is taken for all of it", "workspace",
          "if k0 == 0 and k1 == P {", "if k1 == P {", "CounterError", WRONG),
)  # fmt: skip
OTHERS = (
    fault("the second kernel leaves a tile", "fixup", "let it = (unit + 1) * TOTAL // UNITS",
          "let it = unit * TOTAL // UNITS", *MEMORY),
    fault("every cut ends a tile", "fixup", "if it % P != 0 and first == unit {",
          "if it % P != 0 {", "RaceError", WRONG),
    fault("the second kernel folds one slot less", "fixup", "for s in 0 .. parts {",
          "for s in 1 .. parts {", WRONG),
    fault("the first stores to the slots of others", "fixup", STORE, STORE.replace("+ unit", ""),
          "RaceError", "PoisonError"),
    fault("sums are not zeroed", "atomic-workspace", "    requires zeroed(partials) {", "    {",
          "PoisonError", WRONG),
    fault("one sum for two tiles", "atomic-workspace", "atomic add partials[first,",
          "atomic add partials[0,", *MEMORY),
    fault("the sum of another tile", "atomic-workspace", "load acc_part, partials[first,",
          "load acc_part, partials[max(first - 1, 0),", *MEMORY),
)  # fmt: skip


@pytest.mark.parametrize("merge", TEXTS)
def test_the_programs_are_right_under_forty_schedules(merge: str):
    program = parse(TEXTS[merge])
    assert {outcome(program, s) for s in random_schedules(40)} == {RIGHT}


@pytest.mark.parametrize("case", [*WORKSPACE, *OTHERS], ids=lambda c: f"{c.merge}: {c.name}")
def test_a_fault_is_caught_under_every_schedule(case: Fault):
    outcomes = {outcome(case.program(), s) for s in random_schedules(8)}
    assert outcomes
    assert outcomes <= case.caught_as, outcomes
