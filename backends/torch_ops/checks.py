"""What the operators take: the shapes of their results, or a ValueError that names the argument.
Traced sizes are as good as numbers."""

from collections.abc import Sequence
from typing import NoReturn

import torch

from backends.torch_ops.activations import activation_of

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DEVICES = ("cpu", "cuda")


def matmul_shape(a: torch.Tensor, b: torch.Tensor) -> list[int]:
    """Of a [..., M, K] times b [..., K, N], where batches broadcast and vectors are taken, as by
    torch.matmul."""
    check_alike(a=a, b=b)
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() == 0:
            refuse(name, "a vector, a matrix or a batch of them", "a scalar")
    rows = b.shape[0] if b.dim() == 1 else b.shape[-2]
    if a.shape[-1] != rows:
        refuse("b", f"{a.shape[-1]} rows, as a has columns", f"shape {list(b.shape)}")
    batch = _batch(a.shape[:-2], b.shape[:-2])
    return [*batch, *a.shape[:-1][-1:], *([b.shape[-1]] if b.dim() > 1 else [])]


def linear_shape(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str
) -> list[int]:
    """Of x [..., K] times the transpose of weight [N, K]; bias [N]."""
    activation_of(activation)
    check_alike(x=x, weight=weight, bias=bias)
    if weight.dim() != 2:
        refuse("weight", "a matrix [N, K]", f"shape {list(weight.shape)}")
    if x.dim() == 0:
        refuse("x", "[..., K]", "a scalar")
    if x.shape[-1] != weight.shape[1]:
        refuse("x", f"{weight.shape[1]} columns, as weight has", f"shape {list(x.shape)}")
    _check_bias(bias, weight)
    return [*x.shape[:-1], weight.shape[0]]


def conv2d_shape(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    steps: Sequence[Sequence[int]],
    activation: str,
) -> list[int]:
    """Of x [NB, C, H, W] and weight [OC, C, R, S]; bias [OC]; `steps`: stride, padding, dilation,
    each two ints."""
    activation_of(activation)
    check_alike(x=x, weight=weight, bias=bias)
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor.dim() != 4:
            refuse(name, "four dimensions", f"shape {list(tensor.shape)}")
        if 0 in tensor.shape[1:] or (tensor.shape[0] == 0 and tensor is weight):
            refuse(name, "a channel and a pixel at least", f"shape {list(tensor.shape)}")
    if x.shape[1] != weight.shape[1]:
        refuse("weight", f"{x.shape[1]} channels, as x has", f"{weight.shape[1]}")
    _check_bias(bias, weight)
    _check_steps(steps)
    sizes = [_outputs(x.shape[i], weight.shape[i], *(s[i - 2] for s in steps)) for i in (2, 3)]
    return [x.shape[0], weight.shape[0], *sizes]


def check_alike(**tensors: torch.Tensor | None) -> None:
    """Of one type that products have, on one device."""
    given = {name: t for name, t in tensors.items() if t is not None}
    first, of_first = next(iter(given.items()))
    dtype, device = of_first.dtype, of_first.device
    if dtype in DTYPES and all(t.dtype is dtype and t.device == device for t in given.values()):
        return
    for name, tensor in given.items():
        if tensor.dtype not in DTYPES:
            refuse(name, f"one of {', '.join(map(str, DTYPES))}", tensor.dtype)
        if tensor.dtype is not dtype:
            refuse(name, f"dtype {dtype}, as {first}", tensor.dtype)
        if tensor.device != device:
            refuse(name, f"device {device}, as {first}", tensor.device)


def refuse(name: str, expected: str, given: object) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {given}")


def _check_bias(bias: torch.Tensor | None, weight: torch.Tensor) -> None:
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != weight.shape[0]):
        refuse("bias", f"shape [{weight.shape[0]}]", list(bias.shape))


def _check_steps(steps: Sequence[Sequence[int]]) -> None:
    least_of = {"stride": 1, "padding": 0, "dilation": 1}
    for (name, least), values in zip(least_of.items(), steps, strict=True):
        if len(values) != 2 or any(value < least for value in values):
            refuse(name, f"two ints of at least {least}", list(values))


def _outputs(size: int, window: int, stride: int, padding: int, dilation: int) -> int:
    """Pixels of the result, in one dimension."""
    span = dilation * (window - 1) + 1
    if window < 1 or size + 2 * padding < span:
        refuse("weight", f"a window that fits in {size} + 2 * {padding} pixels", f"one of {span}")
    return (size + 2 * padding - span) // stride + 1


def _batch(of_a: Sequence[int], of_b: Sequence[int]) -> Sequence[int]:
    if not of_a or not of_b:  # what is left takes long
        return of_b or of_a
    try:
        return torch.broadcast_shapes(of_a, of_b)
    except RuntimeError:
        refuse("b", f"batches that go with {list(of_a)} of a", list(of_b))
