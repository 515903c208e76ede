"""Random kernels of one wave loop: most are whole-tile operations but for a slip or two."""

from dataclasses import dataclass
from random import Random

#: rows and columns of every buffer
SIDE = 24
_SLIP = 0.05


@dataclass(frozen=True)
class _Tile:
    """`split`: the axis along which the waves are meant to share it."""

    shape: tuple[int, ...]
    split: int | None


def random_wave_kernel(seed: int) -> str:
    """The text of a kernel with one wave loop, made of `seed` alone; it may break rules of the
    IR."""
    return _Writer(Random(seed)).kernel()


class _Writer:
    def __init__(self, rng: Random):
        self.rng = rng
        self.turns = rng.choice((1, 2, 2, 3, 4))
        self.width = rng.choice((1, 2, 4))
        self.height = rng.choice((1, 2, 3, 4))
        self.lo = rng.choice((0, 0, 0, 1))
        self.step = rng.choice((1, 1, 1, self.width))
        self.tiles: dict[str, _Tile] = {}
        self.outside: list[str] = []
        self.scalars: list[str] = []
        self.has_let = False
        self.counted = 0

    def kernel(self) -> str:
        params = "X: f32[S, S], V: f32[S], out Y: f32[S, S], inout Z: f32[S, S], out U: f32[S]"
        alias = "\n    alias(X, Z)" if self.rng.random() < 0.05 else ""
        body = "\n".join(self.outer() + self.loop() + self.behind())
        return (
            f"kernel @k({params})\n    where S = {SIDE}{alias}\n    requires zeroed(U) {{\n"
            f"grid (t) in [1] {{\n{body}\n}}\n}}\n"
        )

    # --- the parts of the kernel

    def outer(self) -> list[str]:
        self.outside = [n for n in ("o", "p") if self.rng.random() < 0.4]
        return [line for name in self.outside for line in self.alloc(name, is_shared=True)]

    def loop(self) -> list[str]:
        step = "" if self.step == 1 else f" step {self.step}"
        hi = self.lo + self.turns * self.step
        inner = [line for name in "abcd" for line in self.alloc(name)]
        if self.rng.random() < 0.3:
            inner.append(f"let q = {self.part()} + t")
            self.has_let = True
        inner += self.statements(self.rng.randint(2, 8))
        return [f"wave w in {self.lo} .. {hi}{step} {{", *inner, "}"]

    def behind(self) -> list[str]:
        return [self.store(name) for name in self.outside if self.rng.random() < 0.5]

    def alloc(self, name: str, is_shared: bool = False) -> list[str]:
        w, h = self.width, self.height
        split: tuple[tuple[tuple[int, ...], int], ...] = (
            ((w, h), 0), ((w, h), 0), ((h, w), 1), ((w,), 0), ((w, w), 0), ((w, w), 1),
        )  # fmt: skip
        whole = (((h, h), None), ((h,), None), ((w, h), None), ((1, h), None))
        shape, axis = self.rng.choice(whole if is_shared or self.rng.random() < 0.2 else split)
        self.tiles[name] = _Tile(shape, axis)
        return [f"alloc {name}: register f32{list(shape)}", f"fill {name}, 1"]

    # --- statements

    def statements(self, count: int) -> list[str]:
        return [line for _ in range(count) for line in self.statement()]

    def statement(self) -> list[str]:
        kinds = ("load", "store", "ewise", "dot", "fill", "atomic", "for", "if")
        kind = self.rng.choices(kinds, (5, 4, 7, 3, 1, 1, 1, 1))[0]
        own = [n for n in self.tiles if n not in self.outside]
        tile = self.pick(self.tiles if self.slips() else own)
        match kind:
            case "load":
                return [self.load(tile)]
            case "store":
                return [self.store(tile)]
            case "ewise":
                return [f"ewise {tile} = {self.expr(self.tiles[tile].shape, 2)}"]
            case "dot":
                return self.dot(tile)
            case "fill":
                return [f"fill {tile}, {self.rng.randint(-2, 2)}"]
            case "atomic":
                return [self.store(tile, "atomic add", "Z")]
            case "for":
                return self.counted_loop()
        cond = "w < 2" if self.slips() else self.rng.choice(("t == 0", "t > 0"))
        return [f"if {cond} {{", *self.statements(1), "}"]

    def counted_loop(self) -> list[str]:
        self.counted += 1
        self.scalars.append(f"i{self.counted}")
        inner = self.statements(2)
        return [f"for {self.scalars.pop()} in 0 .. 2 {{", *inner, "}"]

    def dot(self, acc: str) -> list[str]:
        wanted = self.tiles[acc].shape
        pairs = [
            (a, b)
            for a, x in self.tiles.items()
            for b, y in self.tiles.items()
            if len(wanted) == len(x.shape) == len(y.shape) == 2
            and (x.shape[0], y.shape[1]) == wanted
            and x.shape[1] == y.shape[0]
        ]
        return ["dot {}, {}, {}".format(acc, *self.rng.choice(pairs))] if pairs else []

    def load(self, tile: str) -> str:
        flat = len(self.tiles[tile].shape) == 1
        buffer = "V" if flat else self.rng.choice("XXXXZ")
        return f"load {tile}, {self.access(buffer, self.tiles[tile])} masked"

    def store(self, tile: str, word: str = "store", buffers: str = "YYYZ") -> str:
        flat = len(self.tiles[tile].shape) == 1
        buffer = "U" if flat else self.rng.choice(buffers)
        return f"{word} {self.access(buffer, self.tiles[tile])}, {tile} masked"

    # --- accesses

    def access(self, buffer: str, tile: _Tile) -> str:
        starts = [self.start(axis == tile.split) for axis in range(len(tile.shape))]
        slices = [f"{s} +: {n}" for s, n in zip(starts, tile.shape, strict=True)]
        if len(slices) == 1 or self.rng.random() < 0.6:
            return f"{buffer}[{', '.join(slices)}]"
        limit = f" < {self.rng.randint(1, SIDE)}" if self.rng.random() < 0.2 else ""
        axes = f"m0 = {slices[0]}{limit}, m1 = {slices[1]}"
        indices = ("m1, m0", "m0, m1", "m0 + 1, m1", "m0 + m1, m1", "m0 // 3, m0 % 3 * 5 + m1")
        return f"{buffer}[{self.rng.choice(indices)}] over ({axes})"

    def start(self, is_split: bool) -> str:
        if self.slips():
            return self.wrong_start()
        if not is_split:
            return self.rng.choice(["0", "t", *self.scalars])
        parts = [self.part()] * 4 + [f"{self.part()} + 3"] + ["q"] * self.has_let
        return self.rng.choice(parts + [f"{self.part()} + 8 * {i}" for i in self.scalars])

    def part(self) -> str:
        """Where the wave's own part starts."""
        number = f"(w - {self.lo})" if self.lo and self.rng.random() < 0.5 else "w"
        return number if self.step == self.width else f"{number} * {self.width}"

    def wrong_start(self) -> str:
        w = self.width
        wrong = ["0", "w", f"w * {w}", f"{2 * w} * w", f"{4 * w} - w * {w}", f"w // 2 * {w}"]
        return self.rng.choice(wrong + [f"w * {w} + {i}" for i in self.scalars])

    # --- expressions

    def expr(self, shape: tuple[int, ...], depth: int) -> str:
        shapes = {name: tile.shape for name, tile in self.tiles.items()}
        kinds = ["tile"] * 4 + ["number"] + (["apply"] * 4 + ["expand", "sum"] * 2) * (depth > 0)
        if depth and self.rng.random() < 0.1:
            return self.masked(shape, depth)
        match self.rng.choice(kinds):
            case "apply":
                left, right = self.expr(shape, depth - 1), self.expr(shape, depth - 1)
                sign = self.rng.choice(("+", "*", "-", "max"))
                return f"max({left}, {right})" if sign == "max" else f"({left}) {sign} ({right})"
            case "expand" if len(shape) == 2:
                axis = self.rng.randint(0, 1)
                fits = [n for n, s in shapes.items() if s == (shape[1 - axis],)]
                return f"expand({self.pick(fits)}, {axis})" if fits else "2"
            case "sum" if len(shape) == 1:
                axis = self.rng.randint(0, 1)
                fits = [n for n, s in shapes.items() if len(s) == 2 and s[1 - axis] == shape[0]]
                word = self.rng.choice(("sum", "amax"))
                return f"{word}({self.pick(fits)}, {axis})" if fits else "3"
            case "number":
                return str(self.rng.randint(0, 3))
        fits = [n for n, s in shapes.items() if len(s) == len(shape) and _broadcasts(s, shape)]
        return self.pick(fits) if fits else "1"

    def masked(self, shape: tuple[int, ...], depth: int) -> str:
        fits = [n for n, tile in self.tiles.items() if tile.shape == shape]
        if not fits:
            return "1"
        axis = self.rng.randrange(len(shape))
        start = self.part() if self.slips() else self.rng.choice(["0", "t", *self.scalars])
        return f"mask({self.pick(fits)}, {axis}, {start}, {self.rng.randint(0, 5)}, {depth})"

    def pick(self, names) -> str:
        return self.rng.choice(list(names))

    def slips(self) -> bool:
        return self.rng.random() < _SLIP


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return all(a in (1, b) for a, b in zip(shape, wanted, strict=True))
