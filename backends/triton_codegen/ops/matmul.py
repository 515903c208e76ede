"""`matmul`: a product of tensors by the kernel that the planner chooses, which is compiled at the
first call with tensors alike, and kept."""

from typing import Any

import torch

from backends.planner import Config, Plan
from backends.planner import plan as plan_of
from backends.triton_codegen.ops.bound import Bound, first_call
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, call_of
from loopir.build import Activation

_MOST_BOUND = 4096
_bound: dict[Any, Bound] = {}


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
    activation: Activation | str | None = None,
    residual: torch.Tensor | None = None,
    alpha: float = 1,
    beta: float = 0,
    plan: Config | str | None = None,
    tune: bool = False,
) -> torch.Tensor:
    """activation(alpha * a @ b + beta * out + bias) + residual, summed in f32 (f64 of f64, i32 of
    i8), rounded once to the result's type.

    a [..., M, K], b [..., K, N]: of one float type or int8; batches broadcast, and vectors are
    taken, as in torch.matmul. A tensor is copied only where none of its last two dimensions has
    stride 1. `out` [..., M, N] is written and returned if given; else the result has `out_dtype`,
    a's type if not said. bias [N]; residual [..., M, N]. `plan`: the configuration to use, or its
    text; None: the planner's. `tune`: time the best few of the planner's on such tensors, once, and
    pin the winner in the user's cache.

    The first call with tensors of a shape, layout and type compiles; later ones only launch, on the
    current stream of the tensors' device, and wait for nothing: they may be captured in a graph. On
    the CPU the kernel is interpreted. ValueError: the argument that does not fit. LoopIRError: no
    configuration can compute this.
    """
    try:
        key = (
            *(a.shape, a.stride(), a.dtype, a.device, a.data_ptr() % 16),
            *(a.layout, a.is_neg(), a.requires_grad),
            *(b.shape, b.stride(), b.dtype, b.device, b.data_ptr() % 16),
            *(b.layout, b.is_neg(), b.requires_grad),
            out if out is None else _layout(out),
            bias if bias is None else _layout(bias),
            residual if residual is None else _layout(residual),
            *(out_dtype, activation, alpha, beta, plan, tune, torch.is_grad_enabled()),
        )
        found = _bound.get(key)
    except (AttributeError, RuntimeError, TypeError):
        key, found = None, None
    if found is not None:
        return found(a, b, out, bias, residual)
    args = Arguments(a, b, out, out_dtype, bias, activation, residual, alpha, beta)
    config = Config.parse(plan) if isinstance(plan, str) else plan
    bound, result = first_call(args, config, tune)
    _keep(key, bound)
    return result


def _layout(t: torch.Tensor) -> tuple[Any, ...]:
    """All of a tensor that a kernel or a check depends on; that of a and b is spelled out above,
    for speed."""
    place = t.device, t.data_ptr() % 16
    return t.shape, t.stride(), t.dtype, *place, t.layout, t.is_neg(), t.requires_grad


def _keep(key: Any, bound: Bound) -> None:
    if key is None:
        return
    if len(_bound) >= _MOST_BOUND:
        _bound.clear()
    _bound[key] = bound


def plan_for(a: torch.Tensor, b: torch.Tensor, **options: Any) -> Plan:
    """What the planner thinks of `matmul(a, b, **options)`; `print(plan_for(a, b).text())`.
    ValueError: an argument does not fit, or the result has no element."""
    problem = call_of(Arguments(a, b, **options)).problem
    return plan_of(problem, device_of(a.get_device()))
