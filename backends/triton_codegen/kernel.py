"""Emits one kernel: a walk over its IR with one method a node kind, each of which writes its own
lines."""

from dataclasses import dataclass

import sympy

from backends.triton_codegen.dtypes import triton_dtype
from backends.triton_codegen.flow import (
    after_assignment,
    carried_sums,
    has_dot,
    runs_at_least_once,
    without,
)
from backends.triton_codegen.layout import comma_lines
from backends.triton_codegen.masks import Masks
from backends.triton_codegen.memory import MemoryWriter
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo
from backends.triton_codegen.policy_text import POLICIES_DIGEST, POLICY
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.tiles import Tile, TileExpressions, Unsupported
from backends.triton_codegen.writer import INDENT
from loopir.bounds import Fact
from loopir.intervals import Interval
from loopir.nodes import (
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
    Let,
    Load,
    Program,
    Reduce,
    Set,
    Stmt,
    Store,
    While,
)
from loopir.rename import fresh_name
from loopir.symbols import Expr, count, names_of, sym, try_evaluate
from loopir.tile_order import decode
from loopir.walk import Path, defined_names, grid_band, is_parallel_loop, walk

_MIN_DOT = 16
_MOST_UNROLLED = 4


@dataclass(frozen=True)
class KernelText:
    """The lines of a kernel's function, what the launcher must know of it, and the helpers it
    calls."""

    lines: tuple[str, ...]
    info: KernelInfo
    helpers: frozenset[str]


def kernel_text(program: Program, index: int, name: str, settings: Settings) -> KernelText:
    """Kernel `index` of a verified program, as a function `name`. CodegenError: what Triton cannot
    do, shown in the IR."""
    return _KernelEmitter(program, index, name, settings).text()


