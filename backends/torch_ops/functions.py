"""The operators as functions of Python, with the forms of arguments that torch takes."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch.overrides import is_tensor_like

from backends.torch_ops import convolution, products  # noqa: F401  what defines the operators
from backends.torch_ops.activations import NONE
from backends.torch_ops.checks import refuse

ActivationName: TypeAlias = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"]
_ops: Any = torch.ops.loopir


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b, as torch.matmul: a [..., M, K], b [..., K, N] of f16, bf16, f32 or f64, batches that
    broadcast, vectors. Summed in f32 (f64 of f64), rounded once. ValueError names the argument that
    does not fit."""
    _check_dense(a=a, b=b)
    return _ops.matmul(a, b)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: ActivationName = NONE,
) -> torch.Tensor:
    """activation(x @ weight.T + bias) by one kernel, rounded once: x [..., K], weight [N, K], bias
    [N] or what broadcasts to it, all of one type, as torch.nn.functional.linear.

    `gelu` is the exact one. Behind `gelu`, `gelu_tanh` and `silu` the backward pass repeats the
    product of the forward one, and less is kept. ValueError names the argument that does not fit.
    """
    _check_dense(x=x, weight=weight, bias=bias)
    _check_name(activation)
    if bias is not None and bias.dim() < 2 and weight.dim() == 2 and bias.numel() == 1:
        bias = bias.expand(weight.shape[0])
    return _ops.linear(x, weight, bias, activation)


def conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["valid", "same"] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    activation: ActivationName = NONE,
) -> torch.Tensor:
    """activation of torch.nn.functional.conv2d: x [NB, C, H, W] or [C, H, W], weight [OC, C, R, S],
    bias [OC], of one type; the result lies with channels last if x or weight does.

    ValueError names the argument that does not fit; so `groups` other than 1, and `same` with a
    stride, or where it would pad one side more than the other.
    """
    _check_dense(x=x, weight=weight, bias=bias)
    _check_name(activation)
    if groups != 1:
        refuse("groups", "1 (torch.nn.functional.conv2d takes more)", groups)
    steps, spread = _pair_of("stride", stride), _pair_of("dilation", dilation)
    if isinstance(padding, str):
        pads = padding_of(padding, weight, spread)
    else:
        pads = _pair_of("padding", padding)
    if padding == "same" and steps != [1, 1]:
        refuse("stride", "1, as torch wants it of padding 'same'", steps)
    options = steps, pads, spread, activation
    if x.dim() == 3:
        return _ops.conv2d(x.unsqueeze(0), weight, bias, *options).squeeze(0)
    return _ops.conv2d(x, weight, bias, *options)


def _check_dense(**tensors: torch.Tensor | None) -> None:
    """What else has no kernel here, and torch says so at length."""
    for name, tensor in tensors.items():
        if tensor is None and name == "bias":
            continue
        if not isinstance(tensor, torch.Tensor):
            if is_tensor_like(tensor):  # what stands for one while a graph is traced
                continue
            refuse(name, "a torch.Tensor", type(tensor).__name__)
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else ""
            refuse(name, "a dense tensor", f"a {kind} one" if kind else tensor.layout)


def _check_name(activation: str) -> None:
    if not isinstance(activation, str):
        refuse("activation", "a name", repr(activation))


def _pair_of(name: str, value: int | Sequence[int]) -> list[int]:
    is_given = isinstance(value, int | Sequence) and not isinstance(value, str)
    values = pair(value) if is_given else []
    if not values or not all(isinstance(n, int | torch.SymInt) for n in values):
        refuse(name, "an int or two", repr(value))
    return values


def pair(value: int | Sequence[int]) -> list[int]:
    """The two of an option that one int may stand for."""
    return [value, value] if isinstance(value, int) else list(value)


def padding_of(name: str, weight: torch.Tensor, dilation: int | Sequence[int]) -> list[int]:
    """What a name of a padding means for a window. ValueError: it has no meaning here."""
    if name == "valid":
        return [0, 0]
    if name != "same":
        refuse("padding", "an int, two ints, 'valid' or 'same'", repr(name))
    spread = pair(dilation)
    if weight.dim() != 4 or len(spread) != 2:
        given = f"{list(weight.shape)} and {spread}"
        refuse("padding", "'same' of four dimensions of weight and two of dilation", given)
    totals = [d * (n - 1) for d, n in zip(spread, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        refuse("padding", "'same' of a window that has a middle", f"{list(weight.shape[-2:])}")
    return [total // 2 for total in totals]
