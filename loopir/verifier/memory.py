"""Rules about tiles in memory and the accesses that move them."""

from collections.abc import Iterator

from loopir.effects import access_of, buffers_read, buffers_written
from loopir.nodes import (
    Access,
    Alloc,
    Arrive,
    Atomic,
    Dot,
    ElementRead,
    Fill,
    Let,
    Load,
    Param,
    Store,
    Workspace,
    Zeroed,
)
from loopir.symbols import Expr, names_of, try_evaluate
from loopir.tile_types import constant_shape, is_defined, number_mistake
from loopir.types import Direction, DType, ReduceOp, Space
from loopir.verifier.context import Context, Finding, Site

_MADE_BY_ALLOC = (Space.LOCAL, Space.SHARED, Space.REGISTER, Space.FRAGMENT)


def allocs_are_constant(ctx: Context) -> Iterator[Finding]:
    """`alloc` makes a local, shared, register or fragment tile of positive compile-time constant
    sizes; a tile without sizes is one element."""
    for site in ctx.sites:
        if not isinstance(site.stmt, Alloc):
            continue
        if site.stmt.space not in _MADE_BY_ALLOC:
            yield Finding(site.path, f"no tile is {site.stmt.space.value}", site.stmt.space.value)
        if constant_shape(site.stmt, ctx.sizes) is None:
            message = f"the sizes of `{site.stmt.name}` are no positive constants"
            yield Finding(site.path, message, site.stmt.name)


def accesses_match_their_buffer(ctx: Context) -> Iterator[Finding]:
    """An access names a parameter or a workspace, and has one index for each of its dimensions."""
    for site, access, _ in _moves(ctx):
        yield from _index_findings(ctx, site, access.buffer, access.index)


def element_reads_are_integers(ctx: Context) -> Iterator[Finding]:
    """`let x = buffer[i]` reads one element of an integer parameter or workspace."""
    for site in ctx.sites:
        if isinstance(site.stmt, Let) and isinstance(site.stmt.expr, ElementRead):
            read = site.stmt.expr
            yield from _index_findings(ctx, site, read.buffer, read.index)
            if read.buffer in ctx.buffers and not ctx.buffers[read.buffer].dtype.is_int:
                yield Finding(site.path, f"`{read.buffer}` does not hold integers", read.buffer)


def counters_are_integer_workspaces(ctx: Context) -> Iterator[Finding]:
    """`arrive` counts in one element of an integer workspace, up to a number that is positive."""
    for site in ctx.sites:
        if not isinstance(site.stmt, Arrive):
            continue
        name = site.stmt.counter.buffer
        buffer = ctx.buffers.get(name)
        if not (isinstance(buffer, Workspace) and buffer.dtype.is_int):
            yield Finding(site.path, f"`{name}` is no integer workspace", name)
        elif len(site.stmt.counter.index) != len(buffer.shape):
            yield Finding(site.path, _rank_mistake(name, site.stmt.counter.index, buffer), name)
        if (expected := try_evaluate(site.stmt.expected, ctx.sizes)) is not None and expected < 1:
            yield Finding(site.path, f"{expected} arrivals are expected; one is the least")


def _index_findings(
    ctx: Context, site: Site, name: str, index: tuple[Expr, ...]
) -> Iterator[Finding]:
    buffer = ctx.buffers.get(name)
    if buffer is None:
        yield Finding(site.path, f"`{name}` is no parameter or workspace", name)
    elif len(index) != len(buffer.shape):
        yield Finding(site.path, _rank_mistake(name, index, buffer), name)


def _rank_mistake(name: str, index: tuple[Expr, ...], buffer: Param | Workspace) -> str:
    return f"{len(index)} indices for `{name}`, which has {len(buffer.shape)} dimensions"


def _moves(ctx: Context) -> Iterator[tuple[Site, Access, str]]:
    """Each load, store and atomic with its access and its tile."""
    for site in ctx.sites:
        if isinstance(site.stmt, Load | Store | Atomic):
            access = access_of(site.stmt)
            if access is not None:
                yield site, access, site.stmt.tile


def tiles_fit_their_axes(ctx: Context) -> Iterator[Finding]:
    """The axes of an access have the sizes of the tile's dimensions, in order."""
    for site, access, tile in _moves(ctx):
        if tile not in ctx.tiles:
            continue
        sizes = tuple(try_evaluate(a.size, ctx.sizes) for a in access.axes)
        shape = ctx.tiles[tile].shape
        if sizes != shape:
            found = ", ".join("?" if n is None else str(n) for n in sizes)
            message = f"tile `{tile}` is {list(shape)}, the axes are [{found}]"
            yield Finding(site.path, message, tile)


