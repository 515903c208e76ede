"""What the walk over a kernel writes into: the lines so far, the names given out, and what is known
here."""

from dataclasses import replace
from typing import NoReturn

import sympy

from backends.triton_codegen.access import Buffer
from backends.triton_codegen.flow import exchanged_buffers, pointed_buffers, used_buffers
from backends.triton_codegen.helpers import HELPERS
from backends.triton_codegen.layout import comma_lines
from backends.triton_codegen.module import ArgKind, KernelArg
from backends.triton_codegen.names import LAUNCH_OPTIONS, Names
from backends.triton_codegen.scalars import Scalars, Side
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.tiles import Tile
from loopir.bounds import Env, is_nonnegative
from loopir.boxes import Box
from loopir.errors import CodegenError
from loopir.nodes import Body, Kernel, Param, Program, Stmt, Workspace
from loopir.printer import excerpt, stmt_text
from loopir.ranges import ranges
from loopir.scope import constants, launch_symbols
from loopir.symbols import Expr
from loopir.walk import Path, symbol_names

INDENT = "    "


class KernelWriter:
    """State that moves with the walk: `lines`, `depth`, `path`, `env` (what ranges knows here),
    `definitions` (what scalars were last set to) and `loop` (the body of the innermost loop)."""

    def __init__(self, program: Program, index: int, name: str, settings: Settings):
        self.program, self.index, self.name, self.settings = program, index, name, settings
        self.kernel: Kernel = program.kernels[index]
        self.names = Names(frozenset(HELPERS) | LAUNCH_OPTIONS)
        self.helpers: set[str] = set()
        self.lines: list[str] = []
        self.depth = 1
        self.path: Path = ()
        self.env: Env = {}
        self.definitions: dict[str, Expr] = {}
        self.loop: Body = self.kernel.body
        self.facts = ranges(self.kernel)
        self.exchanged = exchanged_buffers(self.kernel)
        self.tiles: dict[str, Tile] = {}
        self.used_strides: set[str] = set()
        self.descriptors: dict[tuple[str, tuple[int, ...], tuple[int, ...]], KernelArg] = {}
        self.evict_first: dict[str, bool] = {}  # by descriptor: all its loads are
        self.buffers = {b.name: self._buffer(b) for b in used_buffers(program, self.kernel)}
        self.constants = {**self._workspace_constants(), **constants(self.kernel)}
        self.scalar_names = self._size_names()
        self.size_symbols = frozenset(self.scalar_names)
        self.scalars = Scalars(
            self.scalar_names, self.constants, Side.KERNEL, self._is_nonnegative, self.helpers
        )

    # --- names and arguments

    def _size_names(self) -> dict[str, str]:
        known = (*launch_symbols(self.kernel), *(b.name for b in self.kernel.where))
        sizes = sorted({n for w in self.program.workspaces for n in symbol_names(w)})
        return {name: self.names.fresh(name) for name in dict.fromkeys((*known, *sizes))}

    def _workspace_constants(self) -> dict[str, int]:
        """Names of workspace sizes, which the first kernel binds for all."""
        bound = constants(self.program.kernels[0])
        sizes = {n for w in self.program.workspaces for n in symbol_names(w)}
        return {name: value for name, value in bound.items() if name in sizes}

    def _buffer(self, source: Param | Workspace) -> Buffer:
        text, rank = self.names.fresh(source.name), len(source.shape)
        if isinstance(source, Workspace):
            rows = (sympy.Mul(*source.shape[d + 1 :]) for d in range(rank - 1))
            return Buffer(text, source, (*rows, None))
        strides = (
            None if d == source.contiguous else self.names.fresh(f"{text}_stride{d}")
            for d in range(rank)
        )
        return Buffer(text, source, tuple(strides))

    def args(self) -> tuple[KernelArg, ...]:
        used, described = self.scalars.used & self.size_symbols, self.descriptors.values()
        pointed = pointed_buffers(self.kernel) if self.descriptors else self.buffers.keys()
        tensors = [
            KernelArg(b.name, ArgKind.TENSOR, n, dtype=b.source.dtype)
            for n, b in self.buffers.items()
            if n in pointed
        ]
        strides = [
            KernelArg(text, ArgKind.STRIDE, n, b.source.dtype, d)
            for n, b in self.buffers.items()
            for d, text in enumerate(b.strides)
            if isinstance(text, str) and text in self.used_strides
        ]
        sizes = [n for n in self.scalar_names if n in used and n not in self.constants]
        fixed = [n for n in self.scalar_names if n in used and n in self.constants]
        return (
            *tensors,
            *(replace(a, evict_first=self.evict_first.get(a.name, False)) for a in described),
            *strides,
            *(KernelArg(self.scalar_names[n], ArgKind.SIZE, n) for n in sizes),
            *(
                KernelArg(self.scalar_names[n], ArgKind.CONSTANT, n, value=self.constants[n])
                for n in fixed
            ),
        )

    def descriptor(self, buffer: str, box: Box) -> str:
        """The argument that is the descriptor of such boxes, made on their first use."""
        key = (buffer, box.order, box.shape)
        if key not in self.descriptors:
            source = self.buffers[buffer]
            name = self.names.fresh(f"{source.name}_desc")
            arg = KernelArg(name, ArgKind.DESCRIPTOR, buffer, source.source.dtype)
            self.descriptors[key] = replace(arg, order=box.order, box=box.shape)
        return self.descriptors[key].name

    def widened(self, args: tuple[KernelArg, ...]) -> list[str]:
        """Triton passes small integers in 32 bits, and 1 as a constant: `tl.cast` takes both to 64
        bits. Strides come in bytes: Triton notes of an argument whether 16 divides it, and rows
        that are 16 bytes apart can be loaded 16 bytes at a time."""
        runtime = (a for a in args if a.kind in (ArgKind.STRIDE, ArgKind.SIZE))
        return [f"{INDENT}{a.name} = tl.cast({a.name}, tl.int64){_in_elements(a)}" for a in runtime]

    def scalar(self, name: str) -> str:
        """The Python name of a scalar, given on its first assignment."""
        if name not in self.scalar_names:
            self.scalar_names[name] = self.names.fresh(name)
        return self.scalar_names[name]

    # --- writing

    def write(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def write_call(self, head: str, args: list[str]) -> None:
        self.write_items(head, [a for a in args if a], ")")

    def write_items(self, head: str, items: list[str], tail: str) -> None:
        self.lines += comma_lines(head, items, tail, INDENT * self.depth)

    def write_ir(self, stmt: Stmt) -> None:
        self.write(f"# {stmt_text(stmt)}")

    def refuse(self, message: str, focus: str = "") -> NoReturn:
        place = excerpt(self.program, ("kernels", self.index, *self.path), focus)
        raise CodegenError(f"@{self.kernel.name}: {message}\n{place}")

    def _is_nonnegative(self, expr: Expr) -> bool:
        return is_nonnegative(expr, self.env)


def _in_elements(arg: KernelArg) -> str:
    size = arg.dtype.bytes if arg.kind is ArgKind.STRIDE and arg.dtype else 1
    return f" // {size}" if size > 1 else ""
