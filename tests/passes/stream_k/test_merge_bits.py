"""What the merges promise of bits: parts are added in k order whatever the order of arrival, but by
atomics; each part is the sum of its own panels."""

from collections.abc import Iterator
from functools import cache
from itertools import permutations

import numpy as np
import pytest

from loopir.build import gemm
from loopir.interp import WorkspaceMemory, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import try_evaluate
from passes.base import Applicable
from passes.decomposition import Bounds, Schedule, SlotOrder, StreamK
from passes.pipeline import parse_pipeline
from passes.stream_k import Decomposition, Merge, StreamKPass
from tests.support.differential import Arrays
from tests.support.merge_texts import ROWS

SLOTS = ("workspace", "fixup")
#: through the orders of many: no divisor of a factorial, so that every part is first, and last
STEP = 23
MERGES = (*SLOTS, "atomic-workspace", "atomic")
ONE_TILE = parse(ROWS)  # 12 panels


@cache
def permuted(merge: str, options: str) -> Program:
    return parse_pipeline(f"stream-k{{merge={merge} {options} permuted=true}}").run(ONE_TILE)


def real_inputs(program: Program, seed: int) -> Arrays:
    return random_inputs(program, seed, integer_valued=False)


def arriving(program: Program, arrays: Arrays, order: tuple[int, ...]) -> bytes:
    """The bits of Y where units run, and so arrive, one after the other in that order."""
    given = {n: a.copy() for n, a in arrays.items()} | {"order": np.array(order, np.int32)}
    run(program, given, resident=1)
    return given["Y"].tobytes()


def folded(x: np.ndarray, ends: list[int]) -> bytes:
    """Sums of the columns up to each end, from the end before, added in order: all in f32."""
    total = np.zeros(len(x), np.float32)
    for low, high in zip([0, *ends], ends, strict=False):
        part = np.zeros(len(x), np.float32)
        for k in range(low, high):
            part = part + x[:, k]
        total = total + part
    return total.tobytes()


