"""Every builder's nest, and the canonical form that the lowering passes make of it, mean what the
oracle says."""

import pytest

from loopir.interp import run
from loopir.nodes import Program
from loopir.printer import to_text
from tests.support.interp import same_bits
from tests.support.workload_cases import CASES
from tests.support.workloads import ORACLES, Arrays, Case, builders, check, open_sizes

each = pytest.mark.parametrize("case", CASES, ids=str)


def computed(case: Case, program: Program, seed: int) -> Arrays:
    """The outputs of a run of the interpreter."""
    arrays = case.inputs(seed)
    run(program, arrays, open_sizes(case), seed=seed)
    return {name: arrays[name] for name in case.outputs}


@each
def test_nest_and_its_canonical_form_give_the_bits_of_the_oracle(case: Case):
    untiled = computed(case, case.program, 1)
    check(case, untiled, case.inputs(1))
    canonical = computed(case, case.canonical, 1)
    assert all(same_bits(untiled[name], canonical[name]) for name in case.outputs)


@each
def test_canonical_form_is_a_grid_with_every_tile_placed(case: Case):
    text = to_text(case.canonical)
    assert "grid (" in text
    assert "local" not in text
    assert "coop_load" in text


def test_every_builder_has_cases_and_an_oracle():
    assert {case.builder.__name__ for case in CASES} == builders() == set(ORACLES)


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "batched of nothing"], ids=str)
def test_control_oracle_tells_one_wrong_element(case: Case):
    arrays = case.inputs(1)
    found = computed(case, case.canonical, 1)
    found[case.outputs[-1]].flat[-1] += 1
    with pytest.raises(AssertionError):
        check(case, found, arrays)