def axes_are_used(ctx: Context) -> Iterator[Finding]:
    """Every axis of an access occurs in one of its indices."""
    for site, access, _ in _moves(ctx):
        used = frozenset().union(*map(names_of, access.index))
        for axis in access.axes:
            if axis.name not in used:
                yield Finding(site.path, f"axis `{axis.name}` is in no index", axis.name)


def directions_are_respected(ctx: Context) -> Iterator[Finding]:
    """Loads read in and inout parameters, stores and atomics write out and inout parameters, and
    workspaces can be read and written."""
    for site in ctx.sites:
        is_atomic = isinstance(site.stmt, Atomic)
        for name in sorted(buffers_read(site.stmt)):
            if not is_atomic and _direction(ctx, name) is Direction.OUT:
                yield Finding(site.path, f"`{name}` is out and cannot be read", name)
        for name in sorted(buffers_written(site.stmt)):
            if _direction(ctx, name) is Direction.IN:
                yield Finding(site.path, f"`{name}` is in and cannot be written", name)


def _direction(ctx: Context, name: str) -> Direction | None:
    return getattr(ctx.buffers.get(name), "direction", None)


def moves_keep_the_dtype(ctx: Context) -> Iterator[Finding]:
    """A load, a store or an atomic joins a buffer and a tile of one dtype; `cast` converts."""
    for site, access, tile in _moves(ctx):
        buffer, alloc = ctx.buffers.get(access.buffer), ctx.allocs.get(tile)
        if buffer and alloc and buffer.dtype is not alloc.dtype:
            message = (
                f"`{access.buffer}` is {buffer.dtype.value}, tile `{tile}` is {alloc.dtype.value}"
            )
            yield Finding(site.path, message, tile)


def atomics_into_outputs_are_zeroed(ctx: Context) -> Iterator[Finding]:
    """An atomic into an out parameter needs `requires zeroed(...)` of it."""
    zeroed = {n.buffer for n in ctx.kernel.requires if isinstance(n, Zeroed)}
    for site, access, _ in _moves(ctx):
        is_output = _direction(ctx, access.buffer) is Direction.OUT
        if isinstance(site.stmt, Atomic) and is_output and access.buffer not in zeroed:
            message = f"`{access.buffer}` needs `requires zeroed({access.buffer})`"
            yield Finding(site.path, message, access.buffer)


def atomic_operators_combine(ctx: Context) -> Iterator[Finding]:
    """An atomic's operator is associative; `and` and `or` are of integers, bool has no other."""
    for site, _, tile in _moves(ctx):
        if isinstance(site.stmt, Atomic):
            op, alloc = site.stmt.op, ctx.allocs.get(tile)
            if not op.is_associative or (alloc and not _combines(op, alloc.dtype)):
                yield Finding(site.path, f"no atomic `{op.value}` of this tile", op.value)


def _combines(op: ReduceOp, dtype: DType) -> bool:
    if op in (ReduceOp.AND, ReduceOp.OR):
        return is_defined(op.value, dtype)
    return dtype is not DType.BOOL


def numbers_fit_their_tile(ctx: Context) -> Iterator[Finding]:
    """The number of a `fill` or of an `else` is a value of the tile's dtype."""
    for site in ctx.sites:
        match site.stmt:
            case Fill(tile, number):
                yield from _number_findings(ctx, site, tile, number.value)
            case Load(tile, otherwise=number):
                yield from _number_findings(ctx, site, tile, number.value)


def _number_findings(ctx: Context, site: Site, tile: str, value: int | float) -> Iterator[Finding]:
    alloc = ctx.allocs.get(tile)
    if alloc and (mistake := number_mistake(value, alloc.dtype)):
        yield Finding(site.path, mistake, tile)


def fragments_are_whole(ctx: Context) -> Iterator[Finding]:
    """A fragment is filled, accumulated by `dot`, used in `ewise` and stored; it is never loaded,
    and never an operand of `dot`."""
    for site in ctx.sites:
        match site.stmt:
            case Load(tile) if _is_fragment(ctx, tile):
                yield Finding(site.path, f"`{tile}` is a fragment and cannot be loaded", tile)
            case Dot(_, a, b):
                for tile in dict.fromkeys((a, b)):
                    if _is_fragment(ctx, tile):
                        yield Finding(site.path, f"operand `{tile}` is a fragment", tile)


def _is_fragment(ctx: Context, tile: str) -> bool:
    return tile in ctx.allocs and ctx.allocs[tile].space is Space.FRAGMENT
