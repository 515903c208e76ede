"""What workloads compute, by numpy and torch in fp64 or 64-bit integers, and how a program's result
is compared with it."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from loopir.build import ConvLayout, Epilogue
from loopir.interp import random_inputs, rounded, run
from loopir.nodes import Program
from loopir.types import Direction, DType, ReduceOp
from loopir.verifier import verify

Arrays = dict[str, np.ndarray]


def check(
    program: Program,
    oracle: Callable[[Arrays], np.ndarray | Mapping[str, np.ndarray]],
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> None:
    """AssertionError unless the program, run by the interpreter on seeded inputs, gives what
    `oracle` makes of them: the output, or the outputs by name.

    Inputs are integers and the result exact, once rounded to the output's dtype; with a
    `tolerance`, inputs are any floats, and errors relative to 1 + |expected| are at most that.
    """
    verify(program)
    arrays = random_inputs(program, seed, tolerance is None, sizes)
    expected = oracle({name: wide(array) for name, array in arrays.items()})
    run(program, arrays, _unmeasured(program, sizes))
    outs = [p for p in program.kernels[0].params if p.direction is not Direction.IN]
    if not isinstance(expected, Mapping):
        expected = {outs[0].name: expected}
    assert expected.keys() == {p.name for p in outs}
    for out in outs:
        compare(arrays[out.name], expected[out.name], out.dtype, tolerance)


def _unmeasured(program: Program, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The sizes that the shapes of arrays do not tell."""
    told = {str(e) for p in program.kernels[0].params for e in p.shape}
    return {name: size for name, size in (sizes or {}).items() if name not in told}


def compare(found: np.ndarray, expected: np.ndarray, dtype: DType, tolerance: float | None) -> None:
    """Equal to `expected` rounded to `dtype`, or as near as `tolerance` says."""
    assert found.shape == expected.shape, f"{found.shape}, expected {expected.shape}"
    if tolerance is None:
        np.testing.assert_array_equal(found, rounded(expected, dtype))
        return
    excess = np.abs(found - expected) - tolerance * (1 + np.abs(expected))
    assert (excess <= 0).all(), f"beyond the tolerance by {excess.max()}"


def wide(array: np.ndarray) -> np.ndarray:
    """A copy as f64 or i64."""
    return array.astype(np.int64 if array.dtype.kind == "i" else np.float64)


# --- workloads


def conv(
    x: np.ndarray,
    f: np.ndarray,
    layout: ConvLayout,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> np.ndarray:
    """By torch, in f64, of arrays in `layout`."""
    function = F.conv1d if x.ndim == 3 else F.conv2d
    images, filters = (torch.from_numpy(channels_first(a, layout)).double() for a in (x, f))
    made = function(images, filters, None, stride, padding, dilation, groups).numpy()
    return np.moveaxis(made, 1, -1) if layout.channels_last else made


def channels_first(array: np.ndarray, layout: ConvLayout) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, -1, 1) if layout.channels_last else array)


_COMBINE: dict[ReduceOp, np.ufunc] = {
    ReduceOp.ADD: np.add,
    ReduceOp.MUL: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.AND: np.bitwise_and,
    ReduceOp.OR: np.bitwise_or,
}


def reduction(op: ReduceOp, x: np.ndarray, axes: int | Sequence[int]) -> np.ndarray:
    """One element, in an array of one dimension, where no axis is left."""
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return np.atleast_1d(_COMBINE[op].reduce(x, axes))


def epilogue(
    e: Epilogue, total: np.ndarray, arrays: Arrays, out: str, channel_axis: int = -1
) -> np.ndarray:
    """`activation(alpha * total + beta * old + bias) + residual`, the activation by torch."""
    value = e.alpha * total
    if e.beta:
        value = value + e.beta * arrays[out]
    if e.bias:
        shape = [1] * total.ndim
        shape[channel_axis] = -1
        value = value + arrays["bias"].reshape(shape)
    if e.activation:
        value = _ACTIVATIONS[str(e.activation.value)](torch.from_numpy(value)).numpy()  # pyright: ignore
    return value + arrays["residual"] if e.residual else value


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def activation(name: str, value: np.ndarray) -> np.ndarray:
    """By torch, in f64."""
    return _ACTIVATIONS[name](torch.from_numpy(value)).numpy()


def root_of(terms: int) -> float:
    """A tolerance for sums of that many terms in f32."""
    return 4 * math.sqrt(max(1, terms)) * 2.0**-23
