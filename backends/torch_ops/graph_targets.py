"""What the nodes of a graph call, by one name, whichever way it was traced: functions of torch,
methods of tensors, overloads of aten."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

PRODUCTS = ("mm", "bmm", "matmul", "addmm", "baddbmm", "linear")
CONVOLUTIONS = (
    *("convolution", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid")
_METHODS = {name: name for name in (*PRODUCTS, *ACTIVATIONS)}
_METHODS |= {f"{name}_": name for name in ACTIVATIONS}  # in place
_FORMS_OF_RESULTS = frozenset(("out", "names", "dtype", "dtype_out"))  # overloads of aten


def name_of(node: Node) -> str:
    """The name in the tables above of what `node` calls; "" of anything else."""
    if node.op == "call_method":
        return _METHODS.get(str(node.target), "")
    return _FUNCTIONS.get(node.target, "") if callable(node.target) else ""


def _functions() -> Iterator[tuple[Callable[..., Any], str]]:
    for form, name in {**_METHODS, **{name: name for name in CONVOLUTIONS}}.items():
        homes = (getattr(torch, form, None), getattr(F, form, None), *_overloads(form))
        yield from ((function, name) for function in homes if callable(function))
    yield operator.matmul, "matmul"


def _overloads(form: str) -> Iterator[Callable[..., Any]]:
    packet = getattr(torch.ops.aten, form, None)
    for overload in packet.overloads() if packet is not None else ():
        if overload not in _FORMS_OF_RESULTS:
            yield getattr(packet, overload)


_FUNCTIONS: dict[Any, str] = dict(_functions())
