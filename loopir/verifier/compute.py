"""Rules about computing on tiles: `dot`, `ewise`, and tiles read before anything is in them."""

from collections.abc import Iterator

from loopir.effects import tiles_read, tiles_written
from loopir.nodes import Dot, Ewise, For, If, Literal, Reduce, While
from loopir.tile_types import (
    DOT_ACCUMULATORS,
    TileType,
    broadcast,
    dtype_mistakes,
    ewise_dtype,
    ewise_shape,
    number_mistake,
    typed_nodes,
)
from loopir.types import DType, Precision
from loopir.verifier.context import Context, Finding, Site
from loopir.walk import is_parallel_loop


def dot_shapes_match(ctx: Context) -> Iterator[Finding]:
    """`dot acc, a, b` multiplies [m, k] by [k, n] into [m, n]."""
    for site, acc, a, b in _dots(ctx):
        ranks = (len(acc.shape), len(a.shape), len(b.shape))
        fits = ranks == (2, 2, 2) and (
            (a.shape[0], b.shape[1]) == acc.shape and a.shape[1] == b.shape[0]
        )
        if not fits:
            shapes = f"{list(a.shape)} by {list(b.shape)} into {list(acc.shape)}"
            yield Finding(site.path, f"cannot multiply {shapes}", "dot")


def dot_dtypes_match(ctx: Context) -> Iterator[Finding]:
    """Both operands of a `dot` have one dtype, which decides the accumulator's; a precision is said
    only of f32 operands."""
    for site, acc, a, b in _dots(ctx):
        if a.dtype is not b.dtype:
            message = f"operands are {a.dtype.value} and {b.dtype.value}"
            yield Finding(site.path, message, "dot")
        elif acc.dtype not in (allowed := DOT_ACCUMULATORS.get(a.dtype, ())):
            wanted = " or ".join(d.value for d in allowed) or "not possible"
            message = f"the accumulator of {a.dtype.value} is {wanted}, not {acc.dtype.value}"
            yield Finding(site.path, message, "dot")
        if site.stmt.precision is not Precision.IEEE and a.dtype is not DType.F32:  # pyright: ignore
            yield Finding(site.path, f"a precision is said of f32 only, not {a.dtype.value}", "dot")


def _dots(ctx: Context) -> Iterator[tuple[Site, TileType, TileType, TileType]]:
    """The dots whose tiles all have a type."""
    for site in ctx.sites:
        match site.stmt:
            case Dot(acc, a, b) if {acc, a, b} <= ctx.tiles.keys():
                yield site, ctx.tiles[acc], ctx.tiles[a], ctx.tiles[b]


def ewise_shapes_match(ctx: Context) -> Iterator[Finding]:
    """The operands of an `ewise` broadcast, axes exist, and the result broadcasts to the tile's
    shape."""
    for site, stmt in _ewises(ctx):
        mistakes: list[str] = []
        shape = ewise_shape(stmt.expr, ctx.tiles, mistakes)
        yield from (Finding(site.path, m, "ewise") for m in mistakes)
        wanted = ctx.tiles[stmt.tile].shape
        if shape is not None and broadcast(shape, wanted) != wanted:
            message = f"the result is {list(shape)}, tile `{stmt.tile}` is {list(wanted)}"
            yield Finding(site.path, message, stmt.tile)


def ewise_dtypes_match(ctx: Context) -> Iterator[Finding]:
    """The operands of a function have one dtype, on which it is defined; the result has the tile's.
    f8, f16 and bf16 only move and cast, integers do not divide, floats have no `and` and `or`."""
    for site, stmt in _ewises(ctx):
        wanted = ctx.tiles[stmt.tile].dtype
        found = ewise_dtype(stmt.expr, ctx.tiles)
        if found not in (None, wanted):
            message = f"the result is {found.value}, tile `{stmt.tile}` is {wanted.value}"
            yield Finding(site.path, message, stmt.tile)
        for mistake in dict.fromkeys(dtype_mistakes(stmt.expr, wanted, ctx.tiles)):
            yield Finding(site.path, mistake, "ewise")


def ewise_numbers_fit(ctx: Context) -> Iterator[Finding]:
    """A number in an `ewise` is a value of the dtype that it meets."""
    for site, stmt in _ewises(ctx):
        for node, dtype in typed_nodes(stmt.expr, ctx.tiles[stmt.tile].dtype, ctx.tiles):
            mistake = number_mistake(node.value, dtype) if isinstance(node, Literal) else ""
            if mistake:
                yield Finding(site.path, mistake, "ewise")


def _ewises(ctx: Context) -> Iterator[tuple[Site, Ewise]]:
    """The element-wise statements whose tiles all have a type."""
    for site in ctx.sites:
        match site.stmt:
            case Ewise(tile) if {tile, *tiles_read(site.stmt)} <= ctx.tiles.keys():
                yield site, site.stmt


def tiles_are_written_before_read(ctx: Context) -> Iterator[Finding]:
    """A tile is filled, loaded or computed before it is read. Refused only where it is certain:
    nothing before the statement, or in an earlier turn of a loop, can have written the tile."""
    writers: dict[str, list[int]] = {}
    for i, site in enumerate(ctx.sites):
        for tile in tiles_written(site.stmt):
            writers.setdefault(tile, []).append(i)
    for i, site in enumerate(ctx.sites):
        for tile in sorted(tiles_read(site.stmt) - _accumulators(site)):
            if tile in ctx.allocs and not _may_be_written(ctx, i, writers.get(tile, [])):
                yield Finding(site.path, f"nothing has written tile `{tile}` before", tile)


def _accumulators(site: Site) -> set[str]:
    """Accumulators of the reduce around, which a rule of their own asks about."""
    reduces = (s.stmt for s in site.around if isinstance(s.stmt, Reduce))
    return {a.tile for r in reduces for a in r.accumulators}


def _may_be_written(ctx: Context, reader: int, writers: list[int]) -> bool:
    site = ctx.sites[reader]
    loops = [s for d, s in enumerate(site.around) if _can_skip_first_turn(site, d)]
    in_loops = (w for w in writers for s in loops if s in ctx.sites[w].around)
    return any(w < reader for w in writers) or next(in_loops, None) is not None


def _can_skip_first_turn(site: Site, depth: int) -> bool:
    """Whether the statement at `depth` around `site` is a loop that may reach `site` late only."""
    loop, inner = site.around[depth].stmt, site.around[depth + 1 :]
    return (
        isinstance(loop, For | While)
        and not is_parallel_loop(loop)
        and any(isinstance(s.stmt, If | For | While) for s in inner)
    )
