"""Operands, and the allowance for errors: right results are inside it, wrong ones are not."""

import pytest
import torch

from backends.bench import operands
from backends.bench.operands import Operands, torch_dtype
from backends.planner.problem import Problem
from loopir.types import DType

TYPES = [("bf16", "bf16"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32")]


def made(m: int = 40, n: int = 24, k: int = 96, seed: int = 0, **options) -> Operands:
    return Operands(Problem(m, n, k, **options), seed, "cpu")


def product(o: Operands) -> torch.Tensor:
    """The result as a kernel should give it: summed exactly, rounded once."""
    return (o.a.double() @ o.b.double()).to(torch_dtype(o.problem.result))


def ulp(value: torch.Tensor) -> torch.Tensor:
    """A step of the result's type, at each element."""
    _, exponent = torch.frexp(value.double())
    return torch.finfo(value.dtype).eps * 2.0 ** (exponent - 1)


def test_a_layout_is_in_the_strides_and_a_batch_in_front():
    o = made(batch=3, a_layout="col", b_layout="row")
    assert (o.a.shape, o.b.shape, o.output().shape) == ((3, 40, 96), (3, 96, 24), (3, 40, 24))
    assert (o.a.stride(), o.b.stride()) == ((3840, 1, 40), (2304, 24, 1))
    plain = made()
    assert (plain.a.stride(), plain.b.stride()) == ((96, 1), (1, 96))


def test_operands_are_of_the_seed():
    assert torch.equal(made(seed=3).a, made(seed=3).a)
    assert not torch.equal(made(seed=3).a, made(seed=4).a)
    square = made(32, 32, 32, b_layout="row")
    assert not torch.equal(square.a, square.b)


@pytest.mark.parametrize("limit", [2**34, 0], ids=["fp64", "fp32"])
@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_a_right_result_is_inside_the_allowance(
    dtype: str, out_dtype: str, limit: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(operands, "_FP64_FLOPS", limit)
    o = made(dtype=dtype, out_dtype=out_dtype)
    assert o.error(product(o), is_ours=True) <= 1


@pytest.mark.parametrize("limit", [2**34, 0], ids=["fp64", "fp32"])
@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_a_panel_that_is_left_out_or_taken_twice_is_outside_it(
    dtype: str, out_dtype: str, limit: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(operands, "_FP64_FLOPS", limit)
    o = made(dtype=dtype, out_dtype=out_dtype)
    panel = o.a[:, 64:80].double() @ o.b[64:80].double()
    for factor in (-1, 1):
        wrong = (product(o).double() + factor * panel).to(torch_dtype(o.problem.result))
        assert o.error(wrong, is_ours=True) > 1
        assert o.error(wrong, is_ours=False) > 1


def test_ours_may_round_once_and_a_library_its_parts_too():
    o = made(dtype=DType.BF16)
    exact = product(o)
    off = (exact.double() + ulp(exact)).to(torch.bfloat16)
    assert o.error(off, is_ours=True) > 1
    assert o.error(off, is_ours=False) <= 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_element_that_is_no_number_is_infinitely_wrong(value: float):
    o = made()
    out = product(o)
    out[17, 3] = value
    assert o.error(out, is_ours=False) == float("inf")


def test_integers_are_exact_or_wrong():
    o = made(dtype="i8", out_dtype="i32")
    out = product(o)
    assert o.error(out, is_ours=True) == 0
    out[0, 0] += 1
    assert o.error(out, is_ours=True) > 1
