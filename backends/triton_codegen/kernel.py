"""Emits one kernel: a walk over its IR with one method a node kind, each of which writes its own lines.

Triton has no user shared memory: `alloc` writes nothing (or a first value), loads and fills make the tile's value,
and the pipeliner stages what feeds a `dot`. A `barrier` that only orders that staging therefore writes nothing; one
that stands where the block also stores to a buffer it loads from becomes `tl.debug_barrier()`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import sympy

from backends.triton_codegen.access import AccessWriter, Buffer, Place, check_size
from backends.triton_codegen.dtypes import (
    ATOMIC_DTYPES,
    number_text,
    triton_dtype,
)
from backends.triton_codegen.flow import (
    after_assignment,
    exchanged_buffers,
    has_dot,
    needs_initial_value,
    runs_at_least_once,
    without,
    writes_any,
)
from backends.triton_codegen.helpers import HELPERS
from backends.triton_codegen.layout import comma_lines, tuple_text
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo
from backends.triton_codegen.names import Names
from backends.triton_codegen.scalars import Scalars, Side
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.tiles import Tile, TileExpressions
from loopir.bounds import Env, Fact, is_nonnegative
from loopir.errors import CodegenError
from loopir.intervals import Interval
from loopir.nodes import (
    Access,
    Alloc,
    Arrive,
    Atomic,
    Barrier,
    Body,
    Dot,
    ElementRead,
    Ewise,
    Fill,
    For,
    Grid,
    Grid1D,
    GridAxis,
    If,
    Kernel,
    Let,
    Load,
    Program,
    Reduce,
    Set,
    Stmt,
    Store,
    While,
)
from loopir.printer import excerpt, expr_text, stmt_text
from loopir.ranges import ranges
from loopir.scope import buffers, constants, launch_symbols
from loopir.symbols import Expr, sym
from loopir.tile_order import decode, fresh_name
from loopir.types import ForKind
from loopir.walk import Path, defined_names, walk

_INDENT = "    "
_MIN_DOT = 16


@dataclass(frozen=True)
class KernelText:
    """The lines of a kernel's function, what the launcher must know of it, and the helpers it calls."""

    lines: tuple[str, ...]
    info: KernelInfo
    helpers: frozenset[str]


def kernel_text(program: Program, index: int, name: str, settings: Settings) -> KernelText:
    """Kernel `index` of a verified program, as a function `name`. CodegenError: what Triton cannot do, shown in the IR."""
    return _KernelEmitter(program, index, name, settings).text()


