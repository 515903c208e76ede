"""What Stream-K makes of every builder's canonical form: the same bits, or just these refusals."""

import pytest

from loopir.interp import Seeded, run
from loopir.nodes import Program
from loopir.printer import to_text
from passes.base import Applicable, Refused
from passes.pipeline import parse_pipeline
from tests.support.interp import same_bits
from tests.support.workload_cases import ACCEPTED, CASES
from tests.support.workloads import Arrays, Case, open_sizes

each_accepted = pytest.mark.parametrize("case", ACCEPTED, ids=str)


def computed(case: Case, program: Program, schedule: int) -> Arrays:
    """All arrays after a run of the interpreter."""
    arrays = case.inputs(2)
    run(program, arrays, open_sizes(case), schedule=Seeded(schedule))
    return arrays


def unit_counts(case: Case) -> tuple[int, ...]:
    """One unit; three; one a tile; more than there are panels."""
    verdict = case.stream_k(1).can_be_applied(case.canonical)
    assert isinstance(verdict, Applicable)
    schedule = verdict.plan.schedule
    tiles, total = (schedule.tiles, schedule.total) if schedule else (4, 40)
    return tuple(sorted({1, 3, max(1, tiles), total + 5}))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stream_k_applies_or_names_just_these_codes(case: Case):
    verdict = case.stream_k(3).can_be_applied(case.canonical)
    reasons = verdict.reasons if isinstance(verdict, Refused) else ()
    assert {reason.code for reason in reasons} == case.refused
    assert bool(verdict) is not bool(case.refused)


@each_accepted
def test_stream_k_changes_no_bit_in_any_schedule(case: Case):
    before = computed(case, case.canonical, 0)
    for units in unit_counts(case):
        after = parse_pipeline(str(case.stream_k(units))).run(case.canonical)
        assert "persistent" in to_text(after)
        for schedule in range(2):
            found = computed(case, after, schedule)
            differing = [n for n in before if not same_bits(before[n], found[n])]
            assert not differing, f"{units} units, schedule {schedule}"
