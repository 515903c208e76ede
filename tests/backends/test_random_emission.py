"""Random programs, before and after stream-k: the emitted kernel and the reference interpreter of
the IR have the same results, bit for bit, since all values are small integers."""

import re
from random import Random

import pytest
import torch

from backends.triton_codegen import tiles
from loopir.errors import CodegenError, LoopIRError
from loopir.interp import run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.walk import walk_program
from tests.support.differential import (
    inputs,
    known,
    random_stream_k,
    random_tile_order,
    reproducer,
)
from tests.support.legal_programs import Case, legal_case
from tests.support.reference import outputs_of_both
from tests.support.shrinking import shrunk

#: what Triton's dots and tensors take; i8 needs the larger
TILES = (16, 16, 32)
#: what Triton cannot do, or the backend does not
REFUSED = re.compile("dot of .* each side|no whole-tile operation")
COUNT, LONG_COUNT = 40, 2000


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> list[Case]:
    count = LONG_COUNT if request.config.getoption("--long") else COUNT
    return [legal_case(seed, TILES, most_tiles=2) for seed in range(count)]


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors have equal values; what nothing wrote is NaN in both."""
    is_nan = (found != found) & (expected != expected)
    return bool(((found == expected) | is_nan).all())


def differs(program: Program, case: Case) -> bool:
    pairs = outputs_of_both(program, sizes=case.sizes, integer_valued=True)
    return not all(same(found, expected) for found, expected in pairs)


def agrees(program: Program, case: Case, pipeline: str = "") -> bool:
    """Whether there is a kernel, which agrees; fails the test, with a shrunk program, if it does
    not."""
    try:
        is_wrong = differs(program, case)
    except CodegenError as error:
        if REFUSED.search(str(error)):
            return False
        raise
    if is_wrong:
        small = shrunk(program, lambda p: differs_still(p, case))
        pytest.fail(reproducer(small, case.seed, (), f"{pipeline}: emitted differs"))
    return True


def differs_still(program: Program, case: Case) -> bool:
    """Of a program that may do anything: the kernel checks no bounds, so the interpreter is
    first."""
    try:
        sizes = known(program, case.sizes)
        run(program, inputs(program, sizes, case.seed), sizes)
        return differs(program, case)
    except LoopIRError:
        return False


@pytest.mark.timeout(600)
def test_emitted_kernels_of_random_programs_agree(cases: list[Case]):
    emitted = sum(agrees(case.program, case) for case in cases)
    assert emitted > 0.8 * len(cases)


@pytest.mark.timeout(600)
def test_emitted_kernels_agree_after_stream_k(cases: list[Case]):
    emitted = 0
    for case in cases:
        rng, program = Random(case.seed), case.program
        for each in (*random_tile_order(rng, program), random_stream_k(rng, case)):
            if not each.can_be_applied(program):
                break
            program = each.apply(program)
        else:
            emitted += agrees(program, case, f"{each}")
    assert emitted > 0.3 * len(cases)


def test_a_wrong_kernel_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(tiles._CALLS, "max", "tl.minimum")
    all_cases = (legal_case(seed, TILES, most_tiles=2) for seed in range(60))
    wrong = next(case for case in all_cases if differs_still(case.program, case))
    with pytest.raises(pytest.fail.Exception, match="emitted differs") as raised:
        agrees(wrong.program, wrong)
    small = parse(str(raised.value))
    assert differs_still(small, wrong)
    assert len(list(walk_program(small))) <= 12


def test_random_programs_have_masks_elements_cubes_and_every_reduction():
    found = "".join(to_text(legal_case(seed, TILES, most_tiles=2).program) for seed in range(300))
    for word in ("mask(", "i8[]", "amax(", "prod(", "reduce_and(", "reduce_or(", "[BM, BN, BK]"):
        assert word in found, word
