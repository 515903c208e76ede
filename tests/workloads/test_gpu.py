"""Every builder on a GPU at sizes that keep it busy, before and after Stream-K with every merge:
integers to the bit, other numbers within the bound of fp32 sums (fp64 for f64), from and to padded,
shifted views."""

import math
from collections.abc import Callable

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.nodes import Param, Program
from loopir.types import DType
from passes.stream_k import Merge
from tests.support.large_workloads import LARGE, Large
from tests.support.launches import outputs, poisoned_outputs
from tests.support.numerics import check_close, half_ulp
from tests.support.workloads import Arrays, check

pytestmark = pytest.mark.gpu

#: elements between rows and before the first one: none, a multiple of a vector, neither
VIEWS = ((0, 0), (8, 16), (3, 5))
UNITS = (None, 1, 7, 132, 1000)

#: all merges of a case that has an epilogue; of others the rarer ones now and then
MERGED = [
    (case, merge)
    for number, case in enumerate(LARGE)
    for merge in case.merges
    if merge in (Merge.WORKSPACE, Merge.ATOMIC) or case.refused or number % 3 == 0
]

each = pytest.mark.parametrize("case", LARGE, ids=str)


def each_merge(pairs: list[tuple[Large, Merge]]) -> pytest.MarkDecorator:
    ids = [f"{case}-{merge.value}" for case, merge in pairs]
    return pytest.mark.parametrize(("case", "merge"), pairs, ids=ids)


def jit(program: Program, case: Large) -> CompiledKernel:
    kernel = compile(program, "jit", **case.settings)
    assert isinstance(kernel, CompiledKernel)
    return kernel


@pytest.mark.parametrize("case", [c for c in LARGE if c.is_exact], ids=str)
def test_integers_are_right_to_the_bit_in_every_view(case: Large):
    kernel, arrays = jit(case.canonical, case), case.inputs(1)
    for pad, offset in VIEWS:
        check(case, outputs(kernel, arrays, case.sizes, pad=pad, offset=offset), arrays)


@each
def test_numbers_are_within_the_bound(case: Large):
    kernel = jit(case.canonical, case)
    check_numbers(case, lambda arrays: outputs(kernel, arrays, case.sizes))


@each_merge([pair for pair in MERGED if pair[0].is_exact])
def test_stream_k_is_right_to_the_bit_for_integers_with_any_units(case: Large, merge: Merge):
    kernel, arrays = jit(case.stream_k(merge).apply(case.canonical), case), case.inputs(2)
    for units in UNITS:
        launch = outputs if units is None else poisoned_outputs
        check(case, launch(kernel, arrays, case.sizes, units=units), arrays)


@each_merge(MERGED)
def test_stream_k_is_within_the_bound(case: Large, merge: Merge):
    kernel = jit(case.stream_k(merge).apply(case.canonical), case)
    for units in (None, 7):
        check_numbers(case, lambda a, u=units: outputs(kernel, a, case.sizes, units=u))


def check_numbers(case: Large, launched: Callable[[Arrays], Arrays]) -> None:
    """AssertionError: an element of an output is further from the oracle than rounding allows."""
    arrays = case.inputs(3, integer_valued=False)
    found, expected, magnitude = launched(arrays), case.expected(arrays), case.magnitude(arrays)
    for param in case.program.kernels[0].params:
        if param.name in expected:
            exact = torch.from_numpy(expected[param.name])
            allowed = bound(case, param, exact, torch.from_numpy(magnitude[param.name]))
            check_close(torch.from_numpy(found[param.name]), exact, allowed)


def bound(case: Large, out: Param, expected: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """sqrt(K) * eps(accumulator) * sum|a * b|, and half an ulp of the output; 0 for integers."""
    dtype = getattr(torch, TORCH_NAME[out.dtype])
    if not dtype.is_floating_point:
        return torch.zeros(expected.shape)
    acc = torch.float64 if out.dtype is DType.F64 else torch.float32
    return math.sqrt(case.terms) * torch.finfo(acc).eps * magnitude + half_ulp(expected, dtype)


def test_control_a_term_left_out_is_beyond_the_bound():
    case = next(c for c in LARGE if c.name == "gemm")
    kernel = jit(case.canonical, case)

    def without_the_last_term(arrays: Arrays) -> Arrays:
        cut = {name: array.copy() for name, array in arrays.items()}
        cut["A"][:, -1] = 0
        return outputs(kernel, cut, case.sizes)

    with pytest.raises(AssertionError, match="elements are wrong"):
        check_numbers(case, without_the_last_term)
