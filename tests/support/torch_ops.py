"""Operators of torch against fp64, and what they call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.numerics import Oracle, bound, check_close, product

#: the function of fp64, and how much it may grow a difference
ACTIVATIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "none": (lambda x: x, 1),
    "relu": (F.relu, 1),
    "gelu": (F.gelu, 1.13),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), 1.13),
    "silu": (F.silu, 1.1),
    "tanh": (torch.tanh, 1),
    "sigmoid": (torch.sigmoid, 0.25),
}
_APPROXIMATE = 2e-6  # of erf, exp and tanh in f32, absolute


def accumulator(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def check_matmul(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """`result` is a @ b, as torch.matmul shapes it, within the bound of its sums."""
    left = a if a.dim() > 1 else a[None]
    right = b if b.dim() > 1 else b[:, None]
    oracle, shape = product(left, right), torch.matmul(a.double(), b.double()).shape
    assert (result.dtype, result.shape) == (a.dtype, shape)
    assert result.is_contiguous()
    allowed = bound(oracle, accumulator(a.dtype), a.dtype)
    check_close(result, oracle.value.reshape(shape), allowed.reshape(shape))


def check_linear(
    result: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str,
) -> None:
    """`result` is activation(x @ weight.T + bias), rounded once."""
    oracle = product(x, weight.t())
    check_epilogue(result, oracle, bias, activation)


def check_conv2d(
    result: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    steps: dict[str, Any],
    activation: str = "none",
) -> None:
    """`result` is activation(conv2d(x, weight) + bias), rounded once, in torch's memory format."""
    value = F.conv2d(x.double(), weight.double(), **steps)
    magnitude = F.conv2d(x.double().abs(), weight.double().abs(), **steps)
    oracle = Oracle(value, magnitude, weight[0].numel())
    spread = None if bias is None else bias[:, None, None]
    check_epilogue(result, oracle, spread, activation)
    theirs = F.conv2d(x, weight, **steps)
    assert result.stride() == theirs.stride()


def check_epilogue(
    result: torch.Tensor, oracle: Oracle, bias: torch.Tensor | None, activation: str
) -> None:
    of_fp64, growth = ACTIVATIONS[activation]
    shift = 0 if bias is None else bias.double()
    expected, acc = of_fp64(oracle.value + shift), accumulator(result.dtype)
    sums = bound(oracle, acc, torch.float64)  # no rounding yet
    rounding = bound(Oracle(expected, torch.zeros_like(expected), 1), acc, result.dtype)
    approximate = 0 if activation in ("none", "relu") else _APPROXIMATE
    shifted = torch.finfo(acc).eps * (oracle.value + shift).abs()
    check_close(result, expected, growth * (sums + shifted) + rounding + approximate)


def distance(found: torch.Tensor, exact: torch.Tensor) -> float:
    """How far two tensors are apart, over the length of the second; a rounding to bf16: 0.0017."""
    return ((found.double() - exact).norm() / exact.norm()).item()


class Calls(TorchDispatchMode):
    """The names of the operators that run within it, as `loopir.matmul`."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removesuffix(".default"))
        return func(*args, **(kwargs or {}))

    def count(self, name: str) -> int:
        return self.names.count(name)


@contextmanager
def graphs_of_autograd() -> Iterator[tuple[Callable[..., Any], list[torch.fx.GraphModule]]]:
    """A backend of torch.compile that runs the graphs which autograd is traced into, and those
    graphs: forward, then backward."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    yield aot_autograd(fw_compiler=keep, bw_compiler=keep), graphs
    torch._dynamo.reset()


def called(graph: torch.fx.GraphModule) -> list[str]:
    """What the nodes of a graph call."""
    return [
        str(node.target).removesuffix(".default")
        for node in graph.graph.nodes
        if node.op == "call_function"
    ]
