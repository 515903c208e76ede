"""Random writebacks, by brute force: what is said to tell its tile stores no element twice, what is
said to cover its buffer stores every element."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random

from loopir.deps.telling import untold
from loopir.nodes import Access, GridAxis, TileAxis
from loopir.parser import parse_expr
from loopir.printer import expr_text
from loopir.symbols import Expr, try_evaluate
from passes.stream_k.coverage import Sizes, covers

SIZES = ("A", "B", "C", "2 * B", "A * B", "B * C", "A * B * C", "1", "2", "3", "6")
STEPS = ("1", "1", "2", "3", "B", "B", "C", "A * B", "2 * B", "0 - 1", "0 - B")
VALUES = (
    "m", "m", "n", "n", "g", "m // B", "m % B", "m // (A * B)", "m // B % A", "m // B // A",
    "m // 2", "m % 2", "n // C", "n % C", "n // 2 % 2", "(m + n) // 2",
)  # fmt: skip
#: R rows, Q columns in each of G groups; `{R}` and the like are put in. Index -> extent
ROWS = (
    {"m": "{R}"},
    {"{R} - 1 - m": "{R}"},
    {"m // B": "ceildiv({R}, B)", "m % B": "B"},
    {"m // (A * B)": "ceildiv({R}, A * B)", "m // B % A": "A", "m % B": "B"},
    {"m // B // A": "ceildiv({R}, A * B)", "m % B + m // B % A * B": "A * B"},
)
COLUMNS = (
    {"g * {Q} + n": "{G} * {Q}"},
    {"n * {G} + g": "{G} * {Q}"},
    {"g": "{G}", "n": "{Q}"},
    {"g": "{G}", "n // 2": "ceildiv({Q}, 2)", "n % 2": "2"},
    {"{G} * {Q} - 1 - n - g * {Q}": "{G} * {Q}"},
)
STARTS = ("{T} * 2 - 2 - ti * 2", "g * 4 + ti * 2", "ti * 3", "ti", "g * B", "ti * 2 + 1")


@dataclass(frozen=True)
class Store:
    """A masked writeback of one kernel; `known` are the compile-time constants among `sizes`."""

    access: Access
    shape: tuple[Expr, ...]
    grid: tuple[GridAxis, ...]
    sizes: dict[str, int]
    known: dict[str, int]

    def constant(self, expr: Expr) -> int | None:
        return try_evaluate(expr, self.known)

    @property
    def tells(self) -> bool:
        return not list(untold(self.access, self.grid, self.constant, frozenset()))

    @property
    def covers(self) -> bool:
        sizes = Sizes(self.constant, lambda e: e)
        return self.tells and covers(self.access, self.shape, self.grid, sizes)


def random_store(rng: Random) -> Store:
    """Rows and columns of a matrix in groups, stored in some layout; most have something wrong."""
    sizes = {name: rng.randint(1, 4) for name in "ABC"} | {"G": rng.randint(1, 3)}
    share = rng.choice((0, 0.5, 1))
    known = {n: v for n, v in sizes.items() if rng.random() < share}
    rows, columns = rng.choice(SIZES), rng.choice(SIZES)
    tiles = f"ceildiv({rows}, 2)"
    text = {"R": f"({rows})", "Q": f"({columns})", "G": rng.choice(("A", "G", "1")), "T": tiles}
    dims = list((rng.choice(ROWS) | rng.choice(COLUMNS)).items())
    rng.shuffle(dims)
    index, shape = ([part.format(**text) for part in parts] for parts in zip(*dims, strict=True))
    limits, start = [rows, columns], rng.choice(("ti * 2", "ti * 2", STARTS[0]))
    match rng.choice(("", "", "index", "extent", "limit", "start", "missing", "tiles")):
        case "index":
            index[rng.randrange(len(index))] = random_index(rng)
        case "extent":
            shape[rng.randrange(len(shape))] = rng.choice((*SIZES, f"{shape[0]} + 1"))
        case "limit":
            limits[rng.randrange(2)] = rng.choice((*SIZES, ""))
        case "start":
            start = rng.choice(STARTS)
        case "missing":
            at = rng.randrange(len(index))
            del index[at], shape[at]
        case "tiles":
            tiles = rng.choice(SIZES)
    grid = {"g": text["G"], "ti": tiles, "tj": f"ceildiv({columns}, 2)"}
    axes = (axis("m", start.format(**text), limits[0]), axis("n", "tj * 2", limits[1]))
    access = Access("C", tuple(map(parse_expr, index)), axes, masked=True)
    variables = tuple(GridAxis(iv, parse_expr(extent)) for iv, extent in grid.items())
    return Store(access, tuple(map(parse_expr, shape)), variables, sizes, known)


def axis(name: str, start: str, limit: str) -> TileAxis:
    end = parse_expr(limit) if limit else None
    return TileAxis(name, parse_expr(start), parse_expr("2"), end)


def random_index(rng: Random) -> str:
    terms = (f"({rng.choice(STEPS)}) * ({rng.choice(VALUES)})" for _ in range(rng.randint(1, 3)))
    return " + ".join(terms) + rng.choice(("", "", " + 1", " - 1"))


def elements(store: Store) -> Iterator[tuple[int, ...]]:
    """Every element that some block stores, as often as it does."""
    shape = [try_evaluate(e, store.sizes) or 0 for e in store.shape]
    names = [v.iv for v in store.grid]
    extents = [try_evaluate(v.extent, store.sizes) or 0 for v in store.grid]
    index = compiled(f"[{', '.join(map(expr_text, store.access.index))}]")
    axes = [
        (
            a.name,
            compiled(expr_text(a.start)),
            try_evaluate(a.limit, store.sizes) if a.limit is not None else None,
        )
        for a in store.access.axes
    ]
    for values in product(*map(range, extents)):
        env = {
            **store.sizes,
            **dict(zip(names, values, strict=True)),
            "ceildiv": lambda a, b: -(-a // b),
        }
        places = [range(start := eval(code, env), start + 2) for _, code, _ in axes]
        for place in product(*places):
            inside = all(end is None or p < end for p, (_, _, end) in zip(place, axes, strict=True))
            at = tuple(eval(index, env | dict(zip("mn", place, strict=True))))
            if inside and all(0 <= i < n for i, n in zip(at, shape, strict=True)):
                yield at


def compiled(text: str):
    return compile(text, "index", "eval")


def test_what_is_said_of_random_stores_holds(pytestconfig):
    rng, said = Random(1), Counter()
    count = 20_000 if pytestconfig.getoption("--long") else 1_000
    for _ in range(count):
        store = random_store(rng)
        if not store.tells:
            continue
        found = Counter(elements(store))
        said["tells"] += 1
        assert max(found.values(), default=1) == 1, store
        if store.covers:
            said["covers"] += 1
            assert len(found) == size(store), store
    assert said["tells"] > count // 2
    assert said["covers"] > count // 10


def size(store: Store) -> int:
    """The number of elements of the buffer."""
    return prod(try_evaluate(extent, store.sizes) or 0 for extent in store.shape)


def test_control_some_stores_are_neither_disjoint_nor_complete():
    rng = Random(1)
    stores = [random_store(rng) for _ in range(200)]
    found = [(store, Counter(elements(store))) for store in stores]
    assert any(max(f.values(), default=1) > 1 for _, f in found)
    assert any(len(f) < size(store) for store, f in found if store.tells)
