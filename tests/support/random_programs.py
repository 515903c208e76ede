"""Seeded random programs over the whole node set: what the grammar can say, not what makes sense.

`random_program(seed)` is the same program in every process. Names are unique within a program,
tiles and scalars are made before they are used; shapes, dtypes and rules are left to chance.
"""

from random import Random

import sympy

from loopir import nodes as ir
from loopir.symbols import (
    CeilDiv,
    Expr,
    FloorDiv,
    Mod,
    ceildiv,
    floordiv,
    imax,
    imin,
    mod,
    substitute,
    sym,
)
from loopir.types import (
    Direction,
    DType,
    ElementOrder,
    ForKind,
    OrderKind,
    Precision,
    ReduceOp,
    Space,
    Via,
)

#: `N`, `S`, `E`, `I`, `Q`, `O` and `pi` mean something to sympy, the rest are words of the grammar.
SIZES = ("M", "N", "K", "S", "E", "I", "Q", "O", "pi", "P", "BM", "BN", "step", "order", "in")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LITERALS = (
    0, 1, -1, 7, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, -1.5, 1e22, 1e-7, 3.0, 0.1,
    float("inf"), -float("inf"),
)  # fmt: skip
_AXIS_OPS = (ReduceOp.ADD, ReduceOp.MUL, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AND, ReduceOp.OR)
_ALLOCATED = (Space.LOCAL, Space.SHARED, Space.REGISTER, Space.FRAGMENT)


def random_expr(rng: Random, names: tuple[str, ...] = SIZES, depth: int = 3) -> Expr:
    """An index expression over `names`, built by the operators that a pass would use."""
    if depth == 0 or rng.random() < 0.25:
        return sym(rng.choice(names)) if rng.random() < 0.7 else sympy.Integer(rng.randint(-4, 9))
    a, b, c = (random_expr(rng, names, depth - 1) for _ in range(3))
    divisor = b if b != 0 else sym(names[0])
    build = rng.choice(
        (
            lambda: a + b,
            lambda: a + b + c,
            lambda: a - b,
            lambda: a - b * c,
            lambda: a * b,
            lambda: a * b * c,
            lambda: a * a,
            lambda: -a,
            lambda: rng.randint(2, 5) * a,
            lambda: floordiv(a, divisor),
            lambda: mod(a, divisor),
            lambda: ceildiv(a, divisor),
            lambda: floordiv(a * c, divisor),
            lambda: imin(a, b),
            lambda: imax(a, b, c),
            lambda: _substituted(a, {names[0]: b, names[-1]: c}),
        )
    )
    return build()


def _substituted(expr: Expr, values: dict[str, Expr]) -> Expr:
    """As passes do it, unless a divisor becomes zero, which no program may say."""
    replaced = substitute(expr, values)
    divisions = replaced.atoms(FloorDiv, Mod, CeilDiv)
    return expr if any(d.args[1] == 0 for d in divisions) else replaced


def random_cond(rng: Random, names: tuple[str, ...], flags: tuple[str, ...], depth: int) -> ir.Cond:
    if depth == 0 or rng.random() < 0.4:
        if flags and rng.random() < 0.4:
            return ir.Flag(rng.choice(flags))
        sides = (random_expr(rng, names, 2) for _ in range(2))
        return ir.Cmp(rng.choice(_COMPARISONS), *sides)
    if rng.random() < 0.3:
        return ir.Negate(random_cond(rng, names, flags, depth - 1))
    count = rng.randint(2, 3)
    terms = tuple(random_cond(rng, names, flags, depth - 1) for _ in range(count))
    return rng.choice((ir.AllOf, ir.AnyOf))(terms)


def random_ewise(
    rng: Random, tiles: tuple[str, ...], names: tuple[str, ...] = SIZES, depth: int = 3
) -> ir.Ewise_:
    """An element-wise expression over `tiles`; masks read scalars of `names`."""
    if depth == 0 or rng.random() < 0.2:
        is_tile = tiles and rng.random() < 0.6
        return ir.TileRef(rng.choice(tiles)) if is_tile else ir.Literal(rng.choice(_LITERALS))
    inner = random_ewise(rng, tiles, names, depth - 1)
    kind = rng.random()
    if kind < 0.1:
        return ir.Cast(rng.choice(list(DType)), inner)
    if kind < 0.2:
        return ir.Expand(inner, rng.randint(0, 2))
    if kind < 0.3:
        return ir.AxisReduce(rng.choice(_AXIS_OPS), inner, rng.randint(0, 2))
    if kind < 0.37:
        start, limit = (random_expr(rng, names, 2) for _ in range(2))
        return ir.Mask(inner, rng.randint(0, 2), start, limit, ir.Literal(rng.choice(_LITERALS)))
    if kind < 0.4:
        return ir.Part(inner, rng.randint(0, 2), rng.randint(0, 3), rng.choice((1, 2, 4, 2**62)))
    infix = ("add", "sub", "mul", "div", "neg")
    fn = rng.choice(infix if kind < 0.75 else tuple(ir.EWISE_FUNCTIONS))
    others = (random_ewise(rng, tiles, names, depth - 1) for _ in range(ir.EWISE_FUNCTIONS[fn] - 1))
    return ir.Apply(fn, (inner, *others))


