"""What one statement, by itself, reads and writes: the table that legality and dependence questions
are asked of.

Statements nested in it are not looked into; `walk` yields them on their own.
"""

from collections.abc import Iterator

from loopir.nodes import (
    Access,
    AllOf,
    AnyOf,
    Apply,
    Arrive,
    Atomic,
    AxisReduce,
    Cast,
    Cond,
    Dot,
    ElementRead,
    Ewise,
    Ewise_,
    Expand,
    Fill,
    Flag,
    Let,
    Load,
    Mask,
    Negate,
    Part,
    Stmt,
    Store,
    TileRef,
)
from loopir.symbols import names_of
from loopir.walk import symbol_names


def tile_refs(expr: Ewise_) -> Iterator[str]:
    """The tiles an element-wise expression reads, in text order."""
    match expr:
        case TileRef(name):
            yield name
        case Apply(_, args):
            for arg in args:
                yield from tile_refs(arg)
        case Cast(_, arg) | Expand(arg) | AxisReduce(_, arg) | Mask(arg) | Part(arg):
            yield from tile_refs(arg)


def tiles_read(stmt: Stmt) -> frozenset[str]:
    match stmt:
        case Dot(acc, a, b):
            return frozenset((acc, a, b))
        case Ewise(_, expr):
            return frozenset(tile_refs(expr))
        case Store(_, tile) | Atomic(_, _, tile):
            return frozenset((tile,))
    return frozenset()


def tiles_written(stmt: Stmt) -> frozenset[str]:
    """Tiles whose every element the statement sets (a masked load sets all: the rest get its
    `else`)."""
    match stmt:
        case Dot(acc):
            return frozenset((acc,))
        case Ewise(tile) | Fill(tile) | Load(tile):
            return frozenset((tile,))
    return frozenset()


def access_of(stmt: Stmt) -> Access | None:
    """The tile access of a load, a store or an atomic."""
    match stmt:
        case Load(_, access) | Store(access) | Atomic(_, access):
            return access
    return None


def buffers_read(stmt: Stmt) -> frozenset[str]:
    match stmt:
        case Load(_, source):
            return frozenset((source.buffer,))
        case Let(_, ElementRead(buffer)) | Arrive(_, ElementRead(buffer)):
            return frozenset((buffer,))
        case Atomic(_, target):
            return frozenset((target.buffer,))
    return frozenset()


def buffers_written(stmt: Stmt) -> frozenset[str]:
    match stmt:
        case Store(target) | Atomic(_, target):
            return frozenset((target.buffer,))
        case Arrive(_, ElementRead(buffer)):
            return frozenset((buffer,))
    return frozenset()


def has_side_effect(stmt: Stmt) -> bool:
    """Whether another block, or the host, can see that the statement ran."""
    return bool(buffers_written(stmt))


def scalars_read(stmt: Stmt) -> frozenset[str]:
    """The scalars that the index expressions of `stmt` itself read; not the axes of its access."""
    access = access_of(stmt)
    if access is None:
        return symbol_names(stmt)
    inner = frozenset().union(*map(names_of, access.index)) - {a.name for a in access.axes}
    return inner | symbol_names(access.axes)


def flags_of(cond: Cond) -> Iterator[str]:
    """The flags that a condition reads, in text order."""
    match cond:
        case Flag(name):
            yield name
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from flags_of(term)
        case Negate(term):
            yield from flags_of(term)


def condition_of(stmt: Stmt) -> Cond | None:
    """The condition of an `if` or a `while`."""
    return getattr(stmt, "cond", None)
