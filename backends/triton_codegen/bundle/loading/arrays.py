"""The tensors of a launch as a loader sees them: torch's, or memory described by the caller."""

import sys
from dataclasses import dataclass, replace
from typing import Any

from backends.triton_codegen.bundle.loading.errors import LaunchError

TORCH_NAMES = {
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "bool": "bool",
}
_DTYPES = {f"torch.{theirs}": ours for ours, theirs in TORCH_NAMES.items()}


@dataclass(frozen=True)
class Array:
    """A tensor in the memory of a GPU, for hosts without torch: `address` of its first element,
    dtype as in the manifest, shape, strides in elements, number of the device."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int = 0


def is_torch(tensor: Any) -> bool:
    """Whether it is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def as_array(name: str, tensor: Any) -> Array:
    """A tensor as an Array. LaunchError: it is none that a kernel can be given."""
    if isinstance(tensor, Array):
        return _checked(name, tensor)
    if not is_torch(tensor):
        wanted = "a torch.Tensor or an Array"
        raise LaunchError(f"{name}: expected {wanted}, got {type(tensor).__name__}")
    if str(tensor.layout) != "torch.strided":
        raise LaunchError(f"{name}: expected a dense tensor, got {tensor.layout}")
    if tensor.is_neg() or tensor.is_conj():
        wanted = "a tensor of its own values (resolve_neg() makes one)"
        raise LaunchError(f"{name}: expected {wanted}, got a negated view")
    if not tensor.is_cuda:
        raise LaunchError(f"{name}: expected a tensor on a GPU, got one on {tensor.device}")
    dtype = _DTYPES.get(str(tensor.dtype), str(tensor.dtype))
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    try:
        return Array(tensor.data_ptr(), dtype, shape, strides, tensor.get_device())
    except RuntimeError as error:  # of a tensor that stands for another
        raise LaunchError(f"{name}: expected a tensor with memory: {error}") from None


def _checked(name: str, array: Array) -> Array:
    numbers = (array.address, array.device, *array.shape, *array.strides)
    if any(type(n) is not int or not 0 <= n < 2**63 for n in numbers):
        raise LaunchError(f"{name}: expected integers of at least 0, got {array}")
    if len(array.shape) != len(array.strides):
        raise LaunchError(f"{name}: expected a stride for each dimension, got {array}")
    return replace(array, shape=tuple(array.shape), strides=tuple(array.strides))
