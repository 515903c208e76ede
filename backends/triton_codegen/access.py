"""An access as Triton text: one index vector a tile axis, their pointers, and the mask.

Each vector is placed on its axis of the tile at once (`[:, None]`), so that any index expression
over the axes, plain slices and convolution-like ones alike, is the same text with broadcasting.
Compares that `loopir.ranges` shows to hold are left out of the mask.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import sympy

from backends.triton_codegen.names import Names
from backends.triton_codegen.scalars import Scalars
from backends.triton_codegen.widths import fits_32_bits
from loopir.bounds import Env, is_nonnegative
from loopir.expr_text import expr_text
from loopir.nodes import Access, Param, TileAxis, Workspace
from loopir.ranges import (
    access_facts,
    axis_is_in_bounds,
    index_is_below,
    index_is_nonnegative,
)
from loopir.symbols import Expr, evaluate, names_of


@dataclass(frozen=True)
class Buffer:
    """A tensor of the kernel: its Python name, and the stride of each dimension: an argument's
    name, or an expression where the tensor is dense (None: stride one)."""

    name: str
    source: Param | Workspace
    strides: tuple[str | Expr | None, ...]


@dataclass(frozen=True)
class Place:
    """A rendered access: lines that make the index vectors, then the pointer and mask
    expressions."""

    lines: tuple[str, ...]
    pointer: str
    mask: str


@dataclass(frozen=True)
class AccessWriter:
    """Renders one access. `env`: what ranges knows where it stands; `used` collects stride
    arguments."""

    access: Access
    buffer: Buffer
    scalars: Scalars
    names: Names
    env: Env
    used: set[str]
    refuse: Callable[[str, str], NoReturn]

    def place(self) -> Place:
        """The access as text. CodegenError: a tile size that is no power of two."""
        vectors = {
            a.name: self.names.fresh(self._vector_name(a, i))
            for i, a in enumerate(self.access.axes)
        }
        lines = [self._vector(a, i, vectors[a.name]) for i, a in enumerate(self.access.axes)]
        inner = replace(self, scalars=self._over_axes(vectors))
        index_lines, texts = inner._indices()
        return Place((*lines, *index_lines), inner._pointer(texts), inner._mask(texts))

    def _over_axes(self, vectors: dict[str, str]) -> Scalars:
        """Renders what also names the axes; `//` of one that is never negative stays plain."""
        facts = access_facts(self.access, self.env)
        return replace(
            self.scalars,
            names={**self.scalars.names, **vectors},
            nonnegative=lambda expr: is_nonnegative(expr, facts),
        )

    def _vector_name(self, axis: TileAxis, position: int) -> str:
        return f"{self.buffer.name}_{position}" if axis.name.startswith("_") else axis.name

    def _vector(self, axis: TileAxis, position: int, name: str) -> str:
        rank, size = len(self.access.axes), self.size_text(axis)
        counted = numbers(axis.start, size, self.scalars, position, rank, self._is_narrow)
        return f"{name} = {counted}"

    @cached_property
    def _is_narrow(self) -> bool:
        """Whether the elements are numbered in 32 bits: where they are computed with, and may be. A
        stride that is a size would be multiplied in 32 bits, too."""
        is_composite = not all(map(self._is_plain, self.access.index))
        has_sizes = any(isinstance(stride, Expr) for stride in self.buffer.strides)
        return is_composite and not has_sizes and fits_32_bits(self.access, self.env)

    def size_text(self, axis: TileAxis) -> str:
        check_size(axis.size, self.scalars, self.refuse)
        return self.scalars.text(axis.size)

    def _indices(self) -> tuple[list[str], list[str]]:
        """Lines for the composite index expressions, and one operand text a dimension."""
        lines, texts = [], []
        for dim, index in enumerate(self.access.index):
            if self._is_plain(index):
                texts.append(self.scalars.operand(index))
                continue
            name = self.names.fresh(f"{self.buffer.name}_i{dim}")
            lines.append(f"{name} = {self.scalars.text(index)}")
            texts.append(name)
        return lines, texts

    def _is_plain(self, index: Expr) -> bool:
        return isinstance(index, sympy.Symbol) or not self._axes_of(index)

    def _axes_of(self, index: Expr) -> frozenset[str]:
        return names_of(index) & {a.name for a in self.access.axes}

    def _pointer(self, texts: list[str]) -> str:
        terms = [self.buffer.name]
        for index, text, stride in zip(self.access.index, texts, self.buffer.strides, strict=True):
            if index == 0:
                continue
            step = self._stride(stride)
            terms.append(_times(text, step, index))
        return " + ".join(terms)

    def _stride(self, stride: str | Expr | None) -> str:
        if isinstance(stride, Expr):
            return self.scalars.operand(stride)
        if stride is not None:
            self.used.add(stride)
        return stride or ""

    def _mask(self, texts: list[str]) -> str:
        """What must hold of an element. An access without a mask gets what cannot be shown, too: in
        a right program it holds, and no kernel leaves its buffers."""
        limited = self.access.axes if self.access.masked else ()
        terms = [t for axis in limited for t in self._axis_compare(axis)]
        for dim, text in enumerate(texts):
            terms += self._index_compares(dim, text)
        return " & ".join(dict.fromkeys(terms))

    def _axis_compare(self, axis: TileAxis) -> list[str]:
        if axis.limit is None or axis_is_in_bounds(axis, self.env):
            return []
        return [f"({self.scalars.names[axis.name]} < {self.scalars.text(axis.limit)})"]

    def _index_compares(self, dim: int, text: str) -> list[str]:
        extent = self.buffer.source.shape[dim]
        low = [] if index_is_nonnegative(self.access, dim, self.env) else [f"({text} >= 0)"]
        if index_is_below(self.access, dim, self.env, extent):
            return low
        return [*low, f"({text} < {self.scalars.text(extent)})"]


def _times(text: str, stride: str, index: Expr) -> str:
    if not stride:
        return text
    return stride if index == 1 else f"{text} * {stride}"


def check_size(size: Expr, scalars: Scalars, refuse: Callable[[str, str], NoReturn]) -> int:
    """The value of a tile size; refuses one that is unknown before launch or no power of two."""
    text = expr_text(size)
    if not scalars.is_constant(size):
        refuse(f"tile size {text} is known at launch only; bind it in the where clause", text)
    value = evaluate(size, scalars.constants)
    if value < 1 or value & (value - 1):
        refuse(
            f"tile size {text} = {value} is no power of two, which Triton's tiles need; "
            f"take a power of two and mask{_or_pieces(value)}",
            text,
        )
    return value


def _or_pieces(value: int) -> str:
    """How a builder makes rows or columns of that size; nothing where a piece is below 16."""
    powers = tuple(1 << i for i in reversed(range(value.bit_length())) if value >> i & 1)
    if value < 1 or min(powers) < 16:
        return ""
    return f", or build the rows or columns of pieces: tile=({powers}, ...) in loopir.build"


def numbers(
    start: Expr, size: str, scalars: Scalars, position: int, rank: int, narrow: bool = False
) -> str:
    """`start + 0, 1, ... size - 1`, along axis `position` of a tile of `rank` axes, in 64 bits; in
    32 if `narrow`."""
    counted, first = f"tl.arange(0, {size})", scalars.summand(start)
    if narrow and not scalars.is_constant(start):
        first = f"tl.cast({scalars.text(start)}, tl.int32)"
    elif not narrow and scalars.is_constant(start):  # 32 bits so far
        counted = f"tl.cast({counted}, tl.int64)"
    total = counted if start == 0 else f"{first} + {counted}"
    return _placed(total, position, rank)


def _placed(text: str, position: int, rank: int) -> str:
    if rank == 1:
        return text
    slots = ", ".join(":" if i == position else "None" for i in range(rank))
    return f"{f'({text})' if ' + ' in text else text}[{slots}]"
