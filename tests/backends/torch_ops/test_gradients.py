"""Gradients: those of fp64 by finite differences, in every case of shapes; in other types against
fp64; and only those that are asked for, without copies."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

from backends.torch_ops import conv2d, interpreted, linear, matmul, products
from tests.support.numerics import normal
from tests.support.torch_ops import ACTIVATIONS, Calls, distance

BF16, F64 = torch.bfloat16, torch.float64
SMOOTH = [name for name in ACTIVATIONS if name != "relu"]


def leaf(shape: tuple[int, ...], seed: int, dtype: torch.dtype = F64) -> torch.Tensor:
    return normal(shape, dtype, seed).requires_grad_()


SHAPES = [
    ((3, 4), (4, 2)),
    ((2, 3, 4), (2, 4, 2)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((2, 2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 2)),
    ((4,), (4, 2)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
    ((3, 1), (1, 2)),
]


@pytest.mark.parametrize(("of_a", "of_b"), SHAPES, ids=str)
def test_matmul(of_a: tuple[int, ...], of_b: tuple[int, ...]):
    operands = leaf(of_a, 1), leaf(of_b, 2)
    assert gradcheck(matmul, operands)
    assert gradgradcheck(matmul, operands)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear(activation, shape: tuple[int, ...]):
    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return linear(x, weight, bias, activation)

    operands = leaf(shape, 1), leaf((5, 4), 2), leaf((5,), 3)
    assert gradcheck(function, operands)
    if activation in SMOOTH:
        assert gradgradcheck(function, operands)


@pytest.mark.sampled
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("activation", ["none", "gelu", "tanh"])
def test_conv2d(activation, layout: torch.memory_format):
    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = x.contiguous(memory_format=layout)
        return conv2d(x, weight, bias, (2, 1), (0, 1), (1, 2), activation=activation)

    assert gradcheck(function, (leaf((2, 2, 5, 6), 1), leaf((3, 2, 2, 3), 2), leaf((3,), 3)))


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4)], ids=str)
def test_no_rows_give_zeros(shape: tuple[int, ...]):
    x, weight, bias = leaf(shape, 1), leaf((5, 4), 2), leaf((5,), 3)
    linear(x, weight, bias, "gelu").sum().backward()
    for tensor in (x, weight, bias):
        assert torch.equal(tensor.grad, torch.zeros_like(tensor))  # pyright: ignore


@pytest.mark.filterwarnings("ignore:.*batching rule:UserWarning")  # torch's, of the old vmap
@pytest.mark.parametrize("activation", ["none", "gelu", "tanh"])
def test_gradients_of_many_at_once_are_those_of_each(activation):
    operands = leaf((2, 3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)
    result, many = linear(*operands, activation), normal((6, 2, 3, 5), F64, 4)
    batched = torch.autograd.grad(result, operands, many, is_grads_batched=True, retain_graph=True)
    for place, grad in enumerate(many):
        single = torch.autograd.grad(result, operands, grad, retain_graph=True)
        for mine, of_one in zip(batched, single, strict=True):
            torch.testing.assert_close(mine[place], of_one)


# --- other types: as good as torch's

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def gradients(function: Step, dtype: torch.dtype) -> list[torch.Tensor]:
    """Of values that bf16 holds, in `dtype`."""
    operands = [
        normal(shape, BF16, seed).to(dtype).requires_grad_()
        for seed, shape in enumerate(((6, 24, 40), (32, 40), (32,)))
    ]
    weights = normal((6, 24, 32), BF16, 9).to(dtype)
    return list(torch.autograd.grad((function(*operands) * weights).sum(), operands))


@pytest.mark.parametrize("is_interpreted", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid"])
def test_bf16_gradients_are_as_near_to_fp64_as_torch_s(activation, is_interpreted: bool):
    of_torch = ACTIVATIONS[activation][0]

    def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return linear(x, weight, bias, activation)

    def theirs(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return of_torch(F.linear(x, weight, bias))

    exact, reference = gradients(theirs, F64), gradients(theirs, BF16)
    with interpreted() if is_interpreted else nullcontext():
        found = gradients(ours, BF16)
    for mine, other, value in zip(found, reference, exact, strict=True):
        assert mine.dtype is BF16
        assert distance(mine, value) <= max(1.5 * distance(other, value), 2.0**-9)


def test_control_a_gradient_of_the_wrong_side_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(products, "derived", lambda activation, grad, seen: grad)

    def ours(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return linear(x, weight, bias, "gelu")

    def theirs(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.linear(x, weight, bias))

    for mine, value in zip(gradients(ours, BF16), gradients(theirs, F64), strict=True):
        assert distance(mine, value) > 0.05
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(ours, (leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)))


# --- only what is asked for


def backward_calls(result: torch.Tensor) -> Calls:
    grad = normal(tuple(result.shape), result.dtype, 7)
    with Calls() as calls:
        result.backward(grad)
    return calls


@pytest.mark.parametrize(("of_a", "of_b"), [(True, True), (True, False), (False, True)])
def test_matmul_multiplies_once_for_each_gradient(of_a: bool, of_b: bool):
    a, b = leaf((3, 4), 1).requires_grad_(of_a), leaf((4, 2), 2).requires_grad_(of_b)
    assert backward_calls(matmul(a, b)).count("loopir.matmul") == of_a + of_b


@pytest.mark.parametrize(
    ("activation", "repeats"), [("none", 0), ("relu", 0), ("tanh", 0), ("gelu", 1), ("silu", 1)]
)
@pytest.mark.parametrize("wanted", ["x", "weight", "bias", "x weight bias"])
def test_linear_multiplies_once_for_each_gradient(activation, repeats: int, wanted: str):
    operands = {"x": leaf((2, 3, 4), 1), "weight": leaf((5, 4), 2), "bias": leaf((5,), 3)}
    for name, tensor in operands.items():
        tensor.requires_grad_(name in wanted)
    calls = backward_calls(linear(**operands, activation=activation))
    assert calls.count("loopir.matmul") == ("x" in wanted) + ("weight" in wanted)
    assert calls.count("loopir.linear") == repeats
    assert all((t.grad is None) == (name not in wanted) for name, t in operands.items())


def saved(result: torch.Tensor) -> list[torch.Size]:
    assert result.grad_fn is not None
    kept = result.grad_fn.saved_tensors  # pyright: ignore
    return [tensor.shape for tensor in kept if tensor is not None]


def test_only_what_gradients_need_is_kept():
    x, weight, bias = leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)
    assert saved(matmul(x, weight.detach().t())) == [(4, 5)]
    assert saved(linear(x.detach(), weight, bias)) == [(3, 4)]
    assert saved(linear(x, weight.detach(), bias, "relu")) == [(5, 4), (3, 5)]
    assert saved(linear(x, weight, bias, "gelu")) == [(3, 4), (5, 4), (5,)]


COPIES = ("aten.clone", "aten.copy_", "aten._to_copy", "aten.contiguous")


def test_gradients_are_of_views():
    x, weight, bias = leaf((2, 3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)
    calls = backward_calls(linear(x, weight, bias, "relu"))
    assert not [name for name in calls.names if name in COPIES]


def test_control_rows_in_pieces_are_copied_for_the_weight():
    whole, weight = leaf((2, 6, 4), 1), leaf((5, 4), 2)
    calls = backward_calls(linear(whole[:, :3], weight))
    assert "aten.clone" in calls.names
