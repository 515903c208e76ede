"""Types of tiles and of element-wise expressions: shapes broadcast, dtypes never convert.

A number has no dtype and no shape of its own, and takes those of what it meets. Two shapes of one
rank meet if each pair of sizes is equal or has a one; `expand` makes ranks equal.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from loopir.nodes import (
    Alloc,
    Apply,
    AxisReduce,
    Cast,
    Ewise_,
    Expand,
    Kernel,
    Mask,
    Part,
    TileRef,
)
from loopir.scope import constants
from loopir.symbols import try_evaluate
from loopir.types import DType, Kind
from loopir.walk import walk

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class TileType:
    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype.value}{list(self.shape)}"


Tiles: TypeAlias = Mapping[str, TileType]

#: dtype of both operands of a `dot` -> dtypes that its accumulator may have
DOT_ACCUMULATORS = {
    DType.F8E4M3: (DType.F32,),
    DType.F8E5M2: (DType.F32,),
    DType.F16: (DType.F32, DType.F16),
    DType.BF16: (DType.F32,),
    DType.F32: (DType.F32,),
    DType.F64: (DType.F64,),
    DType.I8: (DType.I32,),
}

#: elements along the rows and the columns of a dot that one MMA step takes
MMA_SIDE = 16

_LARGEST = {
    DType.F8E4M3: 448.0,
    DType.F8E5M2: 57344.0,
    DType.F16: 65504.0,
    DType.BF16: float.fromhex("0x1.fep127"),
    DType.F32: float.fromhex("0x1.fffffep127"),
    DType.F64: float.fromhex("0x1.fffffffffffffp1023"),
}


def panel_step(dtype: DType) -> int:
    """Elements of the summed axis that one MMA step of operands of `dtype` takes."""
    return 2 * MMA_SIDE if dtype.bits == 8 else MMA_SIDE


def tile_types(kernel: Kernel) -> dict[str, TileType]:
    """The type of every tile whose shape is constant; the verifier refuses any other."""
    sizes = constants(kernel)
    allocs = (s for _, s in walk(kernel.body) if isinstance(s, Alloc))
    shapes = ((a, constant_shape(a, sizes)) for a in allocs)
    return {a.name: TileType(shape, a.dtype) for a, shape in shapes if shape is not None}


def constant_shape(alloc: Alloc, sizes: Mapping[str, int]) -> Shape | None:
    """The shape as numbers; None unless every size is a positive constant."""
    shape = tuple(try_evaluate(e, sizes) or 0 for e in alloc.shape)
    return shape if all(n > 0 for n in shape) else None


# --- shapes


def ewise_shape(expr: Ewise_, tiles: Tiles, mistakes: list[str] | None = None) -> Shape | None:
    """The shape of `expr`: () of a number, None if there is none; `mistakes` gets the reasons."""
    noted: list[str] = [] if mistakes is None else mistakes
    match expr:
        case TileRef(name):
            return tiles[name].shape if name in tiles else None
        case Cast(_, arg):
            return ewise_shape(arg, tiles, noted)
        case Expand(arg, axis):
            shape = _with_axis(expr, ewise_shape(arg, tiles, noted), 1, noted)
            return None if shape is None else (*shape[:axis], 1, *shape[axis:])
        case AxisReduce(_, arg, axis):
            shape = _with_axis(expr, ewise_shape(arg, tiles, noted), 0, noted)
            return None if shape is None else (*shape[:axis], *shape[axis + 1 :])
        case Mask(arg):
            return _with_axis(expr, ewise_shape(arg, tiles, noted), 0, noted)
        case Part(arg):
            shape = _with_axis(expr, ewise_shape(arg, tiles, noted), 0, noted)
            return None if shape is None else _part_shape(expr, shape, noted)
        case Apply(_, args):
            return _broadcast([ewise_shape(a, tiles, noted) for a in args], noted)
    return ()


def _with_axis(
    expr: Expand | AxisReduce | Mask | Part, shape: Shape | None, extra: int, mistakes: list[str]
) -> Shape | None:
    """`shape`, if the axis of `expr` is one of its own or, with `extra`, of one that it can get."""
    if shape is None or 0 <= expr.axis < len(shape) + extra:
        return shape
    mistakes.append(f"axis {expr.axis} of a value of rank {len(shape)}")
    return None


def _part_shape(part: Part, shape: Shape, mistakes: list[str]) -> Shape | None:
    """The shape of a part of `shape`, if there is one."""
    axis, count, size = part.axis, part.count, shape[part.axis]
    if count < 1 or count & (count - 1):
        mistakes.append(f"{count} parts, and not a power of two of them")
    elif part.index >= count or part.index < 0:
        mistakes.append(f"part {part.index} of parts 0 .. {count - 1}")
    elif size % count:
        mistakes.append(f"{count} equal parts of {size} elements")
    else:
        return *shape[:axis], size // count, *shape[axis + 1 :]
    return None


def _broadcast(shapes: list[Shape | None], mistakes: list[str]) -> Shape | None:
    result: Shape = ()
    for shape in shapes:
        if shape is None:
            return None
        met = broadcast(result, shape)
        if met is None:
            mistakes.append(f"shapes {list(result)} and {list(shape)} do not broadcast")
            return None
        result = met
    return result


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape that both broadcast to; None if there is none."""
    if not a or not b:
        return a or b
    if len(a) != len(b) or any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


