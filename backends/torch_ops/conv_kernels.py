"""The kernels of convolutions, compiled at the first call with tensors of one shape and layout, and
kept."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch

from backends.torch_ops.conv_tiles import Convolution, cut
from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.matmul import matmul as planned
from backends.triton_codegen.ops.operands import DTYPES
from loopir.build import Activation, ConvLayout, Epilogue
from passes.pipeline import parse_pipeline

Steps: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
_PLAIN = ((1, 1), (0, 0), (1, 1))


def has_channels_last(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the result has its channels last, as torch decides it: x or weight has."""
    return any(t.stride(1) == 1 and t.shape[1] > 1 and not t.is_contiguous() for t in (x, weight))


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    steps: Steps,
    activation: Activation | None,
) -> None:
    """Write the convolution of x [NB, C, H, W] and weight [OC, C, R, S] into y, dense, with
    channels last if `has_channels_last(x, weight)`. x and weight are copied where they lie
    otherwise. `steps`: stride, padding, dilation. LoopIRError: no kernel can compute it."""
    channels_last = has_channels_last(x, weight)
    if channels_last:
        x, weight, y = (t.permute(0, 2, 3, 1) for t in (x, weight, y))
    x, weight = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, weight))
    bias = None if bias is None else bias.contiguous()
    exact = tuple(map(tuple, steps))
    if channels_last and weight.shape[1:3] == (1, 1) and exact == _PLAIN:
        planned(x, weight.flatten(1).t(), bias=bias, activation=activation, out=y)
        return
    types = x.dtype, bias is not None, activation
    kernel = kernel_of(x.shape, weight.shape, exact, channels_last, types, x.get_device())
    kernel(*(t for t in (x, weight, bias, y) if t is not None))


@lru_cache(maxsize=1024)
def kernel_of(
    images: torch.Size,
    filters: torch.Size,
    steps: tuple[Any, ...],
    channels_last: bool,
    types: tuple[torch.dtype, bool, Activation | None],
    index: int,
) -> CompiledKernel:
    """For the device `index`; that of the CPU, -1, is interpreted. `types`: of all tensors, whether
    there is a bias, the activation."""
    dtype, activation = DTYPES[types[0]], types[2]
    channel, pixel = (3, slice(1, 3)) if channels_last else (1, slice(2, 4))
    size, window = images[pixel], filters[pixel]
    stride, padding, dilation = steps
    what = Convolution(
        batch=images[0],
        channels=images[channel],
        size=(size[0], size[1]),
        outputs=filters[0],
        window=(window[0], window[1]),
        stride=stride,
        padding=padding,
        dilation=dilation,
        layout=ConvLayout.NHWC if channels_last else ConvLayout.NCHW,
        dtype=dtype,
        epilogue=Epilogue(bias=dtype if types[1] else None, activation=activation),
    )
    tile = cut(what)
    pipeline = tile.pipeline(what, device_of(index).sms)
    program = parse_pipeline(pipeline).run(what.nest())
    target = "interpret" if index < 0 else "jit"
    return compile(program, target, settings=tile.settings, pipeline=pipeline)