class _KernelEmitter(MemoryWriter):
    """The walk, one method a node kind."""

    # --- the function as a whole

    def text(self) -> KernelText:
        blocks = self._root()
        args = self.args()
        head = comma_lines(f"def {self.name}(", list(map(_declaration, args)), "):")
        info = KernelInfo(self.name, self.kernel.name, args, blocks)
        marked = [a.name for a in args if a.evict_first]
        policies = [f"{INDENT}# {n}: copies with {POLICY} ({POLICIES_DIGEST})" for n in marked]
        body = self.lines or [f"{INDENT}pass"]
        lines = ("@triton.jit", *head, *policies, *self.widened(args), *body)
        return KernelText(lines, info, frozenset(self.helpers))

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
            case Let(name, sympy.Expr() as expr) | Set(name, expr):
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
        self._overlap()
        path: Path = ("body", 0)
        if is_parallel_loop(root):
            self.path = path
            self.refuse(
                "a parallel loop is no grid yet; run `offload` first, `tile` before it", "parallel"
            )
        if isinstance(root, Grid):
            return self._grid(root, path)
        assert isinstance(root, Grid1D)
        self.write(f"{self.scalar(root.iv)} = {_PROGRAM_ID}")
        self.statements(root.body, (*path, "body"))
        return root.extent

    def _overlap(self) -> None:
        """How kernels that overlap keep their order: each waits for the end of the one before."""
        if not self.settings.launch_pdl:
            return
        calls = ["after_previous"] if self.index > 0 else []
        calls += ["start_next"] if self.index + 1 < len(self.program.kernels) else []
        self.helpers.update(calls)
        for name in calls:
            self.write(f"{name}()")

    def _grid(self, grid: Grid, path: Path) -> Expr:
        band = tuple(grid_band(grid, path))
        path, inner = (*band[-1][0], "body"), band[-1][1]
        axes = tuple(axis for _, g in band for axis in g.axes)
        self._check_rectangular(axes)
        blocks = sympy.Mul(*(count(a.extent) for a in axes))
        if len(axes) == 1:
            self.write(f"{self.scalar(axes[0].iv)} = {_PROGRAM_ID}")
        else:
            self._decode(axes, inner, path)
        self.statements(inner.body, path)
        return blocks

    def _check_rectangular(self, axes: tuple[GridAxis, ...]) -> None:
        ivs = {a.iv for a in axes}
        for axis in axes:
            if inner := sorted(names_of(axis.extent) & ivs):
                self.refuse(
                    f"the extent of {axis.iv} depends on {', '.join(inner)}; launch the largest "
                    "extent and leave out the rest by a condition"
                )

    def _decode(self, axes: tuple[GridAxis, ...], inner: Grid, path: Path) -> None:
        """The axes of the grid, from the number of the block."""
        number = fresh_name("pid", defined_names(self.kernel))
        self.write(f"{self.scalar(number)} = {_PROGRAM_ID}")
        env = {**self.facts.get(path[:-2], {}), number: Fact(Interval(0))}
        for let in decode(axes, inner.order, sym(number), defined_names(self.kernel) | {number}):
            self.env = env
            assert isinstance(let.expr, sympy.Expr)
            self.assign(let.name, let.expr)
            env[let.name] = Fact(Interval(0))

    # --- scalars

    def assign(self, name: str, expr: Expr) -> None:
        text = self.scalars.text(expr)
        if self.scalars.is_constant(expr):
            text = f"tl.cast({text}, tl.int64)"
        elif isinstance(expr, sympy.Symbol):
            text = self._own(text)
        self.write(f"{self.scalar(name)} = {text}")
        self.definitions = after_assignment(self.definitions, name, expr)

    def _own(self, text: str) -> str:
        self.helpers.add("own")
        return f"own({text})"

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
        masks = Masks(self.scalars, self.env)
        try:
            text = TileExpressions(self.tiles, masks, self.helpers).assigned(ewise.expr, target)
        except Unsupported as error:
            self.refuse(str(error), ewise.tile)
        self.write(f"{target.name} = {text}")

    # --- control

    def for_loop(self, loop: For, path: Path) -> None:
        lo, hi, step = (self.scalars.text(e) for e in (loop.lo, loop.hi, loop.step))
        hi = self._assume_progress(loop, lo, hi)
        counter = self.names.fresh(f"{loop.iv}_")
        steps = "" if loop.step == 1 else f", {step}"
        rest = ", flatten=True" if loop.flattened else ""
        kind = "tl.range" if loop.flattened else "range"
        self.write(f"for {counter} in {kind}({lo}, {hi}{steps}{rest}):")
        widened = f"{self.scalar(loop.iv)} = tl.cast({counter}, tl.int64)"
        self._loop_body(loop.body, path, widened)
        self._settle(loop.body)

    def _settle(self, body: Body) -> None:
        """Triton's OptimizeThreadLocality wants one use of what it keeps apart in a loop."""
        tiles = [self.tiles[n] for n in carried_sums(body) if n in self.tiles]
        for tile in (t for t in tiles if t.dtype.is_float):
            self.helpers.add("settled")
            self.write(f"{tile.name} = settled({tile.name}, tl.int{tile.dtype.bits})")

    def _assume_progress(self, loop: For, lo: str, hi: str) -> str:
        """The end of the loop. ptxas serialises the wgmmas of a loop that may run zero times, and
        keeps more registers for it; one that runs a known few times it unrolls whole."""
        trips = try_evaluate(loop.hi - loop.lo, self.constants)
        if not has_dot(loop.body) or (trips is not None and trips <= _MOST_UNROLLED):
            return hi
        if trips is not None:
            self.helpers.add("opaque")
            hi, known = self.names.fresh(f"{loop.iv}_end"), hi
            self.write(f"{hi} = opaque({known})")
        if trips is not None or runs_at_least_once(loop, self.definitions, self.env):
            self.write(f"tl.assume({lo} < {hi})")
        return hi

    def while_loop(self, loop: While, path: Path) -> None:
        changed = {s.name for _, s in walk(loop.body) if isinstance(s, Set)}
        self.env = {n: fact for n, fact in self.env.items() if n not in changed}
        self.write(f"while {self.scalars.cond(loop.cond)}:")
        self._loop_body(loop.body, path, "")

    def _loop_body(self, body: Body, path: Path, first: str) -> None:
        outer, self.loop = self.loop, body
        self.definitions = without(self.definitions, body)
        if first:
            self.write(INDENT + first)
        self.body(body, (*path, "body"))
        self.definitions = without(self.definitions, body)
        self.loop = outer

    def branch(self, branch: If, path: Path) -> None:
        before = self.definitions
        self.write(f"if {self.scalars.cond(branch.cond)}:")
        self.body(branch.then, (*path, "then"))
        if branch.orelse:
            self.definitions = before
            self.write("else:")
            self.body(branch.orelse, (*path, "orelse"))
        self.definitions = without(before, (branch,))


_PROGRAM_ID = "tl.cast(tl.program_id(0), tl.int64)"


def _declaration(arg: KernelArg) -> str:
    return f"{arg.name}: tl.constexpr" if arg.kind is ArgKind.CONSTANT else arg.name
