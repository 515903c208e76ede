"""Races, reads of poison, counters: each error has a program that shows it, and a sound one."""

import contextlib

import numpy as np
import pytest

from loopir.interp import (
    CounterError,
    DivisorError,
    Listed,
    PoisonError,
    RaceError,
    RunawayError,
    WorkspaceMemory,
    all_schedules,
    random_inputs,
    random_schedules,
    run,
)
from loopir.interp.memory import Buffer, Memory, View
from loopir.interp.races import Clock
from loopir.interp.regions import Region
from loopir.parser import parse
from loopir.types import DType
from loopir.verifier import verify
from tests.support.interp import kernel, one_block
from tests.support.nests import GEMM_NEST
from tests.support.protocols import FOLD, FOLD_ONE_TILE
from tests.support.texts import edited


def product(a: dict[str, np.ndarray]) -> np.ndarray:
    return a["A"].astype(np.float32) @ a["B"].astype(np.float32)


# --- races


def blocks(body: str, params: str = "inout Y: f32[16]", clauses: str = ""):
    """Two blocks, t = 0 and 1, with a tile x of four ones."""
    text = f"grid (t) in [2] {{\nalloc x: register f32[4]\nfill x, 1\n{body}\n}}"
    return kernel(params, text, f"ONE = 1{clauses}")


STORE, ATOMIC = "store Y[{}], x", "atomic add Y[{}], x"
SAME, APART = "0 +: 4", "t * 4 +: 4"
LOAD = "load x, Y[{}]"


def own(first: str, second: str) -> str:
    """Block 0 does `first`, block 1 `second`."""
    return f"if t == 0 {{\n{first}\n}} else {{\n{second}\n}}"


@pytest.mark.parametrize(
    "body",
    [
        STORE.format(SAME),
        STORE.format("t * 3 +: 4"),
        own(STORE.format(SAME), ATOMIC.format(SAME)),
        own(ATOMIC.format(SAME), STORE.format(SAME)),
        own(STORE.format(SAME), LOAD.format(SAME)),
        own(LOAD.format(SAME), STORE.format(SAME)),
        own(ATOMIC.format(SAME), LOAD.format("3 +: 4")),
    ],
)
def test_unordered_uses_of_one_element_race_under_every_schedule(body):
    program = blocks(body)
    for schedule in (Listed(), Listed([1, 1, 1, 1]), *random_schedules(5)):
        with pytest.raises(RaceError, match="no arrive between them"):
            run(program, {"Y": np.zeros(16, np.float32)}, schedule=schedule)


@pytest.mark.parametrize(
    "body",
    [
        STORE.format(APART),
        ATOMIC.format(SAME),
        LOAD.format(SAME),
        own(STORE.format(SAME), ATOMIC.format("4 +: 4")),
        own(STORE.format(SAME), LOAD.format("4 +: 4")),
        f"{STORE.format(APART)}\n{ATOMIC.format(APART)}\n{LOAD.format(APART)}",
    ],
)
def test_uses_of_different_elements_and_atomics_alone_do_not_race(body):
    for schedule in random_schedules(10):
        run(blocks(body), {"Y": np.zeros(16, np.float32)}, schedule=schedule)


def test_iterations_of_a_parallel_band_race_where_they_meet():
    program = parse(GEMM_NEST)
    run(program, random_inputs(program, 1))
    for meeting in ("C[i, 0]", "C[0, j]", "C[i, j // 2]", "C[(i + j) % M, j]", "C[i, (i + j) % N]"):
        raced = parse(edited(GEMM_NEST, ("C[i, j]", meeting)))
        races = meeting in ("C[i, 0]", "C[0, j]", "C[i, j // 2]")
        with pytest.raises(RaceError) if races else contextlib.nullcontext():
            run(raced, random_inputs(raced, 1))


def test_a_race_names_the_element_the_blocks_and_the_statement():
    with pytest.raises(RaceError) as error:
        run(blocks(STORE.format("t * 3 +: 4")), {"Y": np.zeros(16, np.float32)}, seed=7)
    text = str(error.value)
    assert "race: Y[3] is stored by block 1 and stored by block 0" in text
    assert "store Y[3 * t +: 4], x" in text
    assert "schedule: Seeded(7)" in text


