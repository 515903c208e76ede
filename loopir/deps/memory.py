"""Dependences through parameters and workspaces, where two accesses of one buffer, or of buffers
that may share storage, can touch one element."""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple, TypeAlias

import sympy

from loopir.deps.accesses import Scope, Use, alias_classes, uses
from loopir.deps.digits import ANY
from loopir.deps.edges import Edge, Kind
from loopir.deps.telling import untold
from loopir.nodes import Access, For, GridAxis, Kernel, Stmt, TileAxis, While
from loopir.symbols import Expr, names_of, sym, to_expr
from loopir.walk import Path, Placed, grid_axes, substitute_node


def memory_edges(kernel: Kernel) -> Iterator[Edge]:
    """The dependences of a kernel through memory; `barrier` and `arrive` break none of them."""
    scope, classes = Scope(kernel), alias_classes(kernel)
    groups: dict[frozenset[str], list[Use]] = {}
    for use in uses(kernel.body, ("body",), ()):
        groups.setdefault(classes.get(use.buffer, frozenset((use.buffer,))), []).append(use)
    for shared in groups.values():
        if any(use.writes for use in shared):
            yield from _edges_among([scope.resolved(use) for use in shared], scope)


def _edges_among(shared: list[Use], scope: Scope) -> Iterator[Edge]:
    for i, a in enumerate(shared):
        if a.writes:
            yield from _own_edges(a, scope)
        for b in shared[i + 1 :]:
            if a.writes or b.writes:
                yield from _pair_edges(a, b, scope)


def _own_edges(a: Use, scope: Scope) -> Iterator[Edge]:
    """Of a statement that touches an element twice: in one run of it, or in two iterations."""
    lost = _untold(a.access, a.loops, scope)
    axes = tuple(x.name for x in a.access.axes if x.name in lost)
    if axes:
        yield from _kinds(a, a, None, axes)
    for path, loop in a.loops:
        names = tuple(v.iv for v in _variables(loop, scope) if v.iv in lost)
        if names or isinstance(loop, While):
            yield from _kinds(a, a, path, names)


def _pair_edges(a: Use, b: Use, scope: Scope) -> Iterator[Edge]:
    """Of two statements, `a` first in the text: in one iteration of what is around both, or in two
    of them, either of which may come first."""
    if _are_apart(a, b, scope, scope.moving):
        return
    if not (_are_exclusive(a.path, b.path) or _are_apart(a, b, scope, scope.changing)):
        yield from _kinds(a, b, None)
    loops = _common_loops(a, b)
    lost = _untold(_common_part(a, b, scope), loops, scope)
    for path, loop in loops:
        if isinstance(loop, While) or any(v.iv in lost for v in _variables(loop, scope)):
            yield from (*_kinds(a, b, path), *_kinds(b, a, path))


def _untold(access: Access, loops: tuple[Placed, ...], scope: Scope) -> frozenset[str]:
    variables = (v for _, loop in loops for v in _variables(loop, scope))
    spelled = tuple(substitute_node(v, scope.spelled) for v in variables)
    access = substitute_node(_from_zero(access, loops, scope), scope.spelled)
    return frozenset(untold(access, spelled, scope.constant, scope.moving))


def _from_zero(access: Access, loops: tuple[Placed, ...], scope: Scope) -> Access:
    """`access` with the variables of loops counted from where the loops start."""
    fixed = (x for _, x in loops if isinstance(x, For) and not names_of(x.lo) & scope.moving)
    starts = {loop.iv: sym(loop.iv) + loop.lo for loop in fixed}
    return substitute_node(access, starts)


def _kinds(a: Use, b: Use, loop: Path | None, lost: tuple[str, ...] = ()) -> Iterator[Edge]:
    asked = (
        (Kind.RAW, a.writes and b.reads),
        (Kind.WAR, a.reads and b.writes),
        (Kind.WAW, a.writes and b.writes),
    )
    for kind, holds in asked:
        if holds:
            yield Edge(a.path, b.path, kind, a.buffer, loop, in_memory=True, untold=lost)


