"""Accesses that lie side by side, as one: what the pieces of a tile store."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations

import sympy

from loopir.deps.digits import Constant
from loopir.nodes import Access, TileAxis
from loopir.symbols import names_of, sym, to_expr


def joined(accesses: Iterable[Access], constant: Constant) -> tuple[Access, ...]:
    """`accesses`, each two that make one rectangle as that one; a dimension of one element is an
    axis, too."""
    return _joined(tuple(dict.fromkeys(map(_over_axes, accesses))), constant)


def _joined(found: tuple[Access, ...], constant: Constant) -> tuple[Access, ...]:
    for a, b in permutations(found, 2):
        both = _both(a, b, constant)
        if both is not None:
            return _joined((*(x for x in found if x not in (a, b)), both), constant)
    return found


def _over_axes(access: Access) -> Access:
    names = {axis.name for axis in access.axes}
    units = {
        d: TileAxis(f"dim {d}", index, to_expr(1))
        for d, index in enumerate(access.index)
        if names_of(index).isdisjoint(names)
    }
    index = (sym(units[d].name) if d in units else e for d, e in enumerate(access.index))
    return replace(access, index=tuple(index), axes=(*access.axes, *units.values()))


def _both(a: Access, b: Access, constant: Constant) -> Access | None:
    """`a` and `b`, which begins where `a` ends along the one axis in which they differ."""
    if (a.buffer, a.index, a.masked) != (b.buffer, b.index, b.masked):
        return None
    pairs = tuple(zip(a.axes, b.axes, strict=True))
    different = [(i, x, y) for i, (x, y) in enumerate(pairs) if x != y]
    if len(different) != 1:
        return None
    ((i, x, y),) = different
    is_behind = constant(sympy.expand(y.start - x.start - x.size)) == 0
    if not is_behind or (x.name, x.limit) != (y.name, y.limit):
        return None
    axis = replace(x, size=x.size + y.size)
    return replace(a, axes=(*a.axes[:i], axis, *a.axes[i + 1 :]))
