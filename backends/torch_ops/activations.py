"""Activations as torch has them: their values, and their derivatives, by output or by input."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from loopir.build import Activation
from loopir.build.arguments import choice

NONE = "none"
#: those whose derivative follows from what they return, so that nothing else is kept for it
BY_OUTPUT = frozenset({Activation.RELU, Activation.TANH, Activation.SIGMOID})


def activation_of(name: str) -> Activation | None:
    """The activation of that name, None for `none`. ValueError: there is no such."""
    return None if name == NONE else choice(Activation, name, "activation")


def activated(activation: Activation | None, x: torch.Tensor) -> torch.Tensor:
    """Its values, in the type of x."""
    return x if activation is None else _VALUES[activation](x)


def derived(activation: Activation, grad: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """The gradient of its input, which `seen` is; its output, of those BY_OUTPUT."""
    return _DERIVATIVES[activation](grad, seen)


_Unary = Callable[[torch.Tensor], torch.Tensor]
_Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_VALUES: dict[Activation, _Unary] = {
    Activation.RELU: F.relu,
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    Activation.SILU: F.silu,
    Activation.TANH: torch.tanh,
    Activation.SIGMOID: torch.sigmoid,
}
_aten = torch.ops.aten


def _of_silu(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """aten's has no derivative of its own, which only a graph of gradients asks for."""
    if not torch.is_grad_enabled():
        return _aten.silu_backward(grad, x)
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


_DERIVATIVES: dict[Activation, _Binary] = {
    Activation.RELU: lambda grad, y: _aten.threshold_backward(grad, y, 0),
    Activation.GELU: lambda grad, x: _aten.gelu_backward(grad, x),
    Activation.GELU_TANH: lambda grad, x: _aten.gelu_backward(grad, x, approximate="tanh"),
    Activation.SILU: _of_silu,
    Activation.TANH: lambda grad, y: _aten.tanh_backward(grad, y),
    Activation.SIGMOID: lambda grad, y: _aten.sigmoid_backward(grad, y),
}