# --- dtypes


def ewise_dtype(expr: Ewise_, tiles: Tiles) -> DType | None:
    """The dtype of `expr`; None of bare numbers, which take the dtype of what they meet."""
    match expr:
        case TileRef(name):
            return tiles[name].dtype if name in tiles else None
        case Cast(dtype):
            return dtype
        case Expand(arg) | AxisReduce(_, arg) | Mask(arg) | Part(arg):
            return ewise_dtype(arg, tiles)
        case Apply(_, args):
            return next((d for a in args if (d := ewise_dtype(a, tiles)) is not None), None)
    return None


def typed_nodes(expr: Ewise_, expected: DType, tiles: Tiles) -> Iterator[tuple[Ewise_, DType]]:
    """Every node of `expr` with its dtype, outermost first; `expected` is that of the whole."""
    dtype = ewise_dtype(expr, tiles) or expected
    yield expr, dtype
    match expr:
        case Apply(_, args):
            for arg in args:
                yield from typed_nodes(arg, dtype, tiles)
        case Mask(arg, otherwise=number):
            yield from typed_nodes(arg, dtype, tiles)
            yield number, dtype
        case Cast(_, arg) | Expand(arg) | AxisReduce(_, arg) | Part(arg):
            yield from typed_nodes(arg, dtype, tiles)


def dtype_mistakes(expr: Ewise_, expected: DType, tiles: Tiles) -> Iterator[str]:
    """What is wrong with the dtypes inside `expr`: operands that differ, functions not defined."""
    for node, dtype in typed_nodes(expr, expected, tiles):
        match node:
            case Apply(fn, args):
                found = {d.value for a in args if (d := ewise_dtype(a, tiles)) is not None}
                if len(found) > 1:
                    yield f"operands of `{fn}` have dtypes {', '.join(sorted(found))}"
                if not is_defined(fn, dtype):
                    yield f"`{fn}` is not defined on {dtype.value}; cast first"
            case AxisReduce(op) if not is_defined(op.value, dtype):
                yield f"a reduction along an axis is not defined on {dtype.value}; cast first"


def is_defined(fn: str, dtype: DType) -> bool:
    """Whether an element-wise function can be applied to `dtype`; integers do not divide."""
    if fn in ("and", "or"):
        return dtype.kind is not Kind.FLOAT
    if fn in ("add", "sub", "mul", "neg", "max", "min", "abs"):
        return dtype.computes and dtype.kind is not Kind.BOOL
    return dtype.computes and dtype.is_float


def number_mistake(value: int | float, dtype: DType) -> str:
    """Why a number cannot be a value of `dtype`, or nothing. Floats round, and do not overflow."""
    if dtype.is_float:
        return _float_mistake(value, dtype)
    if isinstance(value, float):
        return f"{value} is no {dtype.value}"
    half = 2 ** (dtype.bits - 1)
    low, high = (0, 1) if dtype is DType.BOOL else (-half, half - 1)
    return "" if low <= value <= high else f"{value} is outside {dtype.value}, {low} .. {high}"


def _float_mistake(value: int | float, dtype: DType) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "f8e4m3 has no infinity" if dtype is DType.F8E4M3 and math.isinf(value) else ""
    largest = _LARGEST[dtype]
    return "" if abs(value) <= largest else f"{value} is beyond {dtype.value}, +-{largest:g}"
