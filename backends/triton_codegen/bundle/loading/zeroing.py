"""Buffers set to zero: rows of bytes, without what lies between them."""

from collections.abc import Iterator
from typing import NamedTuple

from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.driver import Driver

_MOST_PITCH = 2**31 - 1


class Rows(NamedTuple):
    """`rows` times `width` bytes, `pitch` apart, from `offset` behind the start of a buffer on."""

    offset: int
    pitch: int
    width: int
    rows: int


def rows_of(array: Array, element_bytes: int) -> tuple[Rows, ...]:
    """All elements of an array, and no byte more."""
    if 0 in array.shape:
        return ()
    width, rest = element_bytes, []
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size > 1 and not rest and stride * element_bytes == width:
            width *= size
        elif size > 1:
            rest.append((stride * element_bytes, size))
    pitch, rows = rest.pop(0) if rest and rest[0][0] <= _MOST_PITCH else (0, 1)
    return tuple(Rows(offset, pitch, width, rows) for offset in _offsets(rest))


def _offsets(steps: list[tuple[int, int]]) -> Iterator[int]:
    if not steps:
        yield 0
        return
    *rest, (step, size) = steps
    for i in range(size):
        yield from (i * step + offset for offset in _offsets(rest))


def zero(driver: Driver, start: int, each: tuple[Rows, ...], stream: int) -> None:
    """Sets rows of the buffer that lies at `start` to zero, on the stream."""
    for offset, pitch, width, rows in each:
        if rows == 1:
            driver.zero(start + offset, width, stream)
        else:
            driver.zero_rows(start + offset, pitch, width, rows, stream)
