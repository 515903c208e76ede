"""Random wave loops: each is refused, or collapsed to what the interpreter runs to the same bits.

Case n is made of seed n alone.
"""

from collections import Counter

import pytest

from backends.triton_codegen import wave_axes, waves
from backends.triton_codegen.wave_loop import Wave
from backends.triton_codegen.waves import collapse_waves
from loopir.errors import CodegenError, LaunchError
from loopir.interp import InterpError, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from tests.support.interp import same_bits
from tests.support.wave_programs import random_wave_kernel

CASES, LONG_CASES, CHUNK = 600, 20_000, 100
SAME, REFUSED, ILL_FORMED, FAULTY = "same", "refused", "ill-formed", "faulty itself"


def outcome(seed: int) -> str:
    """What comes of case `seed`; anything but the four words is a failure."""
    before = parse(random_wave_kernel(seed))
    if violations(before):
        return ILL_FORMED
    try:
        after = collapse_waves(before)
    except CodegenError:
        return REFUSED
    return _difference(before, after, seed)


def _difference(before: Program, after: Program, seed: int) -> str:
    if found := violations(after):
        return f"{found[0].rule}: {found[0].message}"
    arrays = random_inputs(before, seed)
    again = {name: array.copy() for name, array in arrays.items()}
    try:
        run(before, arrays)
    except InterpError:
        return FAULTY
    try:
        run(after, again)
    except InterpError as error:
        return f"{type(error).__name__}: {error}"
    return SAME if all(same_bits(arrays[n], again[n]) for n in arrays) else "the bits differ"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "first_seed" in metafunc.fixturenames:
        count = LONG_CASES if metafunc.config.getoption("--long") else CASES
        metafunc.parametrize("first_seed", range(0, count, CHUNK))


def test_random_wave_loop_is_refused_or_computes_the_same(first_seed: int):
    counts: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + CHUNK):
        found = outcome(seed)
        counts[found] += 1
        if found not in (SAME, REFUSED, ILL_FORMED, FAULTY):
            pytest.fail(f"seed {seed}: {found}\n{to_text(parse(random_wave_kernel(seed)))}")
    assert counts[SAME] > CHUNK // 4
    assert counts[REFUSED] > CHUNK // 8


def no_check(*_: object) -> None:
    """Stands for a check that finds nothing."""


@pytest.mark.parametrize(
    ("owner", "name", "fault", "seen_as"),
    [
        (waves, "check_order", no_check, "the bits differ"),
        (wave_axes, "_check", no_check, "the bits differ"),
        (wave_axes, "_check_leaf", no_check, "V33"),
        (wave_axes, "_check_mask", no_check, "the bits differ"),
        (Wave, "check_control", no_check, "w: no value"),
        (wave_axes, "_DOT_SPLITS", (*wave_axes._DOT_SPLITS, (None, 1, None), (0, 0, 0)), "V31"),
    ],
    ids=["order", "statements", "operands of ewise", "masks", "control", "dots"],
)
def test_each_check_is_needed(monkeypatch, owner, name: str, fault, seen_as: str):
    """Control: without one check some case comes out wrong, or cannot be run."""
    monkeypatch.setattr(owner, name, fault)
    assert any(seen_as in _outcome_or_error(seed) for seed in range(400))


def _outcome_or_error(seed: int) -> str:
    try:
        return outcome(seed)
    except LaunchError as error:
        return str(error)
