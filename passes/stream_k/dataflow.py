"""Questions of data flow over a matched nest: what is carried, what is derived, what a tile starts
as."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopir.effects import tiles_read, tiles_written
from loopir.nodes import Body, Fill, For, Let, Literal, Set, Stmt, Store, While
from loopir.symbols import Expr, substitute
from loopir.walk import body_fields, node_at, walk
from passes.stream_k.nest import Nest, Path, is_wave_loop


def scalar_values(nest: Nest) -> dict[str, Expr]:
    """Scalars that are one expression of grid variables, sizes and unknowns: each `let` with lets
    before it put in. A variable that is `set` anywhere, and one read from a buffer, stand for
    themselves."""
    placed = tuple(walk(nest.body))
    changing = {s.name for _, s in placed if isinstance(s, Set)}
    values: dict[str, Expr] = {}
    for _, stmt in placed:
        match stmt:
            case Let(name, Expr() as expr) if name not in changing:
                values[name] = substitute(expr, values)
    return values


def panel_count(nest: Nest) -> Expr:
    """The end of the panel loop, in terms of sizes, grid variables and unknowns only."""
    return substitute(nest.loop.hi, scalar_values(nest))


def initial_value(nest: Nest, tile: str) -> tuple[Path, Literal | None]:
    """The last write of `tile` before the Reduce: its path, and its value if it is an unconditional
    fill. The path of the Reduce itself where nothing writes it."""
    writes = [(path, stmt) for path, stmt in nest.before if tile in tiles_written(stmt)]
    if not writes:
        return nest.reduce_path, None
    path, last = writes[-1]
    always = isinstance(last, Fill) and is_unconditional(nest, path)
    return path, last.value if always and isinstance(last, Fill) else None


def is_unconditional(nest: Nest, path: Path) -> bool:
    """Whether only wave loops stand between the grid and the statement at `path`."""
    relative = path[len(nest.body_path) :]
    around = (node_at(nest.body, relative[:end]) for end in range(1, len(relative), 2))
    return all(map(is_wave_loop, around))


def carried_tiles(nest: Nest) -> Iterator[tuple[Path, str]]:
    """Tiles other than accumulators whose value passes from one panel to the next or out of the
    loop, each with the statement that writes it."""
    writers = {t: path for path, stmt in nest.inside for t in tiles_written(stmt)}
    exposed = _exposed_reads(nest.loop.body, set())
    later = _exposed_reads(_after(nest), set())
    for tile, path in writers.items():
        if tile not in nest.accumulators and tile in exposed | later:
            yield path, tile


def carried_scalars(nest: Nest) -> Iterator[tuple[Path, str]]:
    """Variables that the Reduce sets and something outside it made."""
    own = {s.name for _, s in nest.inside if isinstance(s, Let)}
    for path, stmt in nest.inside:
        if isinstance(stmt, Set) and stmt.name not in own:
            yield path, stmt.name


@dataclass(frozen=True)
class Writeback:
    """A store, after the Reduce, of a tile that holds accumulators or what an epilogue made of
    them."""

    path: Path
    store: Store


def writebacks(nest: Nest) -> tuple[Writeback, ...]:
    """Every writeback, in text order."""
    derived = set(nest.accumulators)
    found = []
    for path, stmt in nest.after:
        if isinstance(stmt, Store) and stmt.tile in derived:
            found.append(Writeback(path, stmt))
        derived |= tiles_written(stmt) if tiles_read(stmt) & derived else frozenset()
    return tuple(found)


def _after(nest: Nest) -> Body:
    """The statements after the Reduce, blocks whole, each once."""
    blocks: list[Path] = []
    for path, _ in nest.after:
        if not any(path[: len(block)] == block for block in blocks):
            blocks.append(path)
    offset = len(nest.body_path)
    return tuple(node_at(nest.body, path[offset:]) for path in blocks)


def _exposed_reads(body: Iterable[Stmt], written: set[str]) -> set[str]:
    """Tiles that `body` may read before it has written them; adds to `written` those it surely
    writes."""
    exposed: set[str] = set()
    for stmt in body:
        exposed |= tiles_read(stmt) - written
        exposed |= _exposed_in_blocks(stmt, written)
        written |= tiles_written(stmt)
    return exposed


def _exposed_in_blocks(stmt: Stmt, written: set[str]) -> set[str]:
    blocks = [getattr(stmt, name) for name in body_fields(stmt)]
    ends = [set(written) for _ in blocks]
    exposed: set[str] = set()
    for block, end in zip(blocks, ends, strict=True):
        exposed |= _exposed_reads(block, end)
    if blocks and _runs_every_block_or_one(stmt):
        written |= set.intersection(*ends)
    return exposed


def _runs_every_block_or_one(stmt: Stmt) -> bool:
    """Whether what all its blocks write is written after it: true of an `if`, of wave loops and of
    the Reduce, false of loops that may run zero times."""
    return not isinstance(stmt, While) and (is_wave_loop(stmt) or not isinstance(stmt, For))
