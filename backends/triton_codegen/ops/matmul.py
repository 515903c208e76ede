"""`matmul`: a product of tensors by the kernel that the planner chooses, which is compiled at the
first call with tensors alike, and kept."""

from typing import Any

import torch

from backends.planner import Config, Plan
from backends.planner import plan as plan_of
from backends.triton_codegen.ops.bound import Bound, first_call
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, call_of, can_view, check_places
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
    stride 1. `out` [..., M, N] is written and returned if given, wherever its elements lie; else
    the result has `out_dtype`, a's type if not said. bias [N]; residual [..., M, N]. `plan`: the
    configuration to use, or its text; None: the planner's. `tune`: time the best few of the
    planner's on such tensors, once, and pin the winner in the user's cache.

    The first call with tensors of a shape, layout and type compiles; later ones only launch, on the
    current stream of the tensors' device, and wait for nothing: they may be captured in a graph. On
    the CPU the kernel is interpreted. ValueError: the argument that does not fit; an `out` of
    another shape or type, or with two elements in one place; a bias or residual of another shape,
    or of a type that the sum's does not take: floats take floats, integers integers. LoopIRError:
    no configuration can compute this.
    """
    try:
        wants_grad = (a.requires_grad or b.requires_grad) and torch.is_grad_enabled()
        key = (
            a.shape, a.stride(), a.dtype, a.device, a.data_ptr() % 16, a.is_neg(),
            b.shape, b.stride(), b.dtype, b.device, b.data_ptr() % 16, b.is_neg(),
            out if out is None else _layout(out),
            bias if bias is None else _layout(bias),
            residual if residual is None else _layout(residual),
            out_dtype, activation, alpha, beta, plan, tune, wants_grad,
        )  # fmt: skip
        found = _bound.get(key)
    except (AttributeError, RuntimeError, TypeError):
        key, found = None, None
    if found is not None:
        return found(a, b, out, bias, residual)
    args = Arguments(a, b, out, out_dtype, bias, activation, residual, alpha, beta)
    if _has_rows_in_pieces(out) or _has_batches_apart(args):
        options = {"activation": activation, "alpha": alpha, "beta": beta, "plan": plan}
        return _scattered(a, b, out, bias, residual, out_dtype=out_dtype, tune=tune, **options)
    config = _config(plan)
    bound, result = first_call(args, config, tune)
    _keep(key, bound)
    return result


def _config(plan: Any) -> Config | None:
    config = Config.parse(plan) if isinstance(plan, str) else plan
    if not isinstance(config, Config | None):
        given = type(plan).__name__
        raise ValueError(f"plan: expected a Config, its text or None, got {given}")
    return config


def _has_rows_in_pieces(out: Any) -> bool:
    """Whether the elements of a row lie apart, so that no kernel stores into it."""
    if not isinstance(out, torch.Tensor) or out.layout is not torch.strided or out.dim() == 0:
        return False
    return out.stride(-1) != 1 and out.shape[-1] > 1


def _has_batches_apart(args: Arguments) -> bool:
    """Whether the batches of `out` are no one dimension, as a kernel has them."""
    out = args.out
    if not isinstance(out, torch.Tensor) or out.dim() <= 2:
        return False
    return not can_view(out, call_of(args).result)


def _scattered(
    a: torch.Tensor,
    b: torch.Tensor,
    out: Any,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    **options: Any,
) -> torch.Tensor:
    """A matrix of columns is written as the transpose of the product of transposes; anything else,
    and where a bias is added to columns, from a result of its own."""
    check_places(out)
    added = () if residual is None else (residual,)
    if bias is None and out.stride(0) == 1 and all(map(_is_matrix, (a, b, out, *added))):
        turned = None if residual is None else residual.mT
        matmul(b.mT, a.mT, out=out.mT, residual=turned, **options)
        return out
    result = out.contiguous()
    matmul(a, b, out=result, bias=bias, residual=residual, **options)
    return out.copy_(result)


def _is_matrix(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.dim() == 2


def _layout(t: torch.Tensor) -> tuple[Any, ...]:
    """All of a tensor that a kernel or a check depends on; that of a and b is spelled out above,
    for speed. What is not dense has no strides, and raises."""
    wants_grad = t.requires_grad and torch.is_grad_enabled()
    return t.shape, t.stride(), t.dtype, t.device, t.data_ptr() % 16, t.is_neg(), wants_grad


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
