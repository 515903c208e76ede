"""Launches of emitted kernels on arrays: padded, shifted inputs, guarded outputs, workspaces that
hold NaN."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from backends.triton_codegen import CompiledKernel, compile
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.interp.arguments import parameters
from loopir.nodes import Param, Program
from loopir.scope import launch_symbols
from loopir.types import Direction
from tests.support.numerics import Guarded, guarded, laid_out

Arrays = dict[str, np.ndarray]


def launched(
    program: Program,
    arrays: Arrays,
    target: str = "interpret",
    *,
    sizes: Mapping[str, int] | None = None,
    **settings: int,
) -> Arrays:
    """The outputs by name, as the emitted kernel computes them from `arrays`, which stay.

    `target`: interpret, or jit on a GPU. `sizes`: of launch symbols. AssertionError: an element
    around an output was written, or a counter is not zero behind the launch.
    """
    kernel = compile(program, target, **settings)
    assert isinstance(kernel, CompiledKernel)
    return poisoned_outputs(kernel, arrays, sizes or {})


def poisoned_outputs(
    kernel: CompiledKernel, arrays: Arrays, sizes: Mapping[str, int], **options: Any
) -> Arrays:
    """As `outputs`, with a workspace, where there is one, whose partial tiles are NaN, or -1."""
    workspace = poisoned_workspace(kernel, {**sizes, **options})
    if workspace is None:
        return outputs(kernel, arrays, sizes, **options)
    found = outputs(kernel, arrays, sizes, workspace=workspace, **options)
    assert not workspace.memory[: workspace.counter_bytes].any(), "counters are not zero"
    return found


def poisoned_workspace(kernel: CompiledKernel, sizes: Mapping[str, int]) -> Any:
    """A workspace whose partial tiles are NaN, or -1; None of a program that needs none. `sizes`:
    those that the launch symbols have, others may be there."""
    if not kernel.module.program.workspaces:
        return None
    asked = inspect.signature(kernel.namespace.new_workspace).parameters
    told = {name: size for name, size in sizes.items() if name in asked}
    workspace = kernel.new_workspace(-1 if _device(kernel) == "cpu" else 0, **told)
    workspace.memory[workspace.counter_bytes :] = 0xFF
    return workspace


def outputs(
    kernel: CompiledKernel,
    arrays: Arrays,
    sizes: Mapping[str, int],
    *,
    pad: int = 3,
    offset: int = 5,
    **options: Any,
) -> Arrays:
    """The outputs of one launch. `pad`: NaNs between the rows of each tensor, `offset`: elements
    before an input. `options`: of the launch, as `units`."""
    program, device = kernel.module.program, _device(kernel)
    params = parameters(program).values()
    outs: dict[str, Guarded] = {}
    tensors: list[torch.Tensor] = []
    for param in params:
        values = _tensor(param, arrays[param.name], device)
        if param.direction is Direction.IN:
            tensors.append(laid_out(values, _inner(param), pad, offset))
        else:
            outs[param.name] = _output(param, values, pad)
            tensors.append(outs[param.name].tensor)
    measured = {str(size) for p in params for size in p.shape}
    names = {n for ir in program.kernels for n in launch_symbols(ir)} - measured
    told = {n: sizes[n] for n in sorted(names) if n in sizes}
    kernel(*tensors, **told, **options)
    for out in outs.values():
        out.check_guards()
    return {name: _array(out.tensor, arrays[name]) for name, out in outs.items()}


def _device(kernel: CompiledKernel) -> str:
    return "cpu" if kernel.target.text == "interpret" else "cuda"


def _output(param: Param, values: torch.Tensor, pad: int) -> Guarded:
    """Poisoned, unless the kernel may read it."""
    shape, device = tuple(values.shape), values.device.type
    made = guarded(shape, values.dtype, device=device, contiguous=_inner(param), pad=pad)
    if param.direction is Direction.INOUT:
        made.tensor.copy_(values)
    return made


def _inner(param: Param) -> int:
    return -1 if param.contiguous is None else param.contiguous


def _tensor(param: Param, array: np.ndarray, device: str) -> torch.Tensor:
    dtype = getattr(torch, TORCH_NAME[param.dtype])
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype).to(device)


def _array(tensor: torch.Tensor, like: np.ndarray) -> np.ndarray:
    return tensor.cpu().to(torch.from_numpy(np.empty(0, like.dtype)).dtype).numpy()