def test_an_atomic_into_zeros_races_with_a_store_of_another_block():
    program = blocks(own(STORE.format(SAME), ATOMIC.format("2 +: 4")), "out Y: f32[16]",
                     "\nrequires zeroed(Y)")  # fmt: skip
    with pytest.raises(RaceError, match=r"Y\[2\]"):
        run(program, {"Y": np.zeros(16, np.float32)})


@pytest.mark.parametrize("shift", [0, 2])
def test_aliased_parameters_race_where_their_storage_meets(shift):
    body = "load x, X[4 - 4 * t +: 4]\nstore Y[t * 4 +: 4], x"
    program = blocks(body, "X: f32[8], out Y: f32[8]", "\nalias(X, Y)")
    storage = np.zeros(16, np.float32)
    with pytest.raises(RaceError):
        run(program, {"X": storage[:8], "Y": storage[shift : shift + 8]})
    run(program, {"X": storage[:8], "Y": storage[8:]})


def test_aliased_parameters_may_be_read_and_written_in_place():
    body = "load x, X[t * 4 +: 4]\newise x = x + 1\nstore Y[t * 4 +: 4], x"
    program = blocks(body, "X: f32[8], out Y: f32[8]", "\nalias(X, Y)")
    storage = np.arange(8, dtype=np.float32)
    run(program, {"X": storage, "Y": storage})
    assert storage.tolist() == list(range(1, 9))


def test_a_block_sees_its_own_pending_stores():
    body = """
        store Y[t * 4 +: 4], x
        load x, Y[t * 4 +: 4]
        ewise x = x + 1
        store Y[t * 4 +: 4], x
        atomic add Y[t * 4 +: 4], x
        load x, Y[t * 4 +: 4]
        store Y[t * 4 + 8 +: 4], x"""
    y = np.full(16, 50, np.float32)
    run(blocks(body), {"Y": y})
    assert (y == 4).all()


def test_stores_are_invisible_to_others_until_they_are_published():
    """Below the race detector, which would not let a program ask."""
    memory = Memory({"Y": Buffer("Y", DType.F32, np.zeros(4, np.float32))})
    one, other = View(Clock(0)), View(Clock(1))
    index = (slice(1, 3),)
    memory.store(one, "Y", Region(index, Ellipsis, (2,)), np.float32([5, 6]))
    assert memory.load(one, "Y", index).tolist() == [5, 6]
    assert memory.load(other, "Y", index).tolist() == [0, 0]
    one.publish()
    assert memory.load(other, "Y", index).tolist() == [5, 6]


# --- the protocol of arrive


ORDERED = """\
workspace slots: f32[3, 4]
workspace count: i32[1]

kernel @k(X: f32[3, 4], out Y: f32[4]) {
  grid (t) in [3] {
    alloc x: register f32[4]
    load x, X[t, 0 +: 4]
    store slots[t, 0 +: 4], x
    arrive last, count[0], 3
    if last {
      alloc sum: register f32[4]
      fill sum, 0
      for q in 0 .. 3 {
        load x, slots[q, 0 +: 4]
        ewise sum = sum + x
      }
      store slots[0, 0 +: 4], sum
      store Y[0 +: 4], sum
    }
  }
}
"""


def test_the_last_arriver_may_read_and_overwrite_what_the_others_stored():
    program = parse(ORDERED)
    verify(program)
    results = list(all_schedules(program, lambda: random_inputs(program, 1)))
    assert len(results) == 6
    for result in results:
        assert (result.arrays["Y"] == result.arrays["X"].sum(axis=0)).all()


@pytest.mark.parametrize(
    "edit",
    [
        ("    if last {", "    if not last {"),
        ("arrive last, count[0], 3", "arrive last, count[t * 0], 1"),
        ("store slots[t, 0 +: 4]", "store slots[t // 2, 0 +: 4]"),
    ],
)
def test_an_early_or_shared_slot_is_a_race_or_poison_under_every_schedule(edit):
    program = parse(edited(ORDERED, edit))
    for schedule in random_schedules(10):
        with pytest.raises((RaceError, PoisonError)):
            run(program, random_inputs(program, 2), schedule=schedule)


