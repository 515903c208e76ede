"""Is a writeback injective over the grid: do no two (tile, element) pairs write one element of the
buffer?"""

from collections.abc import Callable, Iterator

import sympy

from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, floordiv, mod, operands, sym


def unproven_axes(
    access: Access, axes: tuple[GridAxis, ...], constant: Callable[[Expr], int | None]
) -> Iterator[str]:
    """Names of the grid and tile axes whose value cannot be told from the element written; none
    means injective.

    A tile axis is told by an index `axis`, or by the pair `axis // w`, `axis % w` (each told in
    turn). A grid axis is told by an index that is the axis itself, or by a told tile axis that
    starts at axis * s with size <= s. A grid axis of extent one needs no telling. `constant` gives
    compile-time values.
    """
    told = {e for index in access.index for e in _shifts(_flat(index))}
    tile_axes = [a for a in access.axes if not _is_told(sym(a.name), told)]
    yield from (a.name for a in tile_axes if constant(a.size) != 1)
    solid = [a for a in access.axes if a not in tile_axes]
    for grid_axis in axes:
        if constant(grid_axis.extent) == 1 or _is_told(sym(grid_axis.iv), told):
            continue
        if not any(_starts_apart(a, grid_axis.iv, constant) for a in solid):
            yield grid_axis.iv


def _shifts(index: Expr) -> Iterator[Expr]:
    """`index`, and `index` less its constant: a shift tells as much."""
    yield index
    constant, rest = index.as_coeff_Add()
    if constant != 0:
        yield rest


def _is_told(value: Expr, told: set[Expr], depth: int = 4) -> bool:
    if value in told:
        return True
    if depth == 0:
        return False
    widths = {operands(e)[1] for t in told for e in t.atoms(FloorDiv, Mod)}
    for width in widths:
        high, low = _flat(floordiv(value, width)), mod(value, width)
        if low in told and _is_told(high, told, depth - 1):
            return True
    return False


def _flat(expr: Expr) -> Expr:
    """(a // b) // c as a // (b * c), so that both spellings are one expression."""
    if not expr.args:
        return expr
    expr = expr.func(*map(_flat, operands(expr)))
    if not isinstance(expr, FloorDiv):
        return expr
    numerator, outer = operands(expr)
    if not isinstance(numerator, FloorDiv):
        return expr
    value, inner = operands(numerator)
    return floordiv(value, inner * outer)


def _starts_apart(axis: TileAxis, iv: str, constant: Callable[[Expr], int | None]) -> bool:
    """Whether tiles of neighbouring `iv` are at least a tile apart along `axis`, and nothing else
    moves its start."""
    start = sympy.expand(axis.start)
    distance = start.coeff(sym(iv))
    if constant(sympy.expand(start - distance * sym(iv))) is None:
        return False
    if distance == axis.size:
        return True
    apart, size = constant(distance), constant(axis.size)
    return apart is not None and size is not None and apart >= size