class _KernelEmitter:
    """The walk. State that moves with it: `lines`, `depth`, `path`, `env` (what ranges knows here), `definitions`
    (what scalars were last set to) and `loop` (the body of the innermost loop)."""

    def __init__(self, program: Program, index: int, name: str, settings: Settings):
        self.program, self.index, self.name, self.settings = program, index, name, settings
        self.kernel: Kernel = program.kernels[index]
        self.names = Names(frozenset(HELPERS))
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
        self.buffers = {n: self._buffer(n, b) for n, b in buffers(program, self.kernel).items()}
        self.constants = constants(self.kernel)
        self.scalars = Scalars(
            self._size_names(), self.constants, Side.KERNEL, self._nonnegative, self.helpers
        )
        self.scalar_names: dict[str, str] = self.scalars.names  # pyright: ignore
        self.size_symbols = frozenset(self.scalar_names)

    # --- the function as a whole

    def text(self) -> KernelText:
        blocks = self._root()
        args = self._args()
        head = comma_lines(f"def {self.name}(", list(map(_declaration, args)), "):")
        lines = ("@triton.jit", *head, *self._widened(args), *(self.lines or [f"{_INDENT}pass"]))
        return KernelText(lines, KernelInfo(self.name, args, blocks), frozenset(self.helpers))

    def _size_names(self) -> dict[str, str]:
        known = (*launch_symbols(self.kernel), *(b.name for b in self.kernel.where))
        return {name: self.names.fresh(name) for name in known}

    def _buffer(self, name: str, source) -> Buffer:
        text = self.names.fresh(name)
        contiguous = getattr(source, "contiguous", len(source.shape) - 1)
        strides = (
            None if d == contiguous else self.names.fresh(f"{text}_stride{d}")
            for d in range(len(source.shape))
        )
        return Buffer(text, source, tuple(strides))

    def _args(self) -> tuple[KernelArg, ...]:
        used = self.scalars.used & self.size_symbols
        tensors = [
            KernelArg(b.name, ArgKind.TENSOR, n, dtype=b.source.dtype)
            for n, b in self.buffers.items()
        ]
        strides = [
            KernelArg(text, ArgKind.STRIDE, n, dim=d)
            for n, b in self.buffers.items()
            for d, text in enumerate(b.strides)
            if text in self.used_strides
        ]
        sizes = [n for n in self.scalar_names if n in used and n not in self.constants]
        fixed = [n for n in self.scalar_names if n in used and n in self.constants]
        return (
            *tensors,
            *strides,
            *(KernelArg(self.scalar_names[n], ArgKind.SIZE, n) for n in sizes),
            *(
                KernelArg(self.scalar_names[n], ArgKind.CONSTANT, n, value=self.constants[n])
                for n in fixed
            ),
        )

    def _widened(self, args: tuple[KernelArg, ...]) -> list[str]:
        """Triton passes small integers in 32 bits, and 1 as a constant: `tl.cast` takes both to 64 bits."""
        runtime = [a.name for a in args if a.kind in (ArgKind.STRIDE, ArgKind.SIZE)]
        return [f"{_INDENT}{name} = tl.cast({name}, tl.int64)" for name in runtime]

    # --- writing

    def write(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text)

    def write_call(self, head: str, args: list[str]) -> None:
        self.lines += comma_lines(head, [a for a in args if a], ")", _INDENT * self.depth)

    def write_ir(self, stmt: Stmt) -> None:
        self.write(f"# {stmt_text(stmt)}")

    def refuse(self, message: str, focus: str = "") -> NoReturn:
        place = excerpt(self.program, ("kernels", self.index, *self.path), focus)
        raise CodegenError(f"@{self.kernel.name}: {message}\n{place}")

    def _nonnegative(self, expr: Expr) -> bool:
        return is_nonnegative(expr, self.env)

    def body(self, body: Body, path: Path) -> None:
        """The statements of a nested body, one level deeper; `pass` where they write nothing."""
        before, tiles = len(self.lines), dict(self.tiles)
        self.depth += 1
        self.statements(body, path)
        if len(self.lines) == before:
            self.write("pass")
        self.depth -= 1
        self.tiles = tiles

    def statements(self, body: Body, path: Path) -> None:
        for i, stmt in enumerate(body):
            self.path = (*path, i)
            self.env = self.facts.get(self.path, {})
            if isinstance(stmt, Alloc):
                self.alloc(stmt, body[i + 1 :])
            else:
                self.statement(stmt, self.path)

    def statement(self, stmt: Stmt, path: Path) -> None:
        match stmt:
            case Let(name, ElementRead()):
                self.let_element(stmt)
            case Let(name, expr) | Set(name, expr):
                self.assign(name, expr)
            case Fill():
                self.fill(stmt)
            case Load():
                self.load(stmt)
            case Store():
                self.store(stmt)
            case Atomic():
                self.atomic(stmt)
            case Barrier():
                self.barrier()
            case Arrive():
                self.arrive(stmt)
            case Dot():
                self.dot(stmt)
            case Ewise():
                self.ewise(stmt)
            case For():
                self.for_loop(stmt, path)
            case While():
                self.while_loop(stmt, path)
            case If():
                self.branch(stmt, path)
            case Reduce(_, body):
                self.statements(body, (*path, "body"))

    # --- the root: which block this is

    def _root(self) -> Expr:
        """Writes the whole body; returns the number of blocks."""
        (root,) = self.kernel.body
        path: Path = ("body", 0)
        if isinstance(root, Grid):
            return self._grid(root, path)
        assert isinstance(root, Grid1D)
        self.write(f"{self._scalar(root.iv)} = {_PROGRAM_ID}")
        self.statements(root.body, (*path, "body"))
        return root.extent

    def _grid(self, grid: Grid, path: Path) -> Expr:
        axes, inner, path = _flattened(grid, path)
        blocks = sympy.Mul(*(a.extent for a in axes))
        if len(axes) == 1:
            self.write(f"{self._scalar(axes[0].iv)} = {_PROGRAM_ID}")
        else:
            self._decode(axes, inner, path)
        self.statements(inner.body, path)
        return blocks

    def _decode(self, axes: tuple[GridAxis, ...], inner: Grid, path: Path) -> None:
        """The axes of the grid, from the number of the block."""
        number = fresh_name("pid", defined_names(self.kernel))
        self.write(f"{self._scalar(number)} = {_PROGRAM_ID}")
        env = {**self.facts.get(path[:-2], {}), number: Fact(Interval(0))}
        for let in decode(axes, inner.order, sym(number), defined_names(self.kernel) | {number}):
            self.env = env
            self.assign(let.name, let.expr)
            env[let.name] = Fact(Interval(0))

    # --- scalars

    def _scalar(self, name: str) -> str:
        """The Python name of a scalar, given on its first assignment."""
        if name not in self.scalar_names:
            self.scalar_names[name] = self.names.fresh(name)
        return self.scalar_names[name]

    def assign(self, name: str, expr: Expr) -> None:
        text = self.scalars.text(expr)
        if self.scalars.is_constant(expr):
            text = f"tl.cast({text}, tl.int64)"
        elif isinstance(expr, sympy.Symbol):
            text = self._own(text)
        self.write(f"{self._scalar(name)} = {text}")
        self.definitions = after_assignment(self.definitions, name, expr)

    def _own(self, text: str) -> str:
        self.helpers.add("own")
        return f"own({text})"

    def let_element(self, let: Let) -> None:
        assert isinstance(let.expr, ElementRead)
        self.write_ir(let)
        pointer = self._element(let.expr)
        self.write(f"{self._scalar(let.name)} = tl.cast(tl.load({pointer}), tl.int64)")
        self.definitions = after_assignment(self.definitions, let.name, None)

    def _element(self, read: ElementRead) -> str:
        return self._place(Access(read.buffer, read.index, ())).pointer

    # --- memory

    def _place(self, access: Access) -> Place:
        writer = AccessWriter(
            access,
            self.buffers[access.buffer],
            self.scalars,
            self.names,
            self.env,
            self.used_strides,
            self.refuse,
        )
        return writer.place()

    def _placed(self, stmt: Stmt, access: Access) -> Place:
        self.write_ir(stmt)
        place = self._place(access)
        for line in place.lines:
            self.write(line)
        return place

    def alloc(self, alloc: Alloc, rest: Body) -> None:
        sizes = tuple(check_size(e, self.scalars, self.refuse) for e in alloc.shape)
        text = tuple_text([self.scalars.text(e) for e in alloc.shape]) if sizes else "()"
        tile = Tile(self.names.fresh(alloc.name), alloc.dtype, sizes, text)
        self.tiles[alloc.name] = tile
        if needs_initial_value(alloc.name, rest):
            self.write(
                f"{tile.name} = {self._full(tile, 0)}  # a first value: it is set in a nested body"
            )

    def _full(self, tile: Tile, value: int | float) -> str:
        number = number_text(value, tile.dtype)
        if tile.dtype.computes or value == 0:
            return f"tl.full({tile.shape_text}, {number}, {triton_dtype(tile.dtype)})"
        return (
            f"tl.cast(tl.full({tile.shape_text}, {number}, tl.float32), {triton_dtype(tile.dtype)})"
        )

    def fill(self, fill: Fill) -> None:
        tile = self.tiles[fill.tile]
        self.write(f"{tile.name} = {self._full(tile, fill.value.value)}")

    def load(self, load: Load) -> None:
        tile = self.tiles[load.tile]
        place = self._placed(load, load.source)
        other = number_text(load.otherwise.value, tile.dtype)
        masked = [f"mask={place.mask}", f"other={other}"] if place.mask else []
        self.write_call(f"{tile.name} = tl.load(", [place.pointer, *masked])

    def store(self, store: Store) -> None:
        tile = self.tiles[store.tile]
        place = self._placed(store, store.target)
        mask = f"mask={place.mask}" if place.mask else ""
        self.write_call("tl.store(", [place.pointer, tile.name, mask])

    def atomic(self, atomic: Atomic) -> None:
        tile = self.tiles[atomic.tile]
        able = ATOMIC_DTYPES.get(atomic.op, ())
        if tile.dtype not in able:
            names = ", ".join(d.value for d in able) or "no type"
            self.refuse(
                f"Triton has an atomic {atomic.op.value} of {names}, not of {tile.dtype.value}",
                tile.name,
            )
        place = self._placed(atomic, atomic.target)
        mask = f"mask={place.mask}" if place.mask else ""
        order = ['sem="relaxed"', 'scope="gpu"']
        self.write_call(f"tl.atomic_{atomic.op.value}(", [place.pointer, tile.name, mask, *order])

    def barrier(self) -> None:
        if writes_any(self.loop, self.exchanged):
            self.write("tl.debug_barrier()")

    def arrive(self, arrive: Arrive) -> None:
        self.write_ir(arrive)
        counter, flag = self._element(arrive.counter), self._scalar(arrive.flag)
        last = self.scalars.text(arrive.expected - 1)
        self.write("tl.debug_barrier()  # all stores of the block, then the release")
        self.write(f'{flag} = tl.atomic_add({counter}, 1, sem="acq_rel", scope="gpu") == {last}')
        self.write(f"if {flag}:")
        self.write(f"{_INDENT}tl.store({counter}, 0)")
        self.write("tl.debug_barrier()  # the acquire, then all loads of the block")

    # --- tile compute

    def dot(self, dot: Dot) -> None:
        acc, a, b = (self.tiles[n] for n in (dot.acc, dot.a, dot.b))
        self._check_dot(acc, a, b)
        args = [
            a.name,
            b.name,
            acc.name,
            f'input_precision="{dot.precision.value}"',
            f"max_num_imprecise_acc={self._imprecise(a)}",
            f"out_dtype={triton_dtype(acc.dtype)}",
        ]
        self.write_call(f"{acc.name} = tl.dot(", args)

    def _imprecise(self, a: Tile) -> int:
        return min(self.settings.max_num_imprecise_acc, a.shape[1])

    def _check_dot(self, acc: Tile, a: Tile, b: Tile) -> None:
        least_k = 2 * _MIN_DOT if a.dtype.bits == 8 else _MIN_DOT
        if min(acc.shape) >= _MIN_DOT and a.shape[1] >= least_k:
            return
        self.refuse(
            f"dot of {list(a.shape)} and {list(b.shape)}: each side of the result is at least "
            f"{_MIN_DOT}, the panel at least {least_k} for {a.dtype.value}; take a larger tile and "
            "mask it, or multiply and sum with ewise"
        )

    def ewise(self, ewise: Ewise) -> None:
        self.write_ir(ewise)
        target = self.tiles[ewise.tile]
        text = TileExpressions(self.tiles, self.helpers).assigned(ewise.expr, target)
        self.write(f"{target.name} = {text}")

    # --- control

    def for_loop(self, loop: For, path: Path) -> None:
        if loop.kind is ForKind.WAVE:
            self.refuse("wave loops are not emitted yet; write the whole-tile operation")
        lo, hi, step = (self.scalars.text(e) for e in (loop.lo, loop.hi, loop.step))
        self._assume_progress(loop, lo, hi)
        counter = self.names.fresh(f"{loop.iv}_")
        steps = "" if loop.step == 1 else f", {step}"
        self.write(f"for {counter} in range({lo}, {hi}{steps}):")
        widened = f"{self._scalar(loop.iv)} = tl.cast({counter}, tl.int64)"
        self._loop_body(loop.body, path, widened)

    def _assume_progress(self, loop: For, lo: str, hi: str) -> None:
        """ptxas serialises the wgmmas of a loop that may run zero times, and keeps more registers for it."""
        is_constant = self.scalars.is_constant(loop.lo) and self.scalars.is_constant(loop.hi)
        if is_constant or not has_dot(loop.body):
            return
        if runs_at_least_once(loop, self.definitions, self.env):
            self.write(f"tl.assume({lo} < {hi})")

    def while_loop(self, loop: While, path: Path) -> None:
        changed = {s.name for _, s in walk(loop.body) if isinstance(s, Set)}
        self.env = {n: fact for n, fact in self.env.items() if n not in changed}
        self.write(f"while {self.scalars.cond(loop.cond)}:")
        self._loop_body(loop.body, path, "")

    def _loop_body(self, body: Body, path: Path, first: str) -> None:
        outer, self.loop = self.loop, body
        self.definitions = without(self.definitions, body)
        if first:
            self.write(_INDENT + first)
        self.body(body, (*path, "body"))
        self.definitions = without(self.definitions, body)
        self.loop = outer

    def branch(self, branch: If, path: Path) -> None:
        known = without(self.definitions, (branch,))
        self.write(f"if {self.scalars.cond(branch.cond)}:")
        self.body(branch.then, (*path, "then"))
        if branch.orelse:
            self.write("else:")
            self.body(branch.orelse, (*path, "orelse"))
        self.definitions = known


_PROGRAM_ID = "tl.cast(tl.program_id(0), tl.int64)"


def _declaration(arg: KernelArg) -> str:
    return f"{arg.name}: tl.constexpr" if arg.kind is ArgKind.CONSTANT else arg.name


def _flattened(grid: Grid, path: Path) -> tuple[tuple[GridAxis, ...], Grid, Path]:
    """The axes of perfectly nested grids, the innermost of them, and the path of its body."""
    axes, path = grid.axes, (*path, "body")
    while len(grid.body) == 1 and isinstance(grid.body[0], Grid):
        grid, path = grid.body[0], (*path, 0, "body")
        axes = (*axes, *grid.axes)
    return axes, grid, path
