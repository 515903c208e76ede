"""The order of blocks: seeded, listed, and every one there is."""

from math import factorial

import numpy as np
import pytest

from loopir.errors import LoopIRError
from loopir.interp import (
    Listed,
    RaceError,
    RunawayError,
    Seeded,
    all_schedules,
    explore,
    random_inputs,
    random_schedules,
    run,
)
from loopir.parser import parse
from tests.support.interp import kernel
from tests.support.protocols import FOLD


def adders(blocks: int, times: int = 1, dtype: str = "f16"):
    """Blocks that each add X[t] into Y, `times` times."""
    return parse(f"""\
kernel @k(X: {dtype}[{blocks}], out Y: {dtype}[1])
    where ONE = 1
    requires zeroed(Y) {{
  grid (t) in [{blocks}] {{
    alloc x: register {dtype}[1]
    load x, X[t +: 1]
    for i in 0 .. {times} {{
      atomic add Y[0 +: 1], x
    }}
  }}
}}
""")


def inputs(values: list[float]) -> dict[str, np.ndarray]:
    return {"X": np.array(values, np.float16), "Y": np.full(1, np.nan, np.float16)}


@pytest.mark.parametrize(("blocks", "times"), [(1, 3), (2, 1), (2, 3), (3, 2), (4, 1), (4, 2)])
def test_every_interleaving_of_atomics_is_enumerated_once(blocks, times):
    program = adders(blocks, times)
    results = all_schedules(program, lambda: inputs([1] * blocks))
    seen = [r.arrays["Y"][0] for r in results]
    assert len(seen) == factorial(blocks * times) // factorial(times) ** blocks
    assert set(seen) == {blocks * times}


def test_enumerated_orders_differ_from_each_other():
    program = adders(3, 2)
    texts = []

    def once(schedule):
        run(program, inputs([1, 2, 3]), schedule=schedule)
        texts.append(str(schedule))

    list(explore(once))
    assert len(set(texts)) == len(texts) == 90


def test_pending_stores_of_a_block_take_a_step_of_their_own():
    body = """
      grid (t) in [2] {
        alloc x: register f16[1]
        fill x, 1
        store Y[t +: 1], x
      }"""
    program = kernel("out Y: f16[2]", body)
    results = list(all_schedules(program, lambda: {"Y": np.zeros(2, np.float16)}))
    assert len(results) == 2


def test_an_enumeration_that_is_too_long_is_an_error_and_not_cut_short():
    program = adders(3, 2)
    assert len(list(all_schedules(program, lambda: inputs([1, 1, 1]), 90))) == 90
    with pytest.raises(RunawayError, match="more than 89 schedules"):
        list(all_schedules(program, lambda: inputs([1, 1, 1]), 89))


def test_three_contributors_make_the_bits_depend_on_the_order():
    program = adders(3)
    results = all_schedules(program, lambda: inputs([2048, 1, 1]))
    assert {float(r.arrays["Y"][0]) for r in results} == {2048.0, 2050.0}


def test_two_contributors_do_not():
    program = adders(2)
    results = all_schedules(program, lambda: inputs([2048, 1]))
    assert {float(r.arrays["Y"][0]) for r in results} == {2048.0}


def test_seeds_reach_both_orders_and_repeat_themselves():
    program = adders(3)

    def result(schedule) -> float:
        arrays = inputs([2048, 1, 1])
        run(program, arrays, schedule=schedule)
        return float(arrays["Y"][0])

    found = [result(s) for s in random_schedules(20)]
    assert set(found) == {2048.0, 2050.0}
    assert found == [result(Seeded(i)) for i in range(20)]


@pytest.mark.parametrize("resident", [1, 2, 5, 100])
def test_the_result_does_not_depend_on_how_many_blocks_are_under_way(resident):
    program = parse(FOLD)
    arrays = random_inputs(program, 1)
    run(program, arrays, seed=resident, resident=resident)
    expected = arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32)
    assert (arrays["C"] == expected).all()


def test_one_resident_block_leaves_nothing_to_choose():
    program = adders(4, 2)

    class NoChoice:
        def choose(self, count: int) -> int:
            raise AssertionError(f"asked to choose from {count}")

    arrays = inputs([1, 1, 1, 1])
    run(program, arrays, schedule=NoChoice(), resident=1)
    assert arrays["Y"][0] == 8


def test_an_error_tells_a_schedule_that_repeats_it():
    program = parse(FOLD.replace("parts[tile * S + s,", "parts[tile * S + s // 2,"))
    texts = []
    for _ in range(2):
        with pytest.raises(RaceError) as error:
            run(program, random_inputs(program, 2), schedule=Listed([2, 5, 1]))
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    assert "schedule: Listed([2, 5, 1" in texts[0]


def test_what_the_interpreter_reports_is_an_error_of_the_toolkit():
    assert issubclass(RaceError, LoopIRError)