@pytest.mark.parametrize("parts", range(2, 7))
def test_slots_have_one_bit_pattern_in_every_order_of_arrival(
    parts: int, request: pytest.FixtureRequest
):
    """That of the fold in k order, in both merges, and by ranges as by slices."""
    arrays, is_long = real_inputs(ONE_TILE, parts), request.config.getoption("--long")
    slices = [min(12, -(-12 // parts) * i) for i in range(1, parts + 1)]
    ranges = [12 * i // parts for i in range(1, parts + 1)]
    for merge in SLOTS:
        for options, ends in (
            (f"decomposition=split-k splits={parts}", slices),
            (f"units={parts}", ranges),
        ):
            program = permuted(merge, options)
            orders = list(permutations(range(len({*ends}))))
            step = 1 if is_long or parts < 6 else STEP
            found = {arriving(program, arrays, order) for order in orders[::step]}
            assert found == {folded(arrays["X"], ends)}


@pytest.mark.parametrize("merge", ["atomic", "atomic-workspace"])
@pytest.mark.parametrize("parts", range(2, 6))
def test_bits_of_atomics_depend_on_the_order_of_three_contributors_or_more(merge: str, parts: int):
    arrays, program = real_inputs(ONE_TILE, parts), permuted(merge, f"units={parts}")
    found = {arriving(program, arrays, order) for order in permutations(range(parts))}
    assert (len(found) > 1) == (parts > 2)
    assert found >= {folded(arrays["X"], [12 * i // parts for i in range(1, parts + 1)])}


def test_another_order_of_the_fold_has_other_bits():
    """Control: the fold from the last slot to the first."""
    arrays = real_inputs(ONE_TILE, 5)
    text = to_text(permuted("workspace", "units=5"))
    backward = parse(text.replace("2 * first + s,", "2 * first + parts - 1 - s,"))
    assert backward != permuted("workspace", "units=5")
    assert arriving(backward, arrays, (0, 1, 2, 3, 4)) != folded(arrays["X"], [2, 4, 7, 9, 12])
    assert arriving(permuted("workspace", "units=5"), arrays, (4, 3, 2, 1, 0)) == folded(
        arrays["X"], [2, 4, 7, 9, 12]
    )


# --- the published example: 256 x 256 x 1024, tiles of 64 x 64 x 32

EXAMPLE = gemm(256, 256, 1024, "f32", tile=(64, 64, 32))


def example_bits(merge: str, units: int, backward: bool) -> np.ndarray:
    options = f"merge={merge} units={units} bounds=ceil permuted=true"
    program = parse_pipeline(f"stream-k{{{options}}}").run(EXAMPLE)
    arrays = real_inputs(EXAMPLE, 0)
    order = np.arange(units, dtype=np.int32)
    run(program, arrays | {"order": order[::-1].copy() if backward else order}, resident=1)
    return arrays["C"].view(np.int32)


@pytest.mark.parametrize(("units", "contributors"), [(12, 2), (40, 4)])
def test_the_published_example_has_that_many_contributors(units: int, contributors: int):
    schedule = StreamK(16, 32, units, Bounds.CEIL)
    assert schedule.units == units
    assert max(map(schedule.contributors, range(16))) == contributors


@pytest.mark.parametrize(("units", "differ"), [(12, False), (40, True)])
@pytest.mark.parametrize("merge", ["atomic", "atomic-workspace"])
def test_the_published_example_of_atomics(merge: str, units: int, differ: bool):
    """Of 65,536 elements tens of thousands differ with four contributors, none with two."""
    forward, backward = (example_bits(merge, units, b) for b in (False, True))
    assert (forward != backward).sum() > 10_000 if differ else (forward == backward).all()


def test_the_published_example_in_slots_has_the_same_bits_in_either_order():
    found = [example_bits(merge, 40, b) for merge in SLOTS for b in (False, True)]
    assert all((bits == found[0]).all() for bits in found)


# --- the parts themselves

PRODUCT = gemm(7, 9, 29, "f32", tile=(4, 4, 3))  # 6 tiles of 10 panels


def _schedules() -> Iterator[dict]:
    for bounds in Bounds:
        yield {"units": 11, "bounds": bounds}
        yield {"decomposition": Decomposition.HYBRID, "units": 4, "bounds": bounds}
    for order in SlotOrder:
        splits = {"decomposition": Decomposition.SPLIT_K, "splits": 4, "slot_order": order}
        yield splits
    for units in (4, 11):
        yield {"decomposition": Decomposition.K_ALIGNED, "units": units}
    yield {"splits": 5, "permuted": True}


@pytest.mark.parametrize("merge", [Merge.WORKSPACE, Merge.FIXUP, Merge.ATOMIC_WORKSPACE])
@pytest.mark.parametrize("options", [*_schedules()], ids=str)
def test_every_slot_holds_the_product_of_its_panels(options: dict, merge: Merge):
    made = StreamKPass(merge=merge, **options)
    after, memory = made.apply(PRODUCT), WorkspaceMemory()
    arrays = real_inputs(after, 3)
    run(after, arrays, seed=2, workspace=memory)
    verdict = made.can_be_applied(PRODUCT)
    assert isinstance(verdict, Applicable)
    check_slots(verdict.plan.schedule, merge, memory.array("partials"), arrays)


def check_slots(schedule: Schedule, merge: Merge, partials: np.ndarray, arrays: Arrays) -> None:
    """Each slot against dot products in f64; no other slot is written."""
    a, b = (arrays[n].astype(np.float64) for n in "AB")
    written = set()
    for tile in schedule.split_tiles():
        i, j = divmod(tile, 3)
        rows, columns = slice(4 * i, 4 * i + 4), slice(4 * j, 4 * j + 4)
        base = schedule.slot_base(tile)
        for segment in (s for u in range(schedule.units) for s in schedule.segments(u)):
            if segment.tile != tile or merge is Merge.ATOMIC_WORKSPACE:
                continue
            k = slice(3 * segment.k0, 3 * segment.k1)
            wanted = a[rows, k] @ b[k, columns]
            slot = partials[base + segment.slot]
            np.testing.assert_allclose(slot[: len(wanted), : wanted.shape[1]], wanted, atol=1e-5)
            assert not slot[len(wanted) :].any()
            written.add(base + segment.slot)
    if merge is not Merge.ATOMIC_WORKSPACE:
        others = sorted({*range(len(partials))} - written)
        assert len(written) == sum(map(schedule.contributors, schedule.split_tiles()))
        assert np.isnan(partials[others]).all()
        return
    sums = sorted(float(abs(p).sum()) for p in partials if p.any())
    tiles = [divmod(t, 3) for t in schedule.split_tiles()]
    whole = [a[4 * i : 4 * i + 4] @ b[:, 4 * j : 4 * j + 4] for i, j in tiles]
    np.testing.assert_allclose(sums, sorted(float(abs(w).sum()) for w in whole), rtol=1e-5)


def test_as_many_slots_and_counters_are_made_as_the_schedule_says():
    for options in _schedules():
        made = StreamKPass(merge=Merge.WORKSPACE, **options)
        verdict = made.can_be_applied(PRODUCT)
        assert isinstance(verdict, Applicable)
        after = made.apply(PRODUCT)
        env = dict(verdict.plan.nest.env)
        for binding in after.kernels[0].where:
            value = try_evaluate(binding.expr, env)
            assert value is not None
            env[binding.name] = value
        schedule = verdict.plan.schedule
        slots = [schedule.slot_base(t) + schedule.contributors(t) for t in schedule.split_tiles()]
        assert max(slots) <= env["SLOTS"] == schedule.slots
        assert env["COUNTERS"] >= len(schedule.split_tiles())
