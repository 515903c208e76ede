"""Seeded random kernels that verify and run: a parallel grid around one reduce.

What they compute on integer-valued inputs is exact in every dtype that they use, so that no
regrouping of a sum may change a bit. `legal_case(seed)` is the same in every process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from loopir.ewise_text import AXIS_REDUCTIONS
from loopir.nodes import Program
from loopir.parser import parse
from loopir.scope import launch_symbols
from loopir.types import DType, ReduceOp
from tests.support.random_accesses import (
    INPUT,
    OUTPUT,
    PARTIAL_OUTPUT,
    Axis,
    Dim,
    RandomAccess,
    random_access,
)

SMALL_TILES = (1, 2, 3, 4, 8)
_PRIMES = (2, 3, 5, 7, 11, 13)
_DOT_TYPES = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"),
              ("i8", "i32"))  # fmt: skip
#: dtype of an accumulator -> dtypes of what it takes in
_OPERANDS = {
    "f32": ("f16", "bf16", "f32", "i8"),
    "f64": ("f32", "f64"),
    "i32": ("i8", "i32"),
    "i64": ("i8", "i64"),
    "i8": ("i8",),
}
_OPERATORS = ("add", "max", "min", "mul", "mul", "and", "or")
_INFIX = {"add": "+", "mul": "*"}


@dataclass(frozen=True)
class Case:
    """A program, the values of its launch symbols, and its panel count. `seed` made it."""

    program: Program
    sizes: Mapping[str, int]
    panels: int
    seed: int


def legal_case(seed: int, tiles: tuple[int, ...] = SMALL_TILES, most_tiles: int = 3) -> Case:
    """Tile sizes are picked from `tiles`; no axis has more than about `most_tiles` of them."""
    maker = _Maker(Random(seed), tiles, most_tiles)
    program = parse(maker.text())
    sizes = {n: maker.sizes[n] for n in launch_symbols(program.kernels[0])}
    return Case(program, sizes, maker.panel_count, seed)


@dataclass
class _Accumulator:
    name: str
    op: str
    dtype: str
    axes: tuple[Axis, ...]
    update: list[str] = field(default_factory=list)

    @property
    def shape(self) -> str:
        return ", ".join(a.size for a in self.axes)


class _Maker:
    def __init__(self, rng: Random, tiles: tuple[int, ...], most_tiles: int):
        self.rng, self.most_tiles = rng, most_tiles
        #: whether an atomic merge could take it
        self.is_plain = rng.random() < 0.7
        self.tile_sizes = {name: rng.choice(tiles) for name in ("BM", "BN", "BK")}
        self.sizes = {
            "M": self.size(self.tile_sizes["BM"]),
            "N": self.size(self.tile_sizes["BN"]),
            "K": self.size(self.tile_sizes["BK"]),
            "L": rng.choice((1, 2, 2, 3)),
        }
        self.panel_count = max(1, -(-self.sizes["K"] // self.tile_sizes["BK"]))
        self.open = {name for name in "MNKL" if rng.random() < 0.06}
        self.params: list[str] = []
        self.where: list[str] = []
        self.before: list[str] = []
        self.panel: list[str] = []
        self.after: list[str] = []
        self.counted = 0
        self.is_matrix = rng.random() < 0.7
        self.has_batch = rng.random() < 0.3
        self.waves = self.wave_count()
        self.has_barriers = not self.waves and rng.random() < 0.5

    # --- chance -----------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, stem: str) -> str:
        self.counted += 1
        return f"{stem}{self.counted}"

    def size(self, tile: int) -> int:
        """0, 1, a prime, a multiple of the tile, or one more or less than that."""
        kind = self.rng.randrange(14)
        if kind < 2:
            return kind
        most = tile * self.most_tiles
        if kind < 5:
            return self.rng.choice([p for p in _PRIMES if p <= max(2, most)])
        nearby = self.rng.choice((-1, 0, 0, 0, 1))
        return max(0, tile * self.rng.randint(1, self.most_tiles) + nearby)

    def wave_count(self) -> int:
        """Waves that share the rows of a tile, or 0."""
        rows = self.tile_sizes["BM"]
        counts = [w for w in (1, 2, 4) if rows % w == 0]
        return self.rng.choice(counts) if self.chance(0.12) else 0

    # --- the kernel -------------------------------------------------------------------------------

    def text(self) -> str:
        self.set_axes()
        accumulators = [self.accumulator() for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3)))]
        for acc in accumulators:
            self.after += self.result(acc, accumulators)
        self.rng.shuffle(self.params)
        body = [*self.starts(accumulators), *self.reduce(accumulators), *self.after]
        if self.waves:
            body = [f"wave w in 0 .. {self.waves} {{", *body, "}"]
        where = ", ".join((*self.bindings(), *self.where))
        clause = f"\nwhere {where}" if where else ""
        lines = [f"kernel @k({', '.join(self.params)}){clause} {{", *self.grids(body), "}", ""]
        return "\n".join(lines)

    def set_axes(self) -> None:
        named = not self.chance(0.15)
        bm, bn, bk = (name if named else str(self.tile_sizes[name]) for name in ("BM", "BN", "BK"))
        self.grid = {"ti": f"ceildiv(M, {bm})"}
        start, height = f"ti * {bm}", bm
        if self.waves:
            height = str(self.tile_sizes["BM"] // self.waves)
            start = f"ti * {bm} + w * {height}"
        self.m = self.axis("m", self.as_let("row", start), height, "BM")
        self.n = self.axis("n", f"tj * {bn}", bn, "BN")
        self.k = self.axis("k", f"kp * {bk}", bk, "BK")
        if self.is_matrix:
            self.grid["tj"] = f"ceildiv(N, {bn})"
        if self.has_batch:
            self.grid["l"] = "L"
        self.used_sizes = ["M", *(["N"] if self.is_matrix else []), "K"]
        self.panels = f"max(1, ceildiv(K, {bk}))"
        if named:
            names = ("BM", "BN", "BK") if self.is_matrix else ("BM", "BK")
            self.where += [f"{name} = {self.tile_sizes[name]}" for name in names]
        if self.chance(0.8):
            self.where.append(f"P = {self.panels}")
            self.panels = "P"

    def axis(self, name: str, start: str, size: str, tile: str) -> Axis:
        extent = name.upper()
        count = self.sizes[extent]
        ends = count > 0 and count % self.tile_sizes[tile] == 0 and extent not in self.open
        return Axis(name, start, size, extent, count, ends)

    def as_let(self, name: str, expr: str) -> str:
        """`expr`, or sometimes the name of a let that holds it."""
        if not self.chance(0.15):
            return expr
        self.before.append(f"let {name} = {expr}")
        return name

    def bindings(self) -> list[str]:
        used = [*self.used_sizes, *(["L"] if self.has_batch else [])]
        return [f"{name} = {self.sizes[name]}" for name in used if name not in self.open]

    def grids(self, body: list[str]) -> list[str]:
        """`body` in one grid, or in a band of several."""
        axes = list(self.grid.items())
        self.rng.shuffle(axes)
        cut = self.rng.randrange(len(axes)) if self.chance(0.3) else 0
        inner = axes[cut:]
        order = self.rng.choice(("along_m", "grouped(1)", "grouped(2)", "grouped(3)"))
        clause = f" order {order}" if len(inner) > 1 and self.chance(0.3) else ""
        lines = [f"{_grid(inner)}{clause} {{", *body, "}"]
        return [f"{_grid(axes[:cut])} {{", *lines, "}"] if cut else lines

    def starts(self, accumulators: list[_Accumulator]) -> list[str]:
        made = []
        for acc in accumulators:
            made.append(f"alloc {acc.name}: register {acc.dtype}[{acc.shape}]")
            made.append(f"fill {acc.name}, {_identity(acc)}")
        if self.chance(0.15):
            made.append(f"let {self.fresh('z')} = 2 * ti + 1")
        return [*made, *self.before] if self.chance(0.5) else [*self.before, *made]

    def reduce(self, accumulators: list[_Accumulator]) -> list[str]:
        head = ", ".join(f"{acc.name}: {acc.op}" for acc in accumulators)
        barrier = ["barrier"] if self.has_barriers else []
        updates = [line for acc in accumulators for line in acc.update]
        loop = f"for kp in 0 .. {self.panels} {{"
        return [f"reduce ({head}) {{", loop, *self.panel, *barrier, *updates, *barrier, "}", "}"]

    # --- memory -----------------------------------------------------------------------------------

    def param(self, direction: str, dtype: str, shape: tuple[str, ...]) -> str:
        name = self.fresh({"": "X", "out ": "Y", "inout ": "Z"}[direction])
        layout = ""
        if self.chance(0.3):
            layout = f" contiguous({self.rng.choice(('none', *range(len(shape))))})"
        self.params.append(f"{direction}{name}: {dtype}[{', '.join(shape)}]{layout}")
        return name

    def loaded(
        self, dtype: str, axes: tuple[Axis, ...], scalars: tuple[Dim, ...] = (), otherwise: int = 0
    ) -> str:
        """The name of a tile that is loaded in each panel."""
        if self.has_batch and self.chance(0.7):
            scalars = (*scalars, Dim("l", "L"))
        if axes[0] is self.m and self.chance(0.08) and not self.waves:
            axes = (self.gathered(), *axes[1:])
        access = random_access(self.rng, axes, scalars, INPUT)
        tile, shape = self.fresh("x"), ", ".join(a.size for a in axes)
        space = self.rng.choice(("shared", "register"))
        place = self.panel if self.chance(0.25) else self.before
        place.append(f"alloc {tile}: {space} {dtype}[{shape}]")
        word = "coop_load" if self.has_barriers else "load"
        source = access.text(self.param("", dtype, access.shape))
        ending = f" else {otherwise}" if otherwise and access.is_masked else ""
        self.panel.append(f"{word} {tile}, {source}{access.mask}{ending}")
        return tile

    def gathered(self) -> Axis:
        """The rows of a tile that a table names."""
        row, table = self.fresh("u"), self.param("", "i32", (self.grid["ti"],))
        self.before.append(f"let {row} = {table}[ti]")
        return replace(self.m, start=f"{row} * {self.m.size}")

    def once(self, dtype: str, axis: Axis) -> str:
        """The name of a tile that is loaded before the reduce."""
        access = random_access(self.rng, (axis,), (), INPUT)
        tile = self.fresh("v")
        source = access.text(self.param("", dtype, access.shape))
        self.before.append(f"alloc {tile}: register {dtype}[{axis.size}]")
        self.before.append(f"load {tile}, {source}{access.mask}")
        return tile

    def element(self) -> str:
        """The name of a tile of one element."""
        tile, source = self.fresh("e"), self.param("", "i8", ("3",))
        self.before += [f"alloc {tile}: local i8[]", f"load {tile}, {source}[2]"]
        return tile

    # --- accumulators -----------------------------------------------------------------------------

    def accumulator(self) -> _Accumulator:
        if self.is_matrix and self.chance(0.55):
            return self.dot()
        op = "add" if self.is_plain else self.rng.choice(_OPERATORS)
        dtypes = ("f32", "f64", "i32", "i64") if self.is_plain else tuple(_OPERANDS)
        dtypes = ("i32", "i64", "i8") if op in ("and", "or") else dtypes
        is_wide = self.is_matrix and self.chance(0.7)
        axes = (self.m, self.n) if is_wide else (self.m,)
        acc = _Accumulator(self.fresh("acc"), op, self.rng.choice(dtypes), axes)
        value = self.outer(acc) if is_wide and self.chance(0.5) else self.term(acc)
        parts = [acc.name, value] if self.chance(0.8) else [value, acc.name]
        joined = f" {_INFIX[op]} ".join(parts) if op in _INFIX else f"{op}({', '.join(parts)})"
        acc.update = self.wrapped([f"ewise {acc.name} = {joined}"])
        return acc

    def dot(self) -> _Accumulator:
        dtype, total = self.rng.choice(_DOT_TYPES)
        acc = _Accumulator(self.fresh("acc"), "add", total, (self.m, self.n))
        a, b = self.loaded(dtype, (self.m, self.k)), self.loaded(dtype, (self.k, self.n))
        precision = " tf32" if dtype == "f32" and self.chance(0.2) else ""
        acc.update = self.wrapped([f"dot {acc.name}, {a}, {b}{precision}"])
        return acc

    def term(self, acc: _Accumulator) -> str:
        """What a panel adds: a tile like the accumulator, or one summed along an axis."""
        if len(acc.axes) == 2 and acc.op == "add" and self.chance(0.2):
            return self.cube(acc)
        if len(acc.axes) == 2 or self.chance(0.3):
            return self.of(acc, self.loaded_at_panel(acc, acc.axes))
        dtype = self.rng.choice(_OPERANDS[acc.dtype])
        x = _cast(self.loaded(dtype, (self.m, self.k), (), self.otherwise(acc)), dtype, acc.dtype)
        if self.chance(0.4):
            y = _cast(self.loaded(dtype, (self.k,)), dtype, acc.dtype)
            x = f"{x} + expand({y}, 0)" if acc.op != "add" else f"{x} * expand({y}, 0)"
        x = self.masked(x, 1, self.k) if self.chance(0.3) else x
        return f"{self.along(acc)}({self.bounded(acc, x)}, 1)"

    def along(self, acc: _Accumulator) -> str:
        """What combines one axis of a panel: mostly the accumulator's own operator."""
        own = {op.value: text for op, text in AXIS_REDUCTIONS.items()}[acc.op]
        others = ("amax", own, own) if acc.op == "mul" else ("sum", own, own, own)
        return self.rng.choice(others)

    def masked(self, x: str, axis: int, along: Axis) -> str:
        number = self.rng.choice((0, 1, -1))
        return f"mask({x}, {axis}, {along.start}, {along.extent}, {number})"

    def cube(self, acc: _Accumulator) -> str:
        """A tile of three axes, summed along the last."""
        dtype = self.rng.choice(_OPERANDS[acc.dtype])
        x = _cast(self.loaded(dtype, (self.m, self.n, self.k)), dtype, acc.dtype)
        axis, along = self.rng.choice(tuple(enumerate((self.m, self.n, self.k))))
        return f"sum({self.masked(x, axis, along)}, 2)"

    def outer(self, acc: _Accumulator) -> str:
        x, y = (self.loaded_at_panel(acc, (axis,)) for axis in acc.axes)
        sign = "*" if acc.op == "add" else "+"
        return self.of(acc, f"(expand({x}, 1) {sign} expand({y}, 0))")

    def loaded_at_panel(self, acc: _Accumulator, axes: tuple[Axis, ...]) -> str:
        """A tile of which each panel loads one, in the accumulator's dtype."""
        dtype = self.rng.choice(_OPERANDS[acc.dtype])
        tile = self.loaded(dtype, axes, (Dim("kp", self.panels),), self.otherwise(acc))
        return _cast(tile, dtype, acc.dtype)

    def of(self, acc: _Accumulator, x: str) -> str:
        forms = [x, x, f"max({x}, 0)", f"abs({x})", f"({x} + 1)"]
        if acc.op == "add":
            forms.append(f"2 * {x}")
        if self.chance(0.15):
            scale = _expanded(_cast(self.once("i8", self.m), "i8", acc.dtype), len(acc.axes))
            forms += [f"({x} + {scale})"] * 5
        if self.chance(0.1):
            forms += [f"({x} + {_cast(self.element(), 'i8', acc.dtype)})"] * 5
        if self.chance(0.15):
            axis = self.rng.randrange(len(acc.axes))
            forms += [self.masked(x, axis, acc.axes[axis])] * 5
        return self.bounded(acc, self.rng.choice(forms))

    def bounded(self, acc: _Accumulator, x: str) -> str:
        """`x`, such that a product of many stays exact."""
        return f"min(max({x}, -1), 1)" if acc.op == "mul" else x

    def otherwise(self, acc: _Accumulator) -> int:
        return self.rng.choice((0, 0, 1, -3)) if acc.op != "mul" else 1

    def wrapped(self, update: list[str]) -> list[str]:
        """An update in a condition or a loop, now and then."""
        if self.chance(0.07):
            return ["if kp % 2 == 0 {", *update, "}"]
        if self.chance(0.07):
            return [f"for {self.fresh('r')} in 0 .. 2 {{", *update, "}"]
        return update

    # --- results ----------------------------------------------------------------------------------

    def result(self, acc: _Accumulator, others: list[_Accumulator]) -> list[str]:
        """What follows the reduce for one accumulator: an epilogue, if any, and its stores."""
        if not self.is_plain and self.chance(0.3):
            return self.in_place(acc)
        lines, tile, dtype = [], acc.name, acc.dtype
        for _ in range(0 if self.is_plain else self.rng.choice((0, 1, 1, 2))):
            lines += self.epilogue(acc, others)
        if not self.is_plain and self.chance(0.4):
            tile, dtype = self.fresh("h"), self.rng.choice(("f16", "bf16", "f32", "i32"))
            cast = f"ewise {tile} = {_cast(acc.name, acc.dtype, dtype)}"
            lines += [f"alloc {tile}: register {dtype}[{acc.shape}]", cast]
        lines += ["barrier"] if self.has_barriers and self.chance(0.2) else []
        lines += self.stored(tile, dtype, acc.axes)
        return [*lines, *self.stored(tile, dtype, acc.axes)] if self.chance(0.1) else lines

    def stored(self, tile: str, dtype: str, axes: tuple[Axis, ...]) -> list[str]:
        access = self.target(axes)
        name = self.param("out ", dtype, access.shape)
        return [f"store {access.text(name)}, {tile}{access.mask}"]

    def target(self, axes: tuple[Axis, ...]) -> RandomAccess:
        """An access that tells every grid variable."""
        scalars = [Dim("l", "L")] if self.has_batch else []
        if self.is_matrix and self.n not in axes:
            scalars.append(Dim("tj", self.grid["tj"]))
        forms = PARTIAL_OUTPUT if self.chance(0.1) else OUTPUT
        return random_access(self.rng, axes, tuple(scalars), forms)

    def in_place(self, acc: _Accumulator) -> list[str]:
        """`beta * C`: the output is read where it is written."""
        tile, access = self.fresh("c"), self.target(acc.axes)
        place = access.text(self.param("inout ", acc.dtype, access.shape))
        is_half = acc.dtype == "f16"
        update = tile if is_half else f"{tile} * 2 + {acc.name}"
        return [
            f"alloc {tile}: register {acc.dtype}[{acc.shape}]",
            f"load {tile}, {place}{access.mask}",
            f"ewise {tile} = {update}",
            *(["barrier"] if self.has_barriers else []),
            f"store {place}, {tile}{access.mask}",
        ]

    def epilogue(self, acc: _Accumulator, others: list[_Accumulator]) -> list[str]:
        if acc.dtype == "f16":  # only moves and casts
            return []
        name, rank = acc.name, len(acc.axes)
        kinds = ["relu", "scale", "bias", "if", "loop"]
        like = [o.name for o in others if (o.dtype, o.axes) == (acc.dtype, acc.axes)]
        kind = self.rng.choice([*kinds, "other"] + ["rows"] * (rank == 2))
        if kind == "rows":
            row = self.fresh("s")
            total = f"ewise {row} = sum({name}, 1)"
            made = [f"alloc {row}: register {acc.dtype}[{self.m.size}]", total]
            return [*made, *self.stored(row, acc.dtype, (self.m,))]
        if kind == "bias":
            axis = self.rng.choice(acc.axes)
            bias = _cast(self.once("i8", axis), "i8", acc.dtype)
            if rank == 2:
                bias = f"expand({bias}, {1 - acc.axes.index(axis)})"
            return [f"ewise {name} = {name} + {bias}"]
        lines = {
            "relu": [f"ewise {name} = max({name}, 0)"],
            "scale": [f"ewise {name} = {name} * 2"],
            "other": [f"ewise {name} = {name} + {self.rng.choice(like)}"],
            "if": ["if ti == 0 {", f"ewise {name} = {name} + 1", "}"],
            "loop": [f"for {self.fresh('q')} in 0 .. 2 {{", f"ewise {name} = {name} - 1", "}"],
        }
        return lines[kind]


def _grid(axes: list[tuple[str, str]]) -> str:
    names, extents = zip(*axes, strict=True)
    return f"grid ({', '.join(names)}) in [{', '.join(extents)}]"


def _identity(acc: _Accumulator) -> str:
    return str(ReduceOp(acc.op).identity(DType(acc.dtype)))


def _cast(tile: str, source: str, target: str) -> str:
    return tile if source == target else f"cast({target}, {tile})"


def _expanded(row: str, rank: int) -> str:
    return f"expand({row}, 1)" if rank == 2 else row
