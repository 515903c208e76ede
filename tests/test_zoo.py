"""Every program of the zoo, from its text to a kernel: what it means, what Stream-K makes of it,
what the backend makes of both."""

import numpy as np
import pytest

from backends.triton_codegen import compile
from loopir.interp import Seeded, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import Direction
from loopir.verifier import verify
from passes.base import Refused
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.interp import same_bits
from tests.support.launches import launched
from tests.support.zoo import CASES, ZOO, Arrays, Case

UNITS = (1, 2, 5, 7, 64)
MERGES = (Merge.ATOMIC, Merge.WORKSPACE, Merge.FIXUP, Merge.ATOMIC_WORKSPACE)

each = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
each_accepted = pytest.mark.parametrize(
    ("case", "merge"),
    [(case, merge) for merge in MERGES for case in CASES if not case.refused(merge)],
    ids=lambda x: str(getattr(x, "name", x)).lower(),
)


def stream_k(case: Case, units: int, merge: Merge) -> StreamKPass:
    return StreamKPass(merge=merge, units=units, launch_constants=bool(case.sizes))


def test_every_program_has_a_case_and_says_what_it_is():
    assert {c.name for c in CASES} == {path.stem for path in ZOO.glob("*.lir")}
    assert len(CASES) >= 14
    assert all(case.text.startswith("# ") for case in CASES)


@each
def test_program_is_legal_and_keeps_the_law_of_text(case: Case):
    program = case.program
    verify(program)
    text = to_text(program)
    assert parse(text) == program
    assert to_text(parse(text)) == text


@each
@pytest.mark.parametrize("seed", [1, 2])
def test_program_means_what_its_oracle_says(case: Case, seed: int):
    check(case, computed(case, case.program, seed))


def computed(case: Case, program: Program, seed: int, schedule: int = 0) -> Arrays:
    """All arrays after a run of the interpreter."""
    arrays = case.inputs(seed)
    run(program, arrays, case.sizes, schedule=Seeded(schedule))
    return arrays


def check(case: Case, arrays: Arrays) -> None:
    """AssertionError: an output is not what the oracle makes of the inputs."""
    expected = case.expected(arrays)
    assert expected.keys() == set(outputs(case.program))
    for name, values in expected.items():
        assert arrays[name].shape == values.shape
        np.testing.assert_array_equal(arrays[name].astype(values.dtype), values, name)


def outputs(program: Program) -> list[str]:
    return [p.name for p in program.kernels[0].params if p.direction is not Direction.IN]


@each
def test_control_oracle_tells_one_wrong_element(case: Case):
    arrays = computed(case, case.program, 1)
    name = outputs(case.program)[-1]
    arrays[name].flat[-1] += 1
    with pytest.raises(AssertionError):
        check(case, arrays)


@each
@pytest.mark.parametrize("merge", MERGES, ids=lambda m: m.value)
def test_stream_k_applies_or_names_just_these_codes(case: Case, merge: Merge):
    verdict = stream_k(case, 5, merge).can_be_applied(case.program)
    reasons = verdict.reasons if isinstance(verdict, Refused) else ()
    assert {reason.code for reason in reasons} == case.refused(merge)
    assert bool(verdict) is not bool(case.refused(merge))


def test_slots_take_almost_all():
    assert [c.name for c in CASES if c.by_slots] == ["scattered_rows"]
    assert len([c for c in CASES if c.by_atomic]) == 8


@pytest.mark.sampled
@each_accepted
def test_stream_k_changes_no_bit_of_any_result(case: Case, merge: Merge):
    before = computed(case, case.program, 3)
    for units in UNITS if merge in MERGES[:2] else UNITS[2:4]:
        after = parse_pipeline(str(stream_k(case, units, merge))).run(case.program)
        assert "persistent" in to_text(after)
        for schedule in range(2):
            found = computed(case, after, 3, schedule)
            assert all(same_bits(before[name], found[name]) for name in before)


# --- the backend


def check_backend(case: Case, program: Program, target: str) -> None:
    reference, arrays = computed(case, program, 4), case.inputs(4)
    found = launched(program, arrays, target, sizes=case.sizes)
    for name in outputs(program):
        np.testing.assert_array_equal(found[name], reference[name], name)
    check(case, arrays | found)


@each
def test_emitted_kernel_equals_the_reference(case: Case):
    check_backend(case, case.program, "interpret")


@pytest.mark.sampled
@each_accepted
def test_emitted_stream_k_kernel_equals_the_reference(case: Case, merge: Merge):
    for units in (3, 7) if merge in MERGES[:2] else (7,):
        check_backend(case, stream_k(case, units, merge).apply(case.program), "interpret")


@each
def test_program_compiles_for_hopper(case: Case):
    assert compile(case.program, "cuda:90").binary[:4] == b"\x7fELF"


@pytest.mark.sampled
@pytest.mark.parametrize("case", [c for c in CASES if not c.by_slots], ids=lambda c: c.name)
def test_stream_k_compiles_for_hopper(case: Case):
    program = stream_k(case, 7, Merge.WORKSPACE).apply(case.program)
    assert compile(program, "cuda:90").binary[:4] == b"\x7fELF"


@pytest.mark.gpu
@each
def test_kernel_on_a_gpu_equals_the_reference(case: Case):
    check_backend(case, case.program, "jit")


@pytest.mark.gpu
@each_accepted
@pytest.mark.parametrize("units", [5, 64])
def test_stream_k_kernel_on_a_gpu_equals_the_reference(case: Case, merge: Merge, units: int):
    check_backend(case, stream_k(case, units, merge).apply(case.program), "jit")
