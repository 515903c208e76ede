"""The whole IR: frozen dataclasses with tuple bodies and structural equality.

Text forms stand beside each node; `docs/ir.md` has the grammar. Buffers, tiles and scalars are
referred to by name, index expressions are sympy expressions over `symbols.sym(name)`.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from loopir.symbols import Expr
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

# --- index expressions and conditions


@dataclass(frozen=True)
class Cmp:
    """`lhs op rhs` over index expressions; op is one of == != < <= > >=."""

    op: str
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True)
class Flag:
    """A boolean scalar made by `arrive`."""

    name: str


@dataclass(frozen=True)
class AllOf:
    """`a and b and ...`, two or more."""

    terms: tuple["Cond", ...]


@dataclass(frozen=True)
class AnyOf:
    """`a or b or ...`, two or more."""

    terms: tuple["Cond", ...]


@dataclass(frozen=True)
class Negate:
    """`not a`."""

    term: "Cond"


Cond: TypeAlias = Cmp | Flag | AllOf | AnyOf | Negate


@dataclass(frozen=True)
class ElementRead:
    """`buffer[index, ...]`: one element of a global integer buffer, as a scalar."""

    buffer: str
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class TileAxis:
    """`name = start +: size < limit`: one axis of the tile that an access moves. `limit` None: no
    bound of its own."""

    name: str
    start: Expr
    size: Expr
    limit: Expr | None = None


@dataclass(frozen=True)
class Access:
    """`buffer[index, ...] over (axis, ...) masked`: a tile of a buffer.

    One index expression per buffer dimension, over the axes (the tile's dimensions, in order) and
    the scalars in scope. `masked`: an element takes part iff every axis is below its limit and
    every index lies in [0, extent). A rectangular slice, every axis used once as an index of its
    own and in order, with no limits and the axes named `_0`, `_1`, ... has the short text
    `buffer[start +: size, scalar, ...] masked`.
    """

    buffer: str
    index: tuple[Expr, ...]
    axes: tuple[TileAxis, ...]
    masked: bool = False


# --- element-wise expressions: a tree of our own, since floating point does not reassociate


@dataclass(frozen=True)
class TileRef:
    """A tile by name."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A number: int, float, inf or -inf."""

    value: int | float


@dataclass(frozen=True)
class Apply:
    """`fn(arg, ...)` element by element; + - * / and unary - have infix text. `EWISE_FUNCTIONS`
    lists them."""

    fn: str
    args: tuple["Ewise_", ...]


@dataclass(frozen=True)
class Cast:
    """`cast(dtype, arg)`: to a float type round to nearest even, fp8 saturating; float to int
    truncates and saturates, NaN gives 0."""

    dtype: DType
    arg: "Ewise_"


@dataclass(frozen=True)
class Expand:
    """`expand(arg, axis)`: a new axis of size one, to be broadcast."""

    arg: "Ewise_"
    axis: int


@dataclass(frozen=True)
class AxisReduce:
    """`sum(arg, axis)`, and `prod`, `amax`, `amin`, `reduce_and`, `reduce_or`: combine along one
    axis, which disappears. `op` is add, mul, max, min, and, or."""

    op: ReduceOp
    arg: "Ewise_"
    axis: int


@dataclass(frozen=True)
class Mask:
    """`mask(arg, axis, start, limit, v)`: the elements at position p along `axis` of `arg` where
    start + p < limit; `v` in place of the others."""

    arg: "Ewise_"
    axis: int
    start: Expr
    limit: Expr
    otherwise: Literal


@dataclass(frozen=True)
class Part:
    """`part(arg, axis, index, count)`: along `axis` of `arg`, part `index` of `count` equal ones;
    the count is a power of two."""

    arg: "Ewise_"
    axis: int
    index: int
    count: int


Ewise_: TypeAlias = TileRef | Literal | Apply | Cast | Expand | AxisReduce | Mask | Part

#: name -> number of arguments
EWISE_FUNCTIONS = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "max": 2, "min": 2, "and": 2, "or": 2,
    "abs": 1, "exp": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1, "sigmoid": 1, "erf": 1,
}  # fmt: skip

# --- statements


@dataclass(frozen=True)
class Let:
    """`let name = expr`: an integer scalar, 64 bits wide where it is flattened, a stride, a tile or
    a slot."""

    name: str
    expr: Expr | ElementRead


@dataclass(frozen=True)
class Set:
    """`set name = expr`: only of a variable that the condition of the enclosing `while` reads."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Alloc:
    """`alloc name: space dtype[shape]`: a tile of the block; `[]` is one element. The space is
    local, shared, register or fragment."""

    name: str
    space: Space
    dtype: DType
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Fill:
    """`fill tile, number`."""

    tile: str
    value: Literal


@dataclass(frozen=True)
class Load:
    """`load tile, access [else v] [descriptor] [evict_first]`, or `coop_load` when all threads of
    the block share the work. Elements that a mask leaves out get `otherwise`. `evict_first`: a
    hint, that nothing reads these elements again, or not later."""

    tile: str
    source: Access
    cooperative: bool = False
    otherwise: Literal = Literal(0)
    via: Via = Via.POINTER
    evict_first: bool = False


@dataclass(frozen=True)
class Store:
    """`store access, tile [descriptor]`: equal dtypes; elements that a mask leaves out are
    skipped."""

    target: Access
    tile: str
    via: Via = Via.POINTER


@dataclass(frozen=True)
class Atomic:
    """`atomic op access, tile`: one relaxed read-modify-write an element."""

    op: ReduceOp
    target: Access
    tile: str


@dataclass(frozen=True)
class Barrier:
    """`barrier`: all threads of the block."""


@dataclass(frozen=True)
class Arrive:
    """`arrive flag, counter[index], expected`: acquire-release increment of a workspace counter;
    `flag` is true in the last of `expected` arrivers, which puts the counter back to zero."""

    flag: str
    counter: ElementRead
    expected: Expr


@dataclass(frozen=True)
class Dot:
    """`dot acc, a, b [precision]`: acc += a @ b for tiles [m, k] and [k, n]."""

    acc: str
    a: str
    b: str
    precision: Precision = Precision.IEEE


@dataclass(frozen=True)
class Ewise:
    """`ewise tile = expression`: of an allocated tile; shape and dtype of the expression are the
    tile's."""

    tile: str
    expr: Ewise_


