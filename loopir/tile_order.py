"""Which output tile a linear tile number names: the one place where a grid's order is expanded."""

from collections.abc import Collection

import sympy

from loopir.nodes import GridAxis, Let, TileOrder
from loopir.rename import fresh_name
from loopir.symbols import Expr, floordiv, imin, mod, sym
from loopir.types import OrderKind


def decode(
    axes: tuple[GridAxis, ...], order: TileOrder, linear: Expr, taken: Collection[str] = ()
) -> tuple[Let, ...]:
    """The lets that give every axis variable its value from the tile number `linear`, 0 <= linear <
    product of extents.

    The last two axes follow `order`, axes before them are slower (row-major). `taken`: names that
    helper lets of grouped order must avoid. An extent of 0 counts as 1: no tile is decoded then,
    and a division by 0 has no text.
    """
    axes = tuple(GridAxis(a.iv, a.extent if a.extent != 0 else sympy.Integer(1)) for a in axes)
    if len(axes) == 1:
        return (Let(axes[0].iv, linear),)
    *outer, rows, cols = axes
    plane = rows.extent * cols.extent
    lets, inner = [], mod(linear, plane) if outer else linear
    slower: Expr = sympy.Integer(1) * plane
    for axis in reversed(outer):
        value = floordiv(linear, slower)
        lets.append(Let(axis.iv, value if axis is outer[0] else mod(value, axis.extent)))
        slower = slower * axis.extent
    return (*reversed(lets), *_decode_plane(rows, cols, order, inner, taken))


def _decode_plane(
    rows: GridAxis, cols: GridAxis, order: TileOrder, t: Expr, taken: Collection[str]
) -> tuple[Let, ...]:
    if order.kind is OrderKind.ALONG_N:
        return Let(rows.iv, floordiv(t, cols.extent)), Let(cols.iv, mod(t, cols.extent))
    if order.kind is OrderKind.ALONG_M:
        return Let(rows.iv, mod(t, rows.extent)), Let(cols.iv, floordiv(t, rows.extent))
    first, height, rest = (fresh_name(n, taken) for n in ("group_start", "group_rows", "in_group"))
    band = order.group * cols.extent
    return (
        Let(first, floordiv(t, band) * order.group),
        Let(height, imin(rows.extent - sym(first), order.group)),
        Let(rest, mod(t, band)),
        Let(rows.iv, sym(first) + mod(sym(rest), sym(height))),
        Let(cols.iv, floordiv(sym(rest), sym(height))),
    )
