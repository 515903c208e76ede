"""From a node of a graph to a call of an operator of ours, or the reason why there is none."""

import torch
from torch.fx import Node

from backends.torch_ops.activations import BY_OUTPUT, NONE, activation_of
from backends.torch_ops.checks import DEVICES, DTYPES, conv2d_shape, linear_shape, matmul_shape
from backends.torch_ops.graph_readers import READERS, Call, NotTakenError, value_of
from backends.torch_ops.graph_targets import ACTIVATIONS, name_of
from backends.torch_ops.report import Reason


def call_of(node: Node) -> Call | None:
    """None of what is no product and no convolution. NotTakenError: one that no operator of ours
    stands for."""
    reader = READERS.get(name_of(node))
    if reader is None:
        return None
    try:
        call = reader(*node.args, **node.kwargs)
    except TypeError as error:
        mistake = str(error).partition("() ")[2]
        raise NotTakenError(Reason.FORM, f"it {mistake}") from None
    _check(call, node)
    return call


def activation_behind(node: Node) -> tuple[str, Node]:
    """The activation that is the only user of `node`, and its node; `none` and `node` where there
    is none, where it has another type or wants no derivative as `node` does, of another region of
    autocast or of `no_grad`, or where a derivative is wanted that would repeat the product."""
    users = list(node.users)
    user = users[0] if len(users) == 1 else node
    name = name_of(user)
    if name not in ACTIVATIONS or user.args[:1] != (node,) or not _are_alike(node, user):
        return NONE, node
    options = {k: v for k, v in user.kwargs.items() if k != "inplace"}
    if options == {"approximate": "tanh"}:
        name, options = "gelu_tanh", {}
    is_plain = options in ({}, {"approximate": "none"})
    is_wanted = getattr(value_of(user), "requires_grad", False)
    repeats = activation_of(name) not in BY_OUTPUT and is_wanted
    return (name, user) if is_plain and not repeats else (NONE, node)


def _are_alike(node: Node, user: Node) -> bool:
    values = [value_of(n) for n in (node, user)]
    (first, second) = [(getattr(v, "dtype", None), getattr(v, "requires_grad", 0)) for v in values]
    return first == second


# --- what the tensors must be


def _check(call: Call, node: Node) -> None:
    values, result = [value_of(t) for t in call.tensors if t is not None], value_of(node)
    for value in (*values, result):
        if not isinstance(value, torch.Tensor):
            raise NotTakenError(Reason.FORM, "it is not known which tensors it takes or gives")
        _check_value(value, result.device)
    try:
        _check_shapes(call, [v.to(result.dtype) for v in values])  # autocast goes to the result's
    except ValueError as error:
        raise NotTakenError(Reason.SHAPE, str(error)) from None


def _check_value(value: torch.Tensor, device: torch.device) -> None:
    if value.device.type not in DEVICES or value.device != device:
        raise NotTakenError(Reason.DEVICE, f"a tensor on {value.device}")
    if value.dtype not in DTYPES:
        raise NotTakenError(Reason.DTYPE, f"a tensor of {value.dtype}")
    if value.layout is not torch.strided:
        raise NotTakenError(Reason.LAYOUT, f"a tensor of {value.layout}")
    if any(not isinstance(size, int) for size in value.shape):
        detail = f"shape {list(value.shape)}: a kernel is compiled for each size"
        raise NotTakenError(Reason.DYNAMIC_SHAPES, detail)


def _check_shapes(call: Call, values: list[torch.Tensor]) -> None:
    if call.op == "matmul":
        matmul_shape(*values)
        return
    x, weight, *added = values
    bias = added[0] if added else None
    if call.op == "linear":
        linear_shape(x, weight.t() if call.is_turned else weight, bias, NONE)
    else:
        conv2d_shape(x, weight, bias, call.steps, NONE)
