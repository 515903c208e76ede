"""`loopir::matmul` and `loopir::linear`, whose gradients are products by the same operators."""

from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from backends.torch_ops.activations import BY_OUTPUT, NONE, activated, activation_of, derived
from backends.torch_ops.checks import linear_shape, matmul_shape
from backends.torch_ops.definition import define, wanted
from backends.triton_codegen.ops.matmul import matmul as planned

_ops: Any = torch.ops.loopir
_Maybe = torch.Tensor | None


# --- matmul


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    matmul_shape(a, b)
    return planned(a, b)


def _matmul_on_cpu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = a.new_empty(matmul_shape(a, b))  # torch's own may be a view, which no operator gives
    return y.copy_(torch.matmul(wide(a), wide(b)))


def _fake_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.new_empty(matmul_shape(a, b))


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In the type that its products are summed in."""
    return tensor if tensor.dtype is torch.float64 else tensor.float()


def _keep_matmul(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    a, b = inputs
    of_a, of_b, _ = wanted(ctx)
    ctx.save_for_backward(a if of_b else None, b if of_a else None)
    ctx.shapes = a.shape, b.shape


def _matmul_gradients(ctx: Any, grad: torch.Tensor) -> tuple[_Maybe, _Maybe]:
    a, b = ctx.saved_tensors
    of_a, of_b = ctx.shapes
    if len(of_b) == 1:
        grad = grad.unsqueeze(-1)
    if len(of_a) == 1:
        grad = grad.unsqueeze(-2)
    return (
        None if b is None else _of_left(grad, b if b.dim() > 1 else b.unsqueeze(-1), of_a),
        None if a is None else _of_right(a if a.dim() > 1 else a.unsqueeze(0), grad, of_b),
    )


def _of_left(grad: torch.Tensor, b: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return _summed(_ops.matmul(grad, b.mT), shape if len(shape) > 1 else (1, *shape), shape)


def _of_right(a: torch.Tensor, grad: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Of a matrix b: one product, summed over the rows of all batches."""
    if len(shape) <= 2:
        a, grad = _rows(a), _rows(grad)
    return _summed(_ops.matmul(a.mT, grad), shape if len(shape) > 1 else (*shape, 1), shape)


def _summed(grad: torch.Tensor, broadcast: tuple[int, ...], shape: torch.Size) -> torch.Tensor:
    """Over the batches that an operand was broadcast to."""
    return grad.sum_to_size(broadcast).reshape(shape)


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """Of all batches, in one matrix."""
    return tensor.reshape(prod(tensor.shape[:-1]), tensor.shape[-1])  # no flatten in old vmap


# --- linear


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: _Maybe, activation: str) -> torch.Tensor:
    linear_shape(x, weight, bias, activation)
    shift = None if bias is None else bias.contiguous()
    return planned(x, weight.t(), bias=shift, activation=activation_of(activation))


def _linear_on_cpu(
    x: torch.Tensor, weight: torch.Tensor, bias: _Maybe, activation: str
) -> torch.Tensor:
    y = x.new_empty(linear_shape(x, weight, bias, activation))
    sums = F.linear(wide(x), wide(weight), None if bias is None else wide(bias))
    return y.copy_(activated(activation_of(activation), sums))


def _fake_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: _Maybe, activation: str
) -> torch.Tensor:
    return x.new_empty(linear_shape(x, weight, bias, activation))


def _keep_linear(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, bias, name = inputs
    of_x, of_weight, _ = wanted(ctx)
    activation = activation_of(name)
    is_repeated = activation is not None and activation not in BY_OUTPUT
    ctx.activation = activation
    ctx.save_for_backward(
        x if of_weight or is_repeated else None,
        weight if of_x or is_repeated else None,
        bias if is_repeated else None,
        output if activation in BY_OUTPUT else None,
    )


def _linear_gradients(ctx: Any, grad: torch.Tensor) -> tuple[_Maybe, ...]:
    x, weight, bias, output = ctx.saved_tensors
    of_x, of_weight, of_bias = wanted(ctx)
    if ctx.activation is not None:
        seen = _ops.linear(x, weight, bias, NONE) if output is None else output
        grad = derived(ctx.activation, grad, seen)
    rows = _rows(grad)
    return (
        _ops.matmul(grad, weight) if of_x else None,
        _ops.matmul(rows.mT, _rows(x)) if of_weight else None,
        rows.sum(0) if of_bias else None,
        None,
    )


define(
    "matmul",
    "(Tensor a, Tensor b) -> Tensor",
    generated=_matmul,
    on_cpu=_matmul_on_cpu,
    fake=_fake_matmul,
    keep=_keep_matmul,
    gradients=_matmul_gradients,
)
define(
    "linear",
    '(Tensor x, Tensor weight, Tensor? bias=None, str activation="none") -> Tensor',
    generated=_linear,
    on_cpu=_linear_on_cpu,
    fake=_fake_linear,
    keep=_keep_linear,
    gradients=_linear_gradients,
)
