"""How an operator of the namespace `loopir` is defined: its schema, its kernels, its fake, its
gradients, what autocast does."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import torch
from torch.autograd import forward_ad

from backends.torch_ops.interpreted import is_asked

Kernel: TypeAlias = Callable[..., torch.Tensor]
_Value = TypeVar("_Value")


def define(
    name: str,
    schema: str,
    *,
    generated: Kernel,
    on_cpu: Kernel,
    fake: Kernel,
    keep: Callable[..., None],
    gradients: Callable[..., tuple[torch.Tensor | None, ...]],
) -> None:
    """`loopir::name`, by `generated` on a GPU and, if `interpreted`, on CPU tensors; else there by
    `on_cpu`. They take all arguments of the schema. `keep` and `gradients` are what
    register_autograd takes."""
    qualified = f"loopir::{name}"
    torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
    op = getattr(torch.ops.loopir, name).default
    generated, on_cpu, fake = (_with_all(op, kernel) for kernel in (generated, on_cpu, fake))

    def cpu(*args: Any) -> torch.Tensor:
        return generated(*args) if is_asked() else on_cpu(*args)

    torch.library.impl(qualified, "cuda")(_without_tangents(op, generated))
    torch.library.impl(qualified, "cpu")(_without_tangents(op, cpu))
    torch.library.register_fake(qualified)(_without_tangents(op, fake))
    torch.library.register_autograd(qualified, gradients, setup_context=keep)
    _define_autocast(op)


def _with_all(op: torch._ops.OpOverload, kernel: Kernel) -> Kernel:
    """The dispatcher leaves out arguments at the end that equal their defaults."""
    defaults = [argument.default_value for argument in op._schema.arguments]

    @wraps(kernel)
    def called(*args: Any) -> torch.Tensor:
        return kernel(*args, *defaults[len(args) :])

    return called


def _without_tangents(op: torch._ops.OpOverload, kernel: Kernel) -> Kernel:
    """torch would take the derivative for zero where there is no rule for it."""

    def called(*args: Any) -> torch.Tensor:
        if getattr(forward_ad, "_current_level", -1) >= 0:
            raise NotImplementedError(f"{op.name()}: no forward-mode derivative")
        return kernel(*args)

    return called


def wanted(ctx: Any) -> list[bool]:
    """Of which of the first three arguments a gradient is asked for; none of what was left out."""
    return [*ctx.needs_input_grad, False, False, False][:3]


_library = torch.library.Library("loopir", "FRAGMENT")


def _define_autocast(op: torch._ops.OpOverload) -> None:
    """Operands go to the type of the region, as those of torch's own products do."""
    for device, key in (("cuda", "AutocastCUDA"), ("cpu", "AutocastCPU")):

        def cast(*args: Any, device: str = device) -> torch.Tensor:
            dtype = torch.get_autocast_dtype(device)
            with torch.autocast(device, enabled=False):
                return op(*(_as(dtype, device, arg) for arg in args))

        _library.impl(op, cast, key)


def _as(dtype: torch.dtype, device: str, value: _Value) -> _Value | torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.device.type != device:
        return value
    is_cast = value.is_floating_point() and value.dtype is not torch.float64
    return value.to(dtype) if is_cast else value
