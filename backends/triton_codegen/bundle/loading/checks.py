"""Whether the tensors of a launch are what the program takes."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.model import MOST, Parameter


def check_kind(parameter: Parameter, array: Array) -> None:
    """Dtype, rank and the alignment of an element; LaunchError."""
    if array.dtype != parameter.dtype:
        _fail(parameter.name, f"dtype {parameter.dtype}", array.dtype)
    if len(array.shape) != len(parameter.shape):
        _fail(parameter.name, f"{len(parameter.shape)} dimensions", f"shape {list(array.shape)}")
    start, is_empty = array.address, 0 in array.shape
    if (start == 0 or start % parameter.element_bytes) and not is_empty:
        _fail(parameter.name, f"the address of a {parameter.dtype}", hex(start))


def check_layout(parameter: Parameter, array: Array, sizes: Sizes) -> int:
    """Shape and strides; the bytes from the first element to the end of the last. LaunchError."""
    shape = tuple(map(sizes.of, parameter.shape))
    if array.shape != shape:
        text = ", ".join(e.text for e in parameter.shape)
        _fail(parameter.name, f"shape [{text}] = {list(shape)}", list(array.shape))
    dim = parameter.contiguous
    if dim is not None and array.strides[dim] != 1 and shape[dim] > 1 and 0 not in array.shape:
        _fail(parameter.name, f"stride 1 in dimension {dim}", f"strides {list(array.strides)}")
    return _span(parameter, array)


def _span(parameter: Parameter, array: Array) -> int:
    reach = 0
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if parameter.direction != "in" and size > 1 and stride <= reach and 0 not in array.shape:
            wanted = "an output whose elements do not overlap"
            _fail(parameter.name, wanted, f"strides {list(array.strides)}")
        reach += (size - 1) * stride
    span = 0 if 0 in array.shape else (reach + 1) * parameter.element_bytes
    if span > MOST:
        _fail(parameter.name, "fewer than 2^63 bytes", f"strides {list(array.strides)}")
    return span


class Pair(NamedTuple):
    """Two tensors of a launch, by position, that may share no byte, and the bytes of each."""

    first: int
    second: int
    first_bytes: int
    second_bytes: int


def check_disjoint(pairs: Sequence[Pair], starts: Sequence[int], names: Sequence[str]) -> None:
    """No two of a pair share a byte; LaunchError."""
    for i, j, first_bytes, second_bytes in pairs:
        if starts[i] < starts[j] + second_bytes and starts[j] < starts[i] + first_bytes:
            _fail(names[i], "memory of its own", f"bytes shared with {names[j]}")


def at_least(least: int, name: str, value: object) -> int:
    """`value`, an int from `least` to 2^63 - 1; LaunchError."""
    if type(value) is not int or not least <= value < 2**63:
        _fail(name, f"an int of at least {least}", repr(value))
    return value


def _fail(name: str, expected: str, given: object) -> NoReturn:
    raise LaunchError(f"{name}: expected {expected}, got {given}")
