"""`loopir::conv2d`, on images whose channels come second or last. Its gradients are aten's."""

from typing import Any, TypeAlias

import torch

from backends.torch_ops.activations import BY_OUTPUT, NONE, activated, activation_of, derived
from backends.torch_ops.checks import conv2d_shape
from backends.torch_ops.conv_kernels import convolve, has_channels_last
from backends.torch_ops.definition import define, wanted
from backends.torch_ops.products import wide

_ops: Any = torch.ops.loopir
_Maybe: TypeAlias = torch.Tensor | None
_Pair: TypeAlias = list[int]


def _conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: _Maybe,
    stride: _Pair,
    padding: _Pair,
    dilation: _Pair,
    activation: str,
) -> torch.Tensor:
    y = _result(x, weight, bias, stride, padding, dilation, activation)
    if y.numel():
        convolve(x, weight, bias, y, (stride, padding, dilation), activation_of(activation))
    return y


def _conv2d_on_cpu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: _Maybe,
    stride: _Pair,
    padding: _Pair,
    dilation: _Pair,
    activation: str,
) -> torch.Tensor:
    y = _result(x, weight, bias, stride, padding, dilation, activation)
    shift = None if bias is None else wide(bias)
    sums = torch.conv2d(wide(x), wide(weight), shift, stride, padding, dilation)
    return y.copy_(activated(activation_of(activation), sums))


def _result(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: _Maybe,
    stride: _Pair,
    padding: _Pair,
    dilation: _Pair,
    activation: str,
) -> torch.Tensor:
    """Not written yet; channels last if those of x or weight are."""
    shape = conv2d_shape(x, weight, bias, (stride, padding, dilation), activation)
    is_last = has_channels_last(x, weight)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=layout)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, bias, *steps, name = inputs
    ctx.activation, ctx.steps = activation_of(name), steps
    ctx.bias_shape = None if bias is None else list(bias.shape)
    by_output = ctx.activation in BY_OUTPUT
    is_repeated = ctx.activation is not None and not by_output
    ctx.save_for_backward(x, weight, bias if is_repeated else None, output if by_output else None)


def _gradients(ctx: Any, grad: torch.Tensor) -> tuple[_Maybe, ...]:
    x, weight, bias, output = ctx.saved_tensors
    if ctx.activation is not None:
        seen = _ops.conv2d(x, weight, bias, *ctx.steps, NONE) if output is None else output
        grad = derived(ctx.activation, grad, seen)
    mask = wanted(ctx)
    options = (ctx.bias_shape, *ctx.steps, False, [0, 0], 1, mask)
    found = torch.ops.aten.convolution_backward(grad, x, weight, *options)
    asked = (g if is_wanted else None for g, is_wanted in zip(found, mask, strict=True))
    return (*asked, None, None, None, None)


define(
    "conv2d",
    "(Tensor x, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
    'int[2] dilation=1, str activation="none") -> Tensor',
    generated=_conv2d,
    on_cpu=_conv2d_on_cpu,
    fake=_result,
    keep=_keep,
    gradients=_gradients,
)
