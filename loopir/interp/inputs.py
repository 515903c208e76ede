"""Seeded arrays to run a program on."""

from collections.abc import Mapping

import numpy as np

from loopir.interp.arguments import bind_where, known
from loopir.interp.formats import STORAGE, rounded
from loopir.interp.workspace import poisoned
from loopir.nodes import ElementRead, Let, Param, Program
from loopir.types import Direction, DType
from loopir.walk import walk_program

_LARGEST = 4  # of integer-valued data: exact in every type, and so are sums of many products


def random_inputs(
    program: Program,
    seed: int,
    integer_valued: bool = True,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """An array for every parameter, of its shape, type and contiguous dimension.

    Values are integers in -4 .. 4, or, without `integer_valued`, floats of about that size in
    float types; outputs are poisoned (NaN, integers 7). A parameter that `let x = buffer[i]` reads
    is a permutation of 0 .. count - 1. `sizes`: of launch symbols. LaunchError: one has no value.
    """
    rng, tables = np.random.default_rng(seed), _tables(program)
    arrays: dict[str, np.ndarray] = {}
    for kernel in program.kernels:
        env = dict(sizes or {})
        bind_where(kernel, env)
        for param in kernel.params:
            if param.name in arrays:
                continue
            shape = tuple(known(e, env, f"the shape of {param.name}") for e in param.shape)
            is_table = param.name in tables
            values = _values(rng, param, shape, integer_valued, is_table)
            arrays[param.name] = _laid_out(values, param)
    return arrays


def _tables(program: Program) -> set[str]:
    """Buffers whose elements are read as scalars."""
    lets = (s.expr for _, s in walk_program(program) if isinstance(s, Let))
    return {read.buffer for read in lets if isinstance(read, ElementRead)}


def _values(
    rng: np.random.Generator,
    param: Param,
    shape: tuple[int, ...],
    integer_valued: bool,
    is_table: bool,
) -> np.ndarray:
    if param.direction is Direction.OUT:
        return poisoned(shape, param.dtype)
    if is_table:
        return rng.permutation(int(np.prod(shape))).reshape(shape).astype(STORAGE[param.dtype])
    if param.dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if integer_valued or param.dtype.is_int:
        return rounded(rng.integers(-_LARGEST, _LARGEST, shape, endpoint=True), param.dtype)
    return rounded(rng.normal(scale=_LARGEST / 2, size=shape), param.dtype)


def _laid_out(values: np.ndarray, param: Param) -> np.ndarray:
    """`values` in memory with stride one in the parameter's contiguous dimension."""
    if param.contiguous is None or not values.ndim:
        return values
    moved = np.moveaxis(values, param.contiguous, -1)
    return np.moveaxis(np.ascontiguousarray(moved), -1, param.contiguous)