@dataclass(frozen=True)
class For:
    """`for iv in lo .. hi [step s] [flattened] { }`; `parallel iv in lo .. hi { }`: iterations in
    any order, at the root of an untiled nest; `wave iv in lo .. hi { }`: a constant-trip map over
    the block's warps. `flattened`: a hint, that loads of the next turn may start before the end of
    this one."""

    iv: str
    lo: Expr
    hi: Expr
    step: Expr
    body: "Body"
    kind: ForKind = ForKind.SEQUENTIAL
    flattened: bool = False


@dataclass(frozen=True)
class While:
    """`while cond { }`."""

    cond: Cond
    body: "Body"


@dataclass(frozen=True)
class If:
    """`if cond { } [else { }]`."""

    cond: Cond
    then: "Body"
    orelse: "Body" = ()


@dataclass(frozen=True)
class Accumulator:
    """`tile: op` in the head of a reduce."""

    tile: str
    op: ReduceOp


@dataclass(frozen=True)
class Reduce:
    """`reduce (acc: add, ...) { for kp in lo .. hi { } }`: one flattened panel loop. The verifier
    makes the label true: inside it an accumulator changes only by acc = op(acc, f), f independent
    of every accumulator."""

    accumulators: tuple[Accumulator, ...]
    body: "Body"


@dataclass(frozen=True)
class TileOrder:
    """`order along_n | along_m | grouped(g)`: which tile a linear tile number names, over a grid's
    last two axes."""

    kind: OrderKind = OrderKind.ALONG_N
    group: int = 1


@dataclass(frozen=True)
class GridAxis:
    iv: str
    extent: Expr


@dataclass(frozen=True)
class Grid:
    """`grid (ti, tj) in [extent, extent] [order ...] { }`: parallel output tiles, one block
    each."""

    axes: tuple[GridAxis, ...]
    body: "Body"
    order: TileOrder = TileOrder()


@dataclass(frozen=True)
class Grid1D:
    """`grid1d (unit) in [extent] persistent { }`: one block a unit, which walks its share. Made by
    passes."""

    iv: str
    extent: Expr
    body: "Body"


Stmt: TypeAlias = (
    Let | Set | Alloc | Fill | Load | Store | Atomic | Barrier | Arrive | Dot | Ewise | For | While
    | If | Reduce | Grid | Grid1D
)  # fmt: skip
Body: TypeAlias = tuple[Stmt, ...]

# --- programs


@dataclass(frozen=True)
class Param:
    """`[out|inout] name: dtype[shape] [contiguous(d) | contiguous(none)]`: a tensor in global
    memory.

    Dimension `contiguous` has stride one, the last if nothing is said; the strides of the others
    are launch-time values. None: every stride is a launch-time value.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    direction: Direction = Direction.IN
    contiguous: int | None = -1

    def __post_init__(self):
        if self.contiguous is not None and self.contiguous < 0:
            object.__setattr__(self, "contiguous", self.contiguous + len(self.shape))


@dataclass(frozen=True)
class Binding:
    """`name = expr` in a `where` clause; later bindings may use earlier ones."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Zeroed:
    """`zeroed(buffer)`: the launcher fills it with zeros first."""

    buffer: str


@dataclass(frozen=True)
class AtMost:
    """`at_most(name, expr)`: the launcher picks `name`, an unbound symbol, no larger than
    `expr`."""

    name: str
    expr: Expr


Requirement: TypeAlias = Zeroed | AtMost


@dataclass(frozen=True)
class Alias:
    """`alias(a, b)`: these two parameters may be the same storage; all others are disjoint."""

    a: str
    b: str


@dataclass(frozen=True)
class Workspace:
    """`workspace name: dtype[shape] [fragment_order]`: device-global memory that outlives a launch.
    One that an `arrive` names holds counters, zero once and left at zero by every launch. `order`:
    where in memory the elements of its slots lie, which no value depends on."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    order: ElementOrder = ElementOrder.ROWS


@dataclass(frozen=True)
class Kernel:
    name: str
    params: tuple[Param, ...]
    body: Body
    where: tuple[Binding, ...] = ()
    aliases: tuple[Alias, ...] = ()
    requires: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Program:
    """The unit of parsing, verifying, rewriting and emitting: kernels run in order, with shared
    workspaces."""

    kernels: tuple[Kernel, ...]
    workspaces: tuple[Workspace, ...] = field(default=())
