"""Random programs before and after the passes, on the interpreter: the same bits.

Seed n makes case n alone, so that a failure names all that it takes to repeat it.
"""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loopir.errors import LoopIRError
from loopir.interp import run
from loopir.nodes import Grid, Program, Reduce
from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import constants
from loopir.symbols import to_expr
from loopir.verifier import verify
from loopir.walk import walk_program
from passes.base import Pass
from passes.decomposition import Bounds
from passes.mma_expand import MmaExpandPass
from passes.stream_k import Merge, StreamKPass, walk
from tests.support.differential import (
    difference,
    inputs,
    known,
    random_stream_k,
    random_tile_order,
    reproducer,
)
from tests.support.legal_programs import Case, legal_case
from tests.support.shrinking import MOST_ATTEMPTS, shrunk

ROOT = Path(__file__).parents[2]
#: accepted cases of one test, and how many tests there are
CHUNK, CHUNKS, LONG_CHUNKS = 50, 4, 400
SEEDS_PER_CHUNK = 1000
LEAST_ACCEPTED = 0.3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        count = LONG_CHUNKS if metafunc.config.getoption("--long") else CHUNKS
        metafunc.parametrize("chunk", range(count))


def passes_for(case: Case) -> tuple[Pass, ...]:
    rng = Random(case.seed)
    order = random_tile_order(rng, case.program) if rng.random() < 0.3 else ()
    return (*order, random_stream_k(rng, case))


def transformed(program: Program, passes: tuple[Pass, ...]) -> Program | None:
    """What the passes make of a program, verified after each; None if one refuses."""
    for each in passes:
        if not each.can_be_applied(program):
            return None
        program = each.apply(program)
        verify(program)
    return program


def fault(program: Program, case: Case, passes: tuple[Pass, ...]) -> str:
    """What is wrong with what the passes make of `program`, if they accept it."""
    try:
        after = transformed(program, passes)
        return "" if after is None else difference(program, after, case.sizes, case.seed)
    except LoopIRError as error:
        return f"{type(error).__name__}: {error}"


def check(case: Case, passes: tuple[Pass, ...]) -> bool:
    """Whether the passes accept; fails the test, with a shrunk program, if they do wrong."""
    after = transformed(case.program, passes)
    if after is None:
        return False
    assert parse(to_text(after)) == after, f"seed {case.seed}"
    if difference(case.program, after, case.sizes, case.seed):
        small = shrunk(case.program, lambda p: bool(fault(p, case, passes)))
        pytest.fail(reproducer(small, case.seed, passes, fault(small, case, passes)))
    return True


def test_stream_k_keeps_every_bit_of_a_random_program(chunk: int, record_property):
    accepted, first = 0, chunk * SEEDS_PER_CHUNK
    for seed in range(first, first + SEEDS_PER_CHUNK):
        case = legal_case(seed)
        accepted += check(case, passes_for(case))
        if accepted == CHUNK:
            rate = accepted / (seed + 1 - first)
            record_property("accepted", rate)
            print(f"{accepted} accepted of {seed + 1 - first} programs")
            assert rate >= LEAST_ACCEPTED
            return
    pytest.fail(f"{accepted} of {SEEDS_PER_CHUNK} programs are accepted")


def test_tile_order_keeps_every_bit_of_a_random_program():
    ordered = 0
    for seed in range(150):
        case = legal_case(seed)
        passes = random_tile_order(Random(seed), case.program)
        ordered += bool(passes and check(case, passes))
    assert ordered > 60


def test_mma_expand_keeps_every_bit_of_a_random_program():
    expanded = [check(legal_case(s, (16, 32), 2), (MmaExpandPass(),)) for s in range(100)]
    assert sum(expanded) > 25


@pytest.mark.timeout(120)
@pytest.mark.parametrize("merge", [Merge.AUTO, Merge.FIXUP], ids=lambda m: m.value)
def test_slots_keep_every_bit_of_random_fragments(merge: Merge):
    """Of whole tiles and of wave loops, by slices as the pass picks them, and by ranges."""
    split = 0
    for seed in range(100):
        case, rng = legal_case(seed, (16, 32), 2), Random(seed)
        made = StreamKPass(
            merge=merge,
            units=rng.randint(2, 12),
            bounds=rng.choice(list(Bounds)),
            launch_constants=bool(case.sizes),
        )
        split += check(case, (MmaExpandPass(), made))
    assert split > 20


def test_random_programs_reach_every_merge():
    chosen = [(c, random_stream_k(Random(c.seed), c)) for c in map(legal_case, range(120))]
    merges = Counter(made.merge for c, made in chosen if made.can_be_applied(c.program))
    assert len(merges) == len(Merge)
    assert min(merges.values()) > 5