@pytest.mark.parametrize("expected", [2, 4])
def test_a_wrong_count_of_arrivals_is_an_error(expected):
    program = parse(edited(ORDERED, ("count[0], 3", f"count[0], {expected}")))
    for seed in range(5):
        with pytest.raises((RaceError, PoisonError, CounterError)):
            run(program, random_inputs(program, 3), seed=seed)


def test_a_counter_left_standing_is_an_error_that_names_it():
    program = parse(edited(ORDERED, ("count[0], 3", "count[0], 4")))
    with pytest.raises(CounterError) as error:
        run(program, random_inputs(program, 4))
    assert "count[0] is 3 after the launch, not zero" in str(error.value)
    assert "workspace count: i32[1]" in str(error.value)


ZEROED_TILE = """\
workspace total: f32[4]
workspace count: i32[2]

kernel @k(X: f32[3, 4], out Y: f32[4]) {
  grid (t) in [3] {
    alloc x: register f32[4]
    if t == 0 {
      fill x, 0
      store total[0 +: 4], x
    }
    load x, X[t, 0 +: 4]
    arrive ready, count[0], 3
    atomic add total[0 +: 4], x
    arrive last, count[1], 3
    if last {
      load x, total[0 +: 4]
      store Y[0 +: 4], x
    }
  }
}
"""


def test_atomics_do_not_wait_for_a_zeroing_block():
    program = parse(ZEROED_TILE)
    verify(program)
    outcomes = set()
    for schedule in random_schedules(30):
        try:
            run(program, random_inputs(program, 5), schedule=schedule)
            outcomes.add("ran")
        except (RaceError, PoisonError) as error:
            outcomes.add(type(error).__name__)
    assert outcomes - {"ran"}


# --- poison


def test_a_tile_read_before_it_is_written_is_poison():
    body = "alloc x: register f32[4]\n{}\nstore Y[0 +: 4], x"
    program = one_block("out Y: f32[4]", body.format("fill x, 0"))
    run(program, {"Y": np.zeros(4, np.float32)})
    broken = parse(f"kernel @k(out Y: f32[4]) {{\ngrid (t) in [1] {{\n{body.format('')}\n}}\n}}")
    with pytest.raises(PoisonError, match="tile x is read"):
        run(broken, {"Y": np.zeros(4, np.float32)})


@pytest.mark.parametrize("inside", [True, False])
def test_an_alloc_in_a_loop_forgets_what_the_tile_held(inside):
    alloc, fill = "alloc x: register f32[1]", "if i == 0 {\nfill x, 3\n}"
    body = f"""
        {"" if inside else alloc}
        for i in 0 .. 2 {{
          {alloc if inside else ""}
          {fill}
          store Y[i +: 1], x
        }}"""
    program = one_block("out Y: f32[2]", body)
    y = np.zeros(2, np.float32)
    if not inside:
        run(program, {"Y": y})
        assert y.tolist() == [3, 3]
        return
    with pytest.raises(PoisonError):
        run(program, {"Y": y})


def test_an_atomic_into_an_output_needs_zeros():
    text = """\
kernel @k(out Y: f32[4])
    where ONE = 1
    requires zeroed(Y) {
  grid (t) in [3] {
    alloc x: register f32[4]
    fill x, 1
    atomic add Y[0 +: 4], x
  }
}
"""
    y = np.full(4, 70, np.float32)
    run(parse(text), {"Y": y})
    assert y.tolist() == [3] * 4
    with pytest.raises(PoisonError, match=r"Y\[0\] is changed atomically, and nothing"):
        run(parse(edited(text, ("    requires zeroed(Y) {", "{"))), {"Y": y})


def test_a_workspace_holds_nothing_until_it_is_written():
    program = parse(edited(ORDERED, ("store slots[t, 0 +: 4], x", "barrier")))
    with pytest.raises(PoisonError, match=r"slots\[0, 0\] is read, and nothing has written it"):
        run(program, random_inputs(program, 6))