def _variables(loop: Stmt, scope: Scope) -> tuple[GridAxis, ...]:
    """The variables of a grid or a loop, each with the most values that it can have. One that
    starts elsewhere in every iteration of what is around can be any number."""
    if not isinstance(loop, For):
        return grid_axes(loop)
    starts_alike = not names_of(loop.lo) & scope.moving
    return (GridAxis(loop.iv, loop.hi - loop.lo if starts_alike else ANY),)


def _common_loops(a: Use, b: Use) -> tuple[Placed, ...]:
    pairs = zip(a.loops, b.loops, strict=False)
    return tuple(x for x, _ in takewhile(lambda pair: pair[0][0] == pair[1][0], pairs))


def _common_part(a: Use, b: Use, scope: Scope) -> Access:
    """The dimensions that both index alike, with the tile axes in them; and those in which their
    elements start a constant distance apart, as an axis that has both in it."""
    if a.buffer != b.buffer:
        return Access(a.buffer, (), ())
    pairs = tuple(zip(a.access.index, b.access.index, strict=True))
    alike = tuple(x for x, y in pairs if x == y and _axes_in(x, a) == _axes_in(y, b))
    used = frozenset().union(*map(names_of, alike))
    axes = tuple(x for x in a.access.axes if x.name in used)
    masked = a.access.masked and b.access.masked and set(axes) <= set(b.access.axes)
    hulls = tuple(
        hull
        for d, (x, y) in enumerate(pairs)
        if x not in alike and (hull := _hull(f"dim {d}", _span(x, a), _span(y, b), scope))
    )
    index = (*alike, *(sym(hull.name) for hull in hulls))
    return Access(a.buffer, index, (*axes, *hulls), masked)


def _axes_in(index: Expr, use: Use) -> list[tuple[str, Expr, Expr]]:
    used = names_of(index)
    return [(x.name, x.start, x.size) for x in use.access.axes if x.name in used]


def _are_exclusive(a: Path, b: Path) -> bool:
    """Whether the paths lead into the two branches of one `if`."""
    split = next((pair for pair in zip(a, b, strict=False) if pair[0] != pair[1]), None)
    return split in (("then", "orelse"), ("orelse", "then"))


def _are_apart(a: Use, b: Use, scope: Scope, unsteady: frozenset[str]) -> bool:
    """Whether in some dimension the elements of both lie a constant distance apart. `unsteady`:
    names that may stand for two values."""
    if a.buffer != b.buffer:
        return False
    spans = [[_span(index, use) for index in use.access.index] for use in (a, b)]
    return any(_spans_are_apart(x, y, scope, unsteady) for x, y in zip(*spans, strict=True))


_Span: TypeAlias = tuple[Expr, Expr] | None


def _span(index: Expr, use: Use) -> _Span:
    """Where the elements of a dimension start, and how many there are; None if they have gaps."""
    axis = next((x for x in use.access.axes if sym(x.name) == index), None)
    if axis is not None:
        return axis.start, axis.size
    is_scalar = names_of(index).isdisjoint(x.name for x in use.access.axes)
    return (index, sympy.Integer(1)) if is_scalar else None


def _spans_are_apart(a: _Span, b: _Span, scope: Scope, unsteady: frozenset[str]) -> bool:
    place = _placed(a, b, scope, unsteady)
    return place is not None and (place.distance >= place.size or -place.distance >= place.other)


def _hull(name: str, a: _Span, b: _Span, scope: Scope) -> TileAxis | None:
    """An axis with the elements of both."""
    place = _placed(a, b, scope, scope.changing)
    if a is None or b is None or place is None:
        return None
    first, last = min(0, place.distance), max(place.size, place.distance + place.other)
    return TileAxis(name, a[0] if first == 0 else b[0], to_expr(last - first))


class _Place(NamedTuple):
    """How many elements there are, how many others, and how far behind them these start."""

    size: int
    other: int
    distance: int


def _placed(a: _Span, b: _Span, scope: Scope, unsteady: frozenset[str]) -> _Place | None:
    """None if it is not the same in every launch and iteration."""
    if a is None or b is None or (names_of(a[0]) | names_of(b[0])) & unsteady:
        return None
    numbers = map(scope.constant, (a[1], b[1], sympy.expand(b[0] - a[0])))
    known = [n for n in numbers if n is not None]
    return _Place(*known) if len(known) == 3 else None