@pytest.mark.timeout(600)
def test_random_programs_verify_run_and_read_back(request: pytest.FixtureRequest):
    for seed in range(10_000 if request.config.getoption("--long") else 150):
        case = legal_case(seed)
        verify(case.program)
        assert parse(to_text(case.program)) == case.program, f"seed {seed}"
        arrays = inputs(case.program, case.sizes, seed)
        run(case.program, arrays, known(case.program, case.sizes))


DIGEST = """
import hashlib
from tests.support.legal_programs import legal_case
from loopir.printer import to_text
texts = "".join(to_text(legal_case(seed).program) for seed in range(40))
print(hashlib.sha256(texts.encode()).hexdigest())
"""


def test_random_programs_are_the_same_in_every_process():
    here = "".join(to_text(legal_case(seed).program) for seed in range(40))
    for hash_seed in ("0", "12345"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert done.stdout.strip() == hashlib.sha256(here.encode()).hexdigest(), done.stderr


# --- what the programs reach ----------------------------------------------------------------------


def test_random_programs_reach_what_they_promise():
    programs = [legal_case(seed).program for seed in range(400)]
    words = {word for program in programs for word in _vocabulary(program)}
    wanted = "let alloc fill load store barrier dot ewise for if reduce grid element_read"
    assert set(wanted.split()) <= words
    assert {"f16", "bf16", "f32", "f64", "i8", "i32", "i64", "wave", "inout"} <= words
    assert {"add", "max", "min", "mul", "and", "or", "along_m", "grouped", "tf32"} <= words


def _vocabulary(node: Any) -> Iterator[str]:
    """The words of the nodes and enum members in `node`."""
    if isinstance(node, tuple):
        for part in node:
            yield from _vocabulary(part)
    elif is_dataclass(node):
        name = type(node).__name__
        yield "element_read" if name == "ElementRead" else name.lower()
        for field in fields(node):
            yield from _vocabulary(getattr(node, field.name))
    elif isinstance(node, Enum):
        yield node.value


def test_random_programs_vary_in_their_counts():
    cases = [legal_case(seed) for seed in range(400)]
    nodes = [s for case in cases for _, s in walk_program(case.program)]
    kernels = [case.program.kernels[0] for case in cases]
    sizes = [constants(k) for k in kernels]
    assert {len(n.accumulators) for n in nodes if isinstance(n, Reduce)} == {1, 2, 3}
    assert {len(n.axes) for n in nodes if isinstance(n, Grid)} == {1, 2, 3}
    assert any(isinstance(k.body[0].body[0], Grid) for k in kernels)  # pyright: ignore
    assert all({0, 1} <= {s.get(name) for s in sizes} for name in "MNK")
    assert any(case.sizes for case in cases)
    assert {p.contiguous is None for k in kernels for p in k.params} == {True, False}


# --- controls -------------------------------------------------------------------------------------


def test_a_lost_panel_is_seen_and_shrunk(monkeypatch: pytest.MonkeyPatch):
    cut = walk.unit_range

    def losing_a_panel(bounds, unit, total, units):
        low, high = cut(bounds, unit, total, units)
        return low, high - to_expr(1)

    monkeypatch.setattr(walk, "unit_range", losing_a_panel)
    found = (case for case in map(legal_case, range(60)) if fault(*_asked(case)))
    some = [*islice(found, 3)]
    assert len(some) == 3
    for case in some:
        _, _, passes = _asked(case)
        small = shrunk(case.program, lambda p, c=case: bool(fault(p, c, _asked(c)[2])))
        assert fault(small, case, passes)
        assert len(list(walk_program(small))) <= 11, to_text(small)
        assert parse(reproducer(small, case.seed, passes, "planted")) == small


def _asked(case: Case) -> tuple[Program, Case, tuple[Pass, ...]]:
    return case.program, case, passes_for(case)


def test_shrinking_ends_at_a_program_of_which_nothing_can_be_cut():
    """A planted fault: two loads in a panel loop, and more than four rows."""

    def is_faulty(program: Program) -> bool:
        nonlocal asked
        asked += 1
        text = to_text(program)
        loop = text[text.find("for kp") :]
        return loop.count("load ") >= 2 and constants(program.kernels[0]).get("M", 0) > 4

    asked = 0
    faulty = [c.program for c in map(legal_case, range(60)) if is_faulty(c.program)]
    assert len(faulty) > 10
    for program in faulty[:10]:
        small = shrunk(program, is_faulty)
        assert is_faulty(small)
        verify(small)
        assert constants(small.kernels[0])["M"] == 5
        assert to_text(small).count("load ") == 2
        assert "store" not in to_text(small)
    assert asked < 10 * MOST_ATTEMPTS


def test_shrinking_leaves_a_program_whose_fault_is_gone_with_any_cut():
    program = legal_case(0).program
    assert shrunk(program, lambda p: p == program) == program
