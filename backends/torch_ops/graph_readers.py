"""What a call of a product or a convolution says, by its name and its arguments alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch.fx import Node

from backends.torch_ops.functions import padding_of, pair
from backends.torch_ops.report import Reason

Tensors: TypeAlias = tuple[Any, ...]  # nodes; None where there is no bias


@dataclass(frozen=True)
class Call:
    """Of `loopir::op`. `is_turned`: the second tensor, a weight, is there as [K, N]."""

    op: str
    tensors: Tensors
    steps: tuple[list[int], ...] = ()
    is_turned: bool = False


class NotTakenError(Exception):
    """Why a call stays as it is."""

    def __init__(self, reason: Reason, detail: str):
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def value_of(node: Any) -> Any:
    """What tracing says of its result: a tensor without elements, or None."""
    if not isinstance(node, Node):
        return None
    return node.meta.get("val", node.meta.get("example_value"))


# --- readers, with the names of arguments that torch has


def _matmul(input: Any, other: Any) -> Call:
    return Call("matmul", (input, other))


def _mm(input: Any, mat2: Any) -> Call:
    return Call("matmul", (input, mat2))


def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Call:
    if (alpha, beta) != (1, 1):
        raise NotTakenError(Reason.SCALE, f"alpha={alpha} beta={beta}, of which 1 is taken")
    return Call("linear", (mat1, mat2, input), is_turned=True)


def _baddbmm(input: Any, batch1: Any, batch2: Any, **scales: Any) -> Call:
    raise NotTakenError(Reason.FORM, "a batch is added, and no operator of ours adds one")


def _linear(input: Any, weight: Any, bias: Any = None) -> Call:
    return Call("linear", (input, weight, bias))


def _conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> Call:
    if groups != 1:
        raise NotTakenError(Reason.GROUPS, f"{groups} groups, of which 1 is taken")
    if isinstance(padding, str):
        padding = _from_name(padding, weight, dilation)
    return Call("conv2d", (input, weight, bias), tuple(map(_pair, (stride, padding, dilation))))


def _convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: Any,
) -> Call:
    if transposed:
        return _transposed()
    return _conv2d(input, weight, bias, stride, padding, dilation, groups)


def _transposed(*args: Any, **kwargs: Any) -> Call:
    raise NotTakenError(Reason.TRANSPOSED, "no operator of ours is a transposed convolution")


def _of_lines_or_volumes(*args: Any, **kwargs: Any) -> Call:
    raise NotTakenError(Reason.RANK, "convolutions of images are taken, two sizes a pixel")


def _from_name(name: str, weight: Any, dilation: Any) -> Any:
    try:
        return padding_of(name, value_of(weight), dilation)
    except ValueError as error:
        raise NotTakenError(Reason.SHAPE, str(error)) from None


def _pair(value: Any) -> list[int]:
    values = pair(value) if isinstance(value, int | Sequence) else [value]
    if any(type(n) is not int for n in values):
        raise NotTakenError(Reason.DYNAMIC_SHAPES, f"{value} is known only when it runs")
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2:
        raise NotTakenError(Reason.RANK, f"{len(values)} sizes a pixel, of which 2 are taken")
    return values


READERS: dict[str, Callable[..., Call]] = {
    "mm": _mm,
    "bmm": _mm,
    "matmul": _matmul,
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "linear": _linear,
    "conv2d": _conv2d,
    "convolution": _convolution,
    "conv1d": _of_lines_or_volumes,
    "conv3d": _of_lines_or_volumes,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
}
