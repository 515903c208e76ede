"""The emitted kernel and the reference interpreter of the IR, run on the same inputs."""

from collections.abc import Mapping

import numpy as np
import torch

from backends.triton_codegen import CompiledKernel, compile
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.interp import random_inputs, run
from loopir.interp.arguments import parameters
from loopir.nodes import Program
from loopir.scope import launch_symbols
from loopir.types import Direction
from tests.support.launches import poisoned_workspace

Pair = tuple[torch.Tensor, torch.Tensor]


def outputs_of_both(
    program: Program,
    target: str = "interpret",
    *,
    sizes: Mapping[str, int] | None = None,
    integer_valued: bool = False,
    **settings: int,
) -> list[Pair]:
    """Each output, on the CPU, as the emitted kernel and as the reference interpreter has it.

    `target`: interpret, or jit on a GPU. `sizes`: of the launch symbols, others may be there.
    """
    open_names = {name for kernel in program.kernels for name in launch_symbols(kernel)}
    sizes = {n: v for n, v in (sizes or {}).items() if n in open_names}
    arrays = random_inputs(program, 1, integer_valued, sizes)
    params = list(parameters(program).values())
    device = "cuda" if target == "jit" else "cpu"
    tensors = [_tensor(arrays[p.name], TORCH_NAME[p.dtype], device) for p in params]
    kernel = compile(program, target, **settings)
    assert isinstance(kernel, CompiledKernel)
    measured = {str(size) for p in params for size in p.shape}
    told = {n: v for n, v in sizes.items() if n not in measured}
    workspace = poisoned_workspace(kernel, sizes)
    kernel(*tensors, **told, **({} if workspace is None else {"workspace": workspace}))
    run(program, arrays, sizes)
    return [
        (tensor.cpu(), torch.from_numpy(np.ascontiguousarray(arrays[p.name])))
        for p, tensor in zip(params, tensors, strict=True)
        if p.direction is not Direction.IN
    ]


def _tensor(array: np.ndarray, dtype: str, device: str) -> torch.Tensor:
    """A copy of the values, with the strides of the array."""
    source = torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, dtype))
    strides = [s // array.itemsize for s in array.strides]
    copy = torch.empty_strided(array.shape, strides, dtype=source.dtype, device=device)
    return copy.copy_(source)


def allowed_difference(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Of two f32 computations that add in different orders, rounded to the type of `found`."""
    scale = 1 + expected.double().abs().nan_to_num(0, 0, 0)
    eps = torch.finfo(found.dtype).eps if found.is_floating_point() else 0
    return (512 * torch.finfo(torch.float32).eps + eps) * scale
