"""The decoding of tile numbers, exhaustively for small grids."""

from itertools import product
from math import prod

import pytest

from loopir.nodes import GridAxis, TileOrder
from loopir.rename import fresh_name
from loopir.symbols import evaluate, sym, to_expr
from loopir.tile_order import decode
from loopir.types import OrderKind

EXTENTS = [
    *product(range(1, 7)),
    *product(range(1, 7), repeat=2),
    *product((1, 2, 3), (1, 2, 4), (1, 3, 5)),
    (2, 3, 4, 3),
]
ORDERS = [TileOrder(), TileOrder(OrderKind.ALONG_M)]
ORDERS += [TileOrder(OrderKind.GROUPED, g) for g in (1, 2, 3, 4, 8)]


def order_id(order: TileOrder) -> str:
    return f"{order.kind.value}-{order.group}"


def decoded(extents: tuple[int, ...], order: TileOrder) -> list[tuple[int, ...]]:
    """The tile of every number, by running the lets."""
    axes = tuple(GridAxis(f"x{i}", to_expr(n)) for i, n in enumerate(extents))
    lets = decode(axes, order, sym("t"))
    tiles = []
    for t in range(prod(extents)):
        env = {"t": t}
        for let in lets:
            env[let.name] = evaluate(let.expr, env)
        tiles.append(tuple(env[axis.iv] for axis in axes))
    return tiles


def plain(extents: tuple[int, ...], order: TileOrder) -> list[tuple[int, ...]]:
    """The same by loops: outer axes first, then bands of rows, each walked column by column."""
    *outer, rows, cols = (1, *extents) if len(extents) == 1 else extents
    height = {OrderKind.ALONG_N: 1, OrderKind.ALONG_M: rows, OrderKind.GROUPED: order.group}
    size = height[order.kind]
    tiles = []
    for before in product(*map(range, outer)):
        for first in range(0, rows, size):
            for col in range(cols):
                for row in range(first, min(first + size, rows)):
                    tiles.append((*before, row, col)[-len(extents) :])
    return tiles


@pytest.mark.parametrize("order", ORDERS, ids=order_id)
def test_every_tile_has_one_number_and_the_order_is_that_of_the_plain_loops(order):
    for extents in EXTENTS:
        found = decoded(extents, order)
        assert sorted(found) == list(product(*map(range, extents)))
        assert found == plain(extents, order)


def test_by_default_the_last_axis_is_the_fastest():
    for extents in EXTENTS:
        assert decoded(extents, TileOrder()) == list(product(*map(range, extents)))


def test_a_group_of_one_row_is_row_major_and_a_group_of_all_rows_column_major():
    for extents in EXTENTS:
        along_n, along_m = (decoded(extents, order) for order in ORDERS[:2])
        assert decoded(extents, TileOrder(OrderKind.GROUPED, 1)) == along_n
        assert decoded(extents, TileOrder(OrderKind.GROUPED, 8)) == along_m


def test_control_orders_differ():
    assert len({tuple(decoded((6, 4), order)) for order in ORDERS[:5]}) == 4


def test_helper_lets_avoid_names_that_are_taken():
    axes = (GridAxis("ti", sym("TM")), GridAxis("tj", sym("TN")))
    taken = {"group_rows", "in_group", "in_group_1"}
    lets = decode(axes, TileOrder(OrderKind.GROUPED, 8), sym("tile"), taken)
    assert [let.name for let in lets] == ["group_start", "group_rows_1", "in_group_2", "ti", "tj"]


def test_a_fresh_name_is_the_wanted_one_if_it_can_be():
    assert fresh_name("x", ()) == "x"
    assert fresh_name("x", {"x", "x_1", "x_3"}) == "x_2"


@pytest.mark.parametrize("length", [1, 119, 120, 121, 127, 128])
def test_a_fresh_name_is_new_and_no_longer_than_a_name_may_be(length: int):
    name, taken = "k" * length, set[str]()
    for _ in range(12):
        fresh = fresh_name(name, taken)
        assert fresh not in taken
        assert len(fresh) <= 128
        taken.add(fresh)
    assert len(fresh_name(name + "_part", taken)) <= 128