def random_program(seed: int) -> ir.Program:
    return _Maker(Random(seed)).program()


class _Maker:
    """The names made so far and the chance that decides what is made next."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.count = 0
        self.buffers: list[str] = []
        self.scalars: list[str] = []
        self.tiles: list[str] = []
        self.flags: list[str] = []

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def expr(self, depth: int = 2) -> Expr:
        return random_expr(self.rng, (*SIZES, *self.scalars), depth)

    def exprs(self, low: int, high: int) -> tuple[Expr, ...]:
        return tuple(self.expr(1) for _ in range(self.rng.randint(low, high)))

    def cond(self) -> ir.Cond:
        return random_cond(self.rng, (*SIZES, *self.scalars), tuple(self.flags), 3)

    def dtype(self) -> DType:
        return self.rng.choice(list(DType))

    def tile(self) -> str:
        return self.rng.choice(self.tiles)

    def buffer(self) -> str:
        return self.rng.choice(self.buffers)

    def literal(self) -> ir.Literal:
        return ir.Literal(self.rng.choice(_LITERALS))

    # --- programs ---------------------------------------------------------------------------------

    def program(self) -> ir.Program:
        workspaces = tuple(self.workspace() for _ in range(self.rng.randint(0, 2)))
        shared = tuple(self.buffers)
        kernels = tuple(self.kernel(shared) for _ in range(self.rng.choice((1, 1, 1, 2))))
        return ir.Program(kernels, workspaces)

    def workspace(self) -> ir.Workspace:
        self.buffers.append(self.fresh("W"))
        order = self.rng.choice(list(ElementOrder))
        return ir.Workspace(self.buffers[-1], self.dtype(), self.exprs(0, 3), order)

    def kernel(self, shared: tuple[str, ...]) -> ir.Kernel:
        self.buffers, self.scalars, self.flags = list(shared), [], []
        params = tuple(self.param() for _ in range(self.rng.randint(1, 4)))
        where = tuple(self.binding() for _ in range(self.rng.randint(0, 4)))
        aliases = tuple(
            ir.Alias(self.buffer(), self.buffer()) for _ in range(self.rng.randint(0, 2))
        )
        requires = tuple(self.requirement() for _ in range(self.rng.randint(0, 3)))
        self.tiles = []
        allocs = tuple(self.alloc() for _ in range(self.rng.randint(1, 4)))
        name = self.fresh("kernel")
        return ir.Kernel(name, params, allocs + self.body(3), where, aliases, requires)

    def param(self) -> ir.Param:
        shape = self.exprs(0, 4)
        self.buffers.append(self.fresh("A"))
        contiguous = self.rng.choice((None, -1, *range(len(shape))))
        direction = self.rng.choice(list(Direction))
        return ir.Param(self.buffers[-1], self.dtype(), shape, direction, contiguous)

    def binding(self) -> ir.Binding:
        expr = self.expr()
        self.scalars.append(self.fresh("Z"))
        return ir.Binding(self.scalars[-1], expr)

    def requirement(self) -> ir.Requirement:
        if self.rng.random() < 0.5:
            return ir.Zeroed(self.buffer())
        return ir.AtMost(self.fresh("U"), self.expr())

    # --- statements -------------------------------------------------------------------------------

    def body(self, depth: int) -> ir.Body:
        """Statements, whose scalars and flags end with them."""
        scalars, flags = list(self.scalars), list(self.flags)
        made = tuple(self.stmt(depth) for _ in range(self.rng.randint(0, 4)))
        self.scalars, self.flags = scalars, flags
        return made

    def stmt(self, depth: int) -> ir.Stmt:
        simple = (self.let, self.set, self.alloc, self.fill, self.load, self.store, self.atomic)
        simple = (*simple, ir.Barrier, self.arrive, self.dot, self.ewise)
        nested = (self.loop, self.while_, self.if_, self.reduce, self.grid, self.grid1d)
        if depth and self.rng.random() < 0.4:
            return self.rng.choice(nested)(depth - 1)
        return self.rng.choice(simple)()

    def let(self) -> ir.Let:
        expr = self.element() if self.rng.random() < 0.2 else self.expr(3)
        self.scalars.append(self.fresh("x"))
        return ir.Let(self.scalars[-1], expr)

    def set(self) -> ir.Set:
        return ir.Set(self.rng.choice((*SIZES, *self.scalars)), self.expr(3))

    def element(self) -> ir.ElementRead:
        return ir.ElementRead(self.buffer(), self.exprs(0, 2))

    def alloc(self) -> ir.Alloc:
        self.tiles.append(self.fresh("t"))
        space = self.rng.choice(_ALLOCATED)
        return ir.Alloc(self.tiles[-1], space, self.dtype(), self.exprs(0, 3))

    def fill(self) -> ir.Fill:
        return ir.Fill(self.tile(), self.literal())

    def load(self) -> ir.Load:
        is_default = self.rng.random() < 0.5
        otherwise = ir.Literal(0) if is_default else self.literal()
        return ir.Load(self.tile(), self.access(), self.rng.random() < 0.5, otherwise, self.via())

    def store(self) -> ir.Store:
        return ir.Store(self.access(), self.tile(), self.via())

    def via(self) -> Via:
        return self.rng.choice((*Via, Via.POINTER))

    def atomic(self) -> ir.Atomic:
        return ir.Atomic(self.rng.choice(list(ReduceOp)), self.access(), self.tile())

    def arrive(self) -> ir.Arrive:
        counter, expected = self.element(), self.expr()
        self.flags.append(self.fresh("last"))
        return ir.Arrive(self.flags[-1], counter, expected)

    def dot(self) -> ir.Dot:
        precision = self.rng.choice(list(Precision))
        return ir.Dot(self.tile(), self.tile(), self.tile(), precision)

    def ewise(self) -> ir.Ewise:
        names = (*SIZES, *self.scalars)
        return ir.Ewise(self.tile(), random_ewise(self.rng, tuple(self.tiles), names))

    def access(self) -> ir.Access:
        return self.general_access() if self.rng.random() < 0.4 else self.short_access()

    def short_access(self) -> ir.Access:
        index: list[Expr] = []
        axes: list[ir.TileAxis] = []
        for start in self.exprs(0, 3):
            if self.rng.random() < 0.3:
                index.append(start)
                continue
            axes.append(ir.TileAxis(f"_{len(axes)}", start, self.expr(1)))
            index.append(sym(axes[-1].name))
        return ir.Access(self.buffer(), tuple(index), tuple(axes), self.rng.random() < 0.5)

    def general_access(self) -> ir.Access:
        names = tuple(self.fresh("m") for _ in range(self.rng.randint(1, 3)))
        axes = tuple(ir.TileAxis(n, self.expr(1), self.expr(1), self.limit()) for n in names)
        index = tuple(
            random_expr(self.rng, (*names, *SIZES), 2) for _ in range(self.rng.randint(0, 3))
        )
        return ir.Access(self.buffer(), index, axes, self.rng.random() < 0.5)

    def limit(self) -> Expr | None:
        return self.expr(1) if self.rng.random() < 0.5 else None

    def loop(self, depth: int) -> ir.For:
        lo, hi = self.expr(), self.expr()
        step = sympy.Integer(1) if self.rng.random() < 0.6 else self.expr(1)
        iv, body = self.bound(depth, 1)
        return ir.For(iv[0], lo, hi, step, body, self.rng.choice(list(ForKind)))

    def bound(self, depth: int, count: int) -> tuple[tuple[str, ...], ir.Body]:
        """Fresh loop variables and a body that may use them."""
        names = tuple(self.fresh("i") for _ in range(count))
        self.scalars += names
        body = self.body(depth)
        del self.scalars[-count:]
        return names, body

    def while_(self, depth: int) -> ir.While:
        return ir.While(self.cond(), self.body(depth))

    def if_(self, depth: int) -> ir.If:
        return ir.If(self.cond(), self.body(depth), self.body(depth))

    def reduce(self, depth: int) -> ir.Reduce:
        count = self.rng.randint(1, 2)
        accumulators = tuple(
            ir.Accumulator(self.tile(), self.rng.choice(list(ReduceOp))) for _ in range(count)
        )
        return ir.Reduce(accumulators, self.body(depth))

    def grid(self, depth: int) -> ir.Grid:
        extents = self.exprs(1, 3)
        names, body = self.bound(depth, len(extents))
        kind = self.rng.choice(list(OrderKind))
        group = self.rng.randint(1, 9) if kind is OrderKind.GROUPED else 1
        return ir.Grid(tuple(map(ir.GridAxis, names, extents)), body, ir.TileOrder(kind, group))

    def grid1d(self, depth: int) -> ir.Grid1D:
        extent = self.expr()
        names, body = self.bound(depth, 1)
        return ir.Grid1D(names[0], extent, body)
