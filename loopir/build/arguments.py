"""Checks of builders' arguments; each raises a ValueError that begins with the argument's name."""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from loopir.lexer import RESERVED
from loopir.types import DType

_Choice = TypeVar("_Choice", bound=Enum)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


class Layout(Enum):
    """Which index of a matrix is contiguous in memory: the column index (row-major) or the row
    index."""

    ROW_MAJOR = "row"
    COL_MAJOR = "col"

    @property
    def contiguous(self) -> int:
        return 1 if self is Layout.ROW_MAJOR else 0


def choice(kind: type[_Choice], value: _Choice | str, argument: str) -> _Choice:
    """`value` as a member of `kind`."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise ValueError(f"{argument}: {value!r} is none of {names}") from None


def check_name(name: str) -> None:
    """A kernel's name is an identifier of the text form."""
    if _NAME.fullmatch(name) is None or name in RESERVED:
        raise ValueError(f"name: {name!r} is no identifier")


def check_sizes(sizes: Mapping[str, int | None]) -> None:
    """Each size is an int >= 0, or None to be left open."""
    for name, size in sizes.items():
        if size is not None and (type(size) is not int or size < 0):
            raise ValueError(f"{name}: a size is an int >= 0 or None, not {size!r}")


def accumulator_dtype(dtype: DType) -> DType:
    """The type that products of `dtype` are summed in: f32, f64 for f64, i32 for i8; ValueError for
    others."""
    if dtype is DType.I8:
        return DType.I32
    if not dtype.is_float:
        raise ValueError(f"dtype: a dot has no {dtype.value} operands; use a float type or i8")
    return DType.F64 if dtype is DType.F64 else DType.F32


def sum_dtype(dtype: DType) -> DType:
    """The type that `dtype` is summed in where no `dot` is meant: f32 at least, or i32 at least."""
    if dtype is DType.BOOL:
        raise ValueError("dtype: bool has no sum; use an integer type")
    least = DType.I32 if dtype.is_int else DType.F32
    return dtype if dtype.bits > least.bits else least


def dtypes(
    dtype: DType | str,
    out_dtype: DType | str | None,
    accumulator: Callable[[DType], DType] = accumulator_dtype,
) -> tuple[DType, DType, DType]:
    """The types of operands, accumulator and output; the output's is the accumulator's if None."""
    dtype = choice(DType, dtype, "dtype")
    acc = accumulator(dtype)
    return dtype, acc, acc if out_dtype is None else choice(DType, out_dtype, "out_dtype")
