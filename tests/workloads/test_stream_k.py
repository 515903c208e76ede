"""What Stream-K makes of every builder's canonical form, with every merge: the same bits, each
element stored once, or just these refusals."""

from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from loopir.interp import Seeded, run
from loopir.interp.memory import Memory
from loopir.nodes import Program
from loopir.printer import to_text
from passes.base import Applicable, Refused
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge
from tests.support.interp import same_bits
from tests.support.workload_cases import CASES
from tests.support.workloads import MERGES, Arrays, Case, builders, open_sizes

Options = Mapping[str, Any]

each = pytest.mark.parametrize("case", CASES, ids=str)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """How often each element of a buffer has been stored, of the buffers that have been."""
    counts: Arrays = {}
    plain = Memory.store

    def counted(self, view, buffer, found, values):
        count = counts.setdefault(buffer, np.zeros(self.buffers[buffer].array.shape, np.int64))
        np.add.at(count, found.index, 1)
        plain(self, view, buffer, found, values)

    monkeypatch.setattr(Memory, "store", counted)
    return counts


def computed(case: Case, program: Program, schedule: int) -> Arrays:
    """All arrays after a run of the interpreter."""
    arrays = case.inputs(2)
    run(program, arrays, open_sizes(case), schedule=Seeded(schedule))
    return arrays


def schedules(case: Case) -> tuple[Options, ...]:
    """One unit; three; one a tile; one a panel, and more; every tile in two, in many parts."""
    verdict = case.stream_k(Merge.WORKSPACE, units=1).can_be_applied(case.canonical)
    assert isinstance(verdict, Applicable)
    schedule = verdict.plan.schedule
    tiles, total = (schedule.tiles, schedule.total) if schedule else (4, 40)
    units = ({"units": count} for count in (1, 3, max(1, tiles), total + 5))
    splits = ({"decomposition": "split-k", "splits": count} for count in (2, 17))
    return *units, *splits


def sampled(case: Case, everything: bool) -> Iterator[tuple[Merge, Options]]:
    """Each merge with two of the schedules, others in each case."""
    found, start = schedules(case), crc32(case.name.encode())
    for number, merge in enumerate(case.merges):
        for i, options in enumerate(found):
            if everything or (start + number + i) % 3 == 0:
                yield merge, options


@each
def test_stream_k_applies_or_names_just_these_codes(case: Case):
    for merge in MERGES:
        verdict = case.stream_k(merge, units=3).can_be_applied(case.canonical)
        reasons = verdict.reasons if isinstance(verdict, Refused) else ()
        assert {reason.code for reason in reasons} == case.codes(merge), merge
        assert bool(verdict) is not bool(case.codes(merge))


@each
def test_stream_k_changes_no_bit_and_stores_no_element_twice(
    case: Case, stores: Arrays, request: pytest.FixtureRequest
):
    before = computed(case, case.canonical, 0)
    for merge, options in sampled(case, request.config.getoption("--long")):
        after = parse_pipeline(str(case.stream_k(merge, **options))).run(case.canonical)
        assert "persistent" in to_text(after)
        stores.clear()
        found = computed(case, after, crc32(str(options).encode()))
        differing = [n for n in before if not same_bits(before[n], found[n])]
        assert not differing, f"{merge}, {options}"
        if merge is not Merge.ATOMIC:
            assert [n for n in case.outputs if n in stores and (stores[n] != 1).any()] == []


def test_every_merge_meets_every_schedule():
    found = [(m, tuple(o)) for case in CASES for m, o in sampled(case, everything=False)]
    for merge in MERGES:
        assert len({options for m, options in found if m is merge}) == 2
        assert sum(m is merge for m, _ in found) > 100


def test_every_builder_with_an_epilogue_has_a_case_that_runs_it_behind_a_merge():
    changed = {case.builder.__name__ for case in CASES if case.refused & {"SK07", "SK08"}}
    assert changed == builders() - {"sum_and_max_nest"}