def test_what_one_launch_left_in_a_workspace_the_next_can_read_stale():
    store = "store slots[t, 0 +: 4], x"
    stale = parse(edited(ORDERED, (store, f"if X_is_new == 1 {{\n{store}\n}}")))
    workspace = WorkspaceMemory()
    first, second = random_inputs(stale, 7), random_inputs(stale, 8)
    run(stale, first, {"X_is_new": 1}, workspace=workspace)
    run(stale, second, {"X_is_new": 0}, workspace=workspace)
    assert (second["Y"] != second["X"].sum(axis=0)).any()
    with pytest.raises(PoisonError):
        run(stale, second, {"X_is_new": 0}, workspace=WorkspaceMemory())


def test_partial_tiles_start_as_nan_and_counters_as_zero_once():
    program = parse(edited(FOLD, ("M = 12, N = 20, ", "N = 20, ")))
    workspace = WorkspaceMemory()
    run(program, random_inputs(program, 9, sizes={"M": 0}), workspace=workspace)
    assert workspace.array("counts").shape == (0,)
    run(program, random_inputs(program, 9, sizes={"M": 12}), workspace=workspace)
    assert not workspace.array("counts").any()
    held = workspace.array("parts")
    run(program, random_inputs(program, 10, sizes={"M": 12}), workspace=workspace)
    assert workspace.array("parts") is held


def test_a_launch_that_raised_drops_its_workspace():
    program = parse(edited(ORDERED, ("count[0], 3", "count[0], expected")))
    workspace = WorkspaceMemory()
    with pytest.raises(CounterError):
        run(program, random_inputs(program, 11), {"expected": 4}, workspace=workspace)
    arrays = random_inputs(program, 12)
    run(program, arrays, {"expected": 3}, workspace=workspace)
    assert (arrays["Y"] == arrays["X"].sum(axis=0)).all()


def test_integer_partial_tiles_are_no_counters():
    program = parse(ORDERED.replace("f32", "i32"))
    verify(program)
    workspace = WorkspaceMemory()
    for seed in range(3):
        arrays = random_inputs(program, seed)
        run(program, arrays, seed=seed, workspace=workspace)
        assert (arrays["Y"] == arrays["X"].sum(axis=0)).all()
    assert workspace.array("slots").any()


# --- a whole protocol


def test_a_fold_is_right_over_two_launches_with_one_workspace():
    program = parse(FOLD)
    verify(program)
    for seed in range(10):
        workspace = WorkspaceMemory()
        for launch in range(2):
            arrays = random_inputs(program, 100 * launch + seed)
            run(program, arrays, seed=seed, workspace=workspace)
            assert (arrays["C"] == product(arrays)).all()


def test_a_fold_has_the_same_bits_under_every_schedule():
    program = parse(FOLD_ONE_TILE)
    results = all_schedules(program, lambda: random_inputs(program, 13, integer_valued=False))
    bits = {r.arrays["C"].tobytes() for r in results}
    assert len(bits) == 1


# --- errors of arithmetic


@pytest.mark.parametrize("text", ["4 // t", "4 % t", "ceildiv(4, t)", "4 // (t - 1)"])
def test_a_divisor_that_is_not_positive_is_an_error(text):
    program = one_block("out Y: f32[4]", f"let r = {text}")
    with pytest.raises(DivisorError, match="it must be positive"):
        run(program, {"Y": np.zeros(4, np.float32)})


def test_a_divisor_is_checked_for_every_element_of_an_access():
    body = "alloc x: register f32[4]\nload x, X[4 // (m - {})] over (m = 0 +: 4) masked"
    params = "X: f32[4], out Y: f32[4]"
    arrays = {"X": np.zeros(4, np.float32), "Y": np.zeros(4, np.float32)}
    run(one_block(params, body.format(-1)), arrays)
    with pytest.raises(DivisorError):
        run(one_block(params, body.format(0)), arrays)


def test_a_while_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr("loopir.interp.block._MOST_TURNS", 1000)
    program = one_block("out Y: f32[4]", "let i = 0\nwhile i < 1 {\nset i = i * 2\n}")
    with pytest.raises(RunawayError, match="1000 turns"):
        run(program, {"Y": np.zeros(4, np.float32)})
