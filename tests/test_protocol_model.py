"""The protocols of the merges, explored: the sound ones do no harm, seeded faults do, and emitted
text has the steps of the sound ones. docs/protocol.md says the same."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen import emit
from loopir.build import gemm
from loopir.parser import parse
from passes.decomposition import Direction, Hybrid, KAligned, SplitK, StreamK
from passes.pipeline import parse_pipeline
from tests.protocol_model import Harm, Phase
from tests.support import workspace_texts
from tests.support.documents import fenced, page
from tests.support.emitted_protocols import steps_of
from tests.support.merge_protocols import (
    ATOMIC_WORKSPACE,
    FIXUP,
    WORKSPACE,
    Protocol,
    Segments,
    segments_of,
)
from tests.support.protocol_steps import Label, Op, Step
from tests.support.texts import edited

EXAMPLES = Path(__file__).parents[1] / "examples"
LOST, STALE, TWICE, NEVER, DIRTY = Harm
PAIR = segments_of(SplitK(1, 2, 2))
TRIPLE = segments_of(SplitK(1, 3, 3))
UNALIGNED = segments_of(StreamK(2, 3, 3))  # the unit in the middle contributes to both tiles
SCHEDULES = {
    "aligned, 1 tile of 4": segments_of(SplitK(1, 4, 4)),
    "aligned, 2 tiles of 2": segments_of(SplitK(2, 2, 2)),
    "unaligned, 3 tiles on 4": segments_of(StreamK(3, 4, 4)),
    "unaligned, backward": segments_of(StreamK(2, 3, 3, direction=Direction.BACKWARD)),
    "unaligned, 3 and 2 on 4": (((0, 0),), ((0, 1),), ((0, 2), (1, 0)), ((1, 1),)),
    "with whole tiles": segments_of(Hybrid(3, 4, 2)),
    "k-aligned": segments_of(KAligned(5, 6, 3)),
}
MERGES = {"workspace": (WORKSPACE,), "fixup": FIXUP, "atomic-workspace": (ATOMIC_WORKSPACE,)}


@pytest.fixture
def say(request: pytest.FixtureRequest, capsys) -> Iterator[Callable[[str], None]]:
    """Prints under -v."""
    lines: list[str] = []
    yield lines.append
    if request.config.get_verbosity() > 0:
        with capsys.disabled():
            print("", *lines, sep="\n    ")


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_launches_do_no_harm_in_any_interleaving(merge: str, schedule: str, say):
    found = Protocol(SCHEDULES[schedule], MERGES[merge]).run()
    say(f"{found.states} states, {found.interleavings:.1e} interleavings")
    assert found.harms == {}
    assert found.interleavings > 500


def test_every_merge_is_explored_in_more_than_a_thousand_states():
    for kernels in MERGES.values():
        assert Protocol(SCHEDULES["unaligned, 3 tiles on 4"], kernels).run().states > 1000


def test_units_share_tiles_and_tiles_share_units():
    parts = {n: Protocol(s).parts for n, s in SCHEDULES.items()}
    assert parts["aligned, 1 tile of 4"](0) == 4
    assert [parts["with whole tiles"](tile) for tile in range(3)] == [0, 2, 0]
    assert len(UNALIGNED[1]) == 2


# --- faults


@dataclass(frozen=True)
class Fault:
    """name: as in docs/protocol.md. harms: all that it ever does, in each of the schedules."""

    name: str
    harms: set[Harm]
    changes: dict[str, Any]
    schedules: tuple[Segments, ...] = (PAIR, UNALIGNED)

    def protocols(self) -> tuple[Protocol, ...]:
        return tuple(replace(Protocol(s), **self.changes) for s in self.schedules)


def steps(*new: Step) -> dict[str, Any]:
    return {"kernels": (new,)}


def put(old: int, *new: Step, base: tuple[Step, ...] = WORKSPACE) -> dict[str, Any]:
    """The steps of `base` with `new` in the place of one."""
    return steps(*base[:old], *new, *base[old + 1 :])


_ANY_ORDER = {LOST, STALE, NEVER, DIRTY}
_STORE, _BARRIER, _ARRIVE, _RESET, _SECOND_BARRIER, _FOLD, _FINALISE = range(7)
_FOLD_FIRST = (*WORKSPACE[1:], Step.STORE)
_ARRIVE_FIRST = (Step.ARRIVE, Step.RESET, Step.STORE, *WORKSPACE[4:])
_LOOK = (Step.COUNT, Step.LOOK)
_ADDS = {"kernels": (ATOMIC_WORKSPACE,)}

FAULTS = (
    Fault("no barrier before the arrival", {LOST, STALE}, put(_BARRIER)),
    Fault("only warp 0's stores are released", {STALE}, put(_BARRIER, Step.BARRIER_WITHOUT_MEMORY)),
    Fault("the arrival releases nothing", {STALE}, put(_ARRIVE, Step.ARRIVE_ACQUIRE)),
    Fault("the arrival acquires nothing", {STALE}, put(_ARRIVE, Step.ARRIVE_RELEASE)),
    Fault("the arrival is relaxed", {STALE}, put(_ARRIVE, Step.ARRIVE_RELAXED)),
    Fault("no barrier after the arrival", {STALE}, put(_SECOND_BARRIER)),
    Fault(
        "only warp 0 acquires", {STALE}, put(_SECOND_BARRIER, Step.BARRIER_WITHOUT_MEMORY)
    ),
    Fault("arrival before the store", {LOST, STALE}, steps(*_ARRIVE_FIRST)),
    Fault("the last folds before its own store", {LOST, STALE}, steps(*_FOLD_FIRST)),
    Fault("the counter is looked at after the arrival", {TWICE}, put(_ARRIVE, *_LOOK)),
    Fault("no reset", {NEVER, DIRTY}, put(_RESET)),
    Fault("every arriver resets", {NEVER}, put(_RESET, Step.CLEAR)),
    Fault(
        "a unit zeroes the counter as the launch starts",
        _ANY_ORDER,
        steps(Step.CLEAR_FIRST, *WORKSPACE),
        (PAIR, TRIPLE),
    ),
    Fault("one arrival too few expected", {LOST, STALE}, {"more_expected": -1}),
    Fault("one arrival too many expected", _ANY_ORDER, {"more_expected": 1}),
    Fault("a counter that is not zero at first", {LOST, STALE}, {"counters_at_first": 1}),
    Fault("two tiles share a counter", _ANY_ORDER, {"one_counter": True}, (UNALIGNED,)),
    Fault("the slot of another unit", {LOST}, {"slot_shift": 1}),
    Fault("a slot is not folded", {LOST}, {"left_out": 1}),
    Fault("the epilogue is not run", {NEVER}, put(_FINALISE)),
    Fault("the epilogue is run twice", {TWICE}, steps(*WORKSPACE, Step.FINALISE)),
    Fault("the second launch does not wait", _ANY_ORDER, {"launches_wait": False}, (PAIR,)),
    Fault("sums are not zeroed before the second launch", {STALE}, {**_ADDS, "zeroed": False}),
    Fault("sums without a barrier", {LOST, STALE}, put(_BARRIER, base=ATOMIC_WORKSPACE)),
    Fault(
        "the fixup kernel does not wait", {LOST, STALE}, {"kernels": FIXUP, "kernels_wait": False}
    ),
    Fault(
        "a launch does not wait for the fixup kernel before it",
        {STALE},
        {"kernels": FIXUP, "launches_wait": False},
        (PAIR,),
    ),
)  # fmt: skip


def name_of(fault: Fault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_a_fault_is_caught_and_does_what_the_page_says(fault: Fault, say):
    for protocol in fault.protocols():
        found = protocol.run()
        say(f"{found.states} states, {', '.join(h.name for h in found.harms)}")
        assert set(found.harms) == fault.harms
        assert all(found.harms.values())


@pytest.mark.parametrize("left_out", range(len(WORKSPACE)), ids=[s.name for s in WORKSPACE])
def test_no_step_can_be_left_out(left_out: int):
    assert Protocol(PAIR, **put(left_out)).run().harms


@pytest.mark.parametrize("merge", ["workspace", "atomic-workspace"])
def test_no_two_steps_can_be_swapped_but_the_reset_and_the_barrier_behind_it(merge: str):
    (sound,) = MERGES[merge]
    for i, neighbours in enumerate(pairwise(sound)):
        swapped = (*sound[:i], *reversed(neighbours), *sound[i + 2 :])
        is_sound = neighbours == (Step.RESET, Step.BARRIER)
        assert (Protocol(PAIR, (swapped,)).run().harms == {}) == is_sound


def test_a_fault_is_shown_by_a_shortest_way_to_it():
    (way,) = Protocol(PAIR, **put(_SECOND_BARRIER)).run().harms.values()
    assert way[-1].startswith("unit 1 warp 1: each warp of the last arriver loads a slot")
    assert len(way) == 9  # both units' stores, barriers and arrivals, and the load


# --- what looks like a fault and is none


def test_one_warp_needs_no_barrier():
    bare = tuple(s for s in WORKSPACE if s is not Step.BARRIER)
    assert Protocol(TRIPLE, (bare,), warps=1).run().harms == {}
    assert Protocol(TRIPLE, (bare,), warps=2).run().harms


def test_launches_that_do_not_wait_need_workspaces_of_their_own():
    overlapping = Protocol(PAIR, launches_wait=False)
    assert replace(overlapping, own_workspaces=True).run().harms == {}
    assert overlapping.run().harms


def test_whole_tiles_need_nothing():
    whole = segments_of(SplitK(2, 1, 1))
    assert Protocol(whole, launches_wait=False).run().harms.keys() == set()
    assert len(whole) == 2


# --- the memory of the model, in programs of a few steps

OLD, NEW = Label(0, 0, 0), Label(0, 0, 1)
SLOT = (0, 0, 0)


def harms_of(*units: tuple[Op, ...], counter: int = 0) -> set[Harm]:
    """All that may happen in one kernel that has to finish tile 0, if it says FINALISE."""
    ends = any(op.step is Step.FINALISE for ops in units for op in ops)
    finishes = frozenset({(0, 0)} if ends else ())
    return set(Phase(units, 2, {}, (counter,), finishes).explore().harms)


def test_a_store_hides_those_that_happened_before_it():
    barrier = Op(Step.BARRIER, OLD, SLOT, 2)
    stores = (Op(Step.STORE, OLD, SLOT, 2), Op(Step.STORE, NEW, SLOT, 2), barrier)
    assert harms_of((*stores, Op(Step.FOLD, NEW, SLOT, 2))) == set()
    assert harms_of((*stores, Op(Step.FOLD, OLD, SLOT, 2))) == {LOST}


def test_stores_of_two_units_in_no_order_may_both_be_loaded():
    first, second = (Op(Step.STORE, label, SLOT, 2) for label in (OLD, NEW))
    barrier = Op(Step.BARRIER, OLD, SLOT, 2)
    assert harms_of((first,), (second, barrier, Op(Step.FOLD, NEW, SLOT, 2))) == {STALE}


def test_an_arrival_finds_the_zero_that_its_own_unit_stored():
    zero = Op(Step.CLEAR, OLD, SLOT, 0)
    arrival = Op(Step.ARRIVE, OLD, SLOT, 0, expected=1, flag=0)
    finish = Op(Step.FINALISE, OLD, SLOT, 0, flag=0)
    assert harms_of((zero, arrival, finish, zero), counter=5) == set()
    assert harms_of((arrival, finish, zero), counter=5) == {NEVER}


def test_a_harm_hides_none_that_another_unit_does():
    lost = (Op(Step.FINALISE, OLD, SLOT, 2),)
    twice = (Op(Step.FINALISE, OLD._replace(tile=1), SLOT, 0),) * 2
    assert harms_of(lost, twice) == {LOST, TWICE}


# --- the exploration leaves nothing out


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_the_reduction_loses_no_harm(fault: Fault, request: pytest.FixtureRequest):
    slow = fault.name in ("two tiles share a counter", "the second launch does not wait")
    if slow and not request.config.getoption("--long"):
        pytest.skip("many states without the reduction; runs with --long")
    protocol = fault.protocols()[0]
    reduced, full = protocol.run(), protocol.run(reduced=False)
    assert set(reduced.harms) == set(full.harms)
    assert reduced.states <= full.states


def test_without_the_reduction_sound_protocols_do_no_harm_either(say):
    for kernels in MERGES.values():
        found = Protocol(TRIPLE, kernels).run(reduced=False)
        say(f"{found.states} states, {found.interleavings:.1e} interleavings")
        assert found.harms == {}
        assert found.states > Protocol(TRIPLE, kernels).run().states


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_the_reduction_four_units_do_no_harm_either(schedule: str):
    assert Protocol(SCHEDULES[schedule]).run(reduced=False).harms == {}


def test_interleavings_are_counted_as_paths():
    """Two warps of one kernel that store one tile each in its two parts: 4 stores in any order."""
    lone = Protocol(PAIR, FIXUP)
    stores, loads = 4 * 3 * 2, 1
    assert lone.run().interleavings == (stores * loads) ** 2


# --- what is emitted

EMITTED = {
    "STREAM_K": (WORKSPACE,),
    "SPLIT_K": (WORKSPACE,),
    "LAST_ARRIVER": (WORKSPACE,),
    "TWO": (WORKSPACE,),
    "FIXUP": FIXUP,
    "ATOMIC": (ATOMIC_WORKSPACE,),
}
_ARRIVE_TEXT = 'sem="acq_rel", scope="gpu"'
_FIRST = "tl.debug_barrier()  # all stores of the block, then the release"
_SECOND = "tl.debug_barrier()  # the acquire, then all loads of the block"


def emitted_steps(name: str, *edits: tuple[str, str]) -> tuple[tuple[Step, ...], ...]:
    program = parse(getattr(workspace_texts, name))
    return steps_of(edited(emit(program).source, *edits), program)


PRODUCT = gemm(40, 50, 96, "f16", tile=(16, 16, 16))
SLICES = ("splits=3", "decomposition=split-k splits=4")
PASSES = {
    **{f"stream-k{{{o}}}": (WORKSPACE,) for o in ("units=7", *SLICES)},
    **{f"stream-k{{merge=fixup {o}}}": FIXUP for o in ("units=7", *SLICES)},
    **{
        f"stream-k{{merge=atomic-workspace {o}}}": (ATOMIC_WORKSPACE,) for o in ("units=7", *SLICES)
    },
    "stream-k{units=7 direction=backward bounds=ceil permuted=true}": (WORKSPACE,),
    "mma-expand,stream-k{units=30}": (WORKSPACE,),
}


@pytest.mark.parametrize("pipeline", PASSES)
def test_what_passes_make_is_emitted_with_the_steps_of_the_model(pipeline: str):
    for base in (PRODUCT, gemm(40, 50, 96, "f16", "bf16", tile=(16, 16, 16))):
        program = parse_pipeline(pipeline).run(base)
        assert steps_of(emit(program).source, program) == PASSES[pipeline]


@pytest.mark.parametrize("name", EMITTED)
def test_emitted_kernels_have_the_steps_of_the_model(name: str):
    assert emitted_steps(name) == EMITTED[name]


@pytest.mark.parametrize(
    "edit",
    [
        (_FIRST, "pass"),
        (_SECOND, "pass"),
        (_ARRIVE_TEXT, 'sem="release", scope="gpu"'),
        (_ARRIVE_TEXT, 'sem="acquire", scope="gpu"'),
        (_ARRIVE_TEXT, 'sem="relaxed", scope="gpu"'),
        (_ARRIVE_TEXT, 'sem="acq_rel", scope="cta"'),
        ("tl.store(arrivals + tile, 0)", "pass"),
    ],
)
def test_a_fault_in_the_emitted_text_is_read_and_does_harm(edit: tuple[str, str]):
    kernels = emitted_steps("STREAM_K", edit)
    assert kernels != (WORKSPACE,)
    assert Protocol(PAIR, kernels).run().harms


def test_a_fold_by_every_arriver_is_read_as_a_fault():
    fold = "if {}:\n                acc_1 ="
    edit = fold.format("last"), fold.format("unit >= 0")
    with pytest.raises(ValueError, match="for the last arriver or not"):
        emitted_steps("STREAM_K", edit)


# --- docs/protocol.md


def test_the_page_lists_every_fault_with_its_harms():
    rows = re.findall(r"^\| (.+?) \| ((?:[a-z]+ [a-z]+(?:, )?)+) \|$", page("protocol.md"), re.M)
    documented = {name: set(harms.split(", ")) for name, harms in rows}
    caught = {f.name: {h.name.lower().replace("_", " ") for h in f.harms} for f in FAULTS}
    assert documented == caught


def test_the_page_shows_what_is_emitted():
    (shown,) = fenced(page("protocol.md"), "python")
    assert shown.endswith("\n    ...\n")
    program = parse((EXAMPLES / "gemm.lir").read_text())
    source = emit(parse_pipeline("stream-k{units=132}").run(program)).source
    for wanted, is_there in ((shown, True), (edited(shown, ("acq_rel", "acquire")), False)):
        assert (as_one_line(wanted.removesuffix("    ...\n")) in as_one_line(source)) == is_there


def as_one_line(code: str) -> str:
    """The page breaks calls as the formatter does, the emitted file as fits its lines."""
    return re.sub(r"\s", "", code).replace(",)", ")")
