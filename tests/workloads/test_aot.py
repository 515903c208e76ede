"""Every builder's kernel as a binary for sm_90, compiled without a GPU: registers, spills, tensor
cores."""

import pytest

from backends.triton_codegen import AotKernel, compile
from loopir.nodes import Dot, Program
from loopir.walk import walk_program
from passes.stream_k import Merge
from tests.support.large_workloads import LARGE, Large
from tests.support.workloads import builders

COMPILED = [case for case in LARGE if case.cost]


def binary(program: Program, case: Large) -> AotKernel:
    found = compile(program, "cuda:90", **case.settings)
    assert isinstance(found, AotKernel)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_kernel_needs_no_more_than_was_recorded(case: Large):
    kernel = binary(case.canonical, case)
    assert case.cost
    assert kernel.registers <= case.cost.registers
    assert kernel.spill_bytes <= case.cost.spill_bytes
    assert kernel.warnings == ()
    has_dot = any(isinstance(s, Dot) for _, s in walk_program(case.canonical))
    assert ("HGMMA" in kernel.sass) is has_dot


def test_every_builder_is_compiled():
    assert {case.builder.__name__ for case in COMPILED} == builders()


def test_products_are_dots():
    names = {
        c.name for c in COMPILED if any(isinstance(s, Dot) for _, s in walk_program(c.canonical))
    }
    assert {"canonical", "gemm", "conv", "conv nhwc", "batched", "dual", "contraction"} <= names


@pytest.mark.parametrize("name", ["add", "add columns", "add f64", "column sums"])
def test_sums_of_a_loaded_tile_compile_where_their_result_has_two_uses(name: str):
    """The store and the atomic of Stream-K: Triton's OptimizeThreadLocality asserts that there is
    one use, unless the emitter makes it so."""
    (case,) = (c for c in LARGE if c.name == name)
    assert (
        binary(case.stream_k(Merge.ATOMIC, units=132).apply(case.canonical), case).spill_bytes == 0
    )


#: bytes that the kernel with a workspace spills, at most; units are the launch's to pick
MERGED_SPILLS = {"canonical": 0, "gemm": 0, "gemm epilogue": 0, "conv": 972, "conv nhwc": 0}


@pytest.mark.parametrize("name", MERGED_SPILLS)
def test_merge_in_a_workspace_spills_no_more_than_was_recorded(name: str):
    (case,) = (c for c in LARGE if c.name == name)
    kernel = binary(case.stream_k(Merge.WORKSPACE).apply(case.canonical), case)
    assert kernel.spill_bytes <= MERGED_SPILLS[name]
    assert kernel.warnings == ()
