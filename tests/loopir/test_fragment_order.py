"""Slots in fragment order: where each element lies, which accesses can be moved so, and that no
value depends on it."""

from itertools import product

import numpy as np
import pytest

from loopir.fragment_order import position
from loopir.interp import random_inputs, run
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import ElementOrder
from loopir.verifier import violations
from tests.support.interp import same_bits
from tests.support.verifier_cases import LAST_ARRIVER, ORDERED

SHAPES = ((16, 16), (32, 16), (16, 64), (128, 256))


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_the_position_is_that_of_the_axes_of_a_fragment(rows: int, columns: int):
    """n16, half, m16, row, quad, n8, pair: what the emitted text makes by reshape and permute."""
    numbers = np.arange(rows * columns).reshape(rows // 16, 2, 8, columns // 16, 2, 4, 2)
    laid_out = numbers.transpose(3, 1, 0, 2, 5, 4, 6).ravel()
    for place, number in enumerate(laid_out):
        assert position(*divmod(int(number), columns), rows) == place


def test_a_thread_has_four_elements_side_by_side_and_a_warp_512_bytes():
    """Of m16n8 fragments: thread 4 * r + q has columns 2 * q and 2 * q + 1 of row r."""
    for row, quad, half in product(range(8), range(4), range(2)):
        mine = [position(row + 8 * half, 2 * quad + d, 16) for d in (0, 1, 8, 9)]
        start = 128 * half + 4 * (4 * row + quad)
        assert mine == [start, start + 1, start + 2, start + 3]


def test_columns_of_blocks_are_contiguous():
    rows = 64
    for first in (0, 16, 48):
        places = {position(r, c, rows) for r in range(rows) for c in range(first, first + 16)}
        assert places == {*range(first * rows, (first + 16) * rows)}


def test_the_order_is_text_and_no_value_depends_on_it():
    plain, ordered = parse(LAST_ARRIVER), parse(ORDERED)
    assert [w.order for w in ordered.workspaces] == [ElementOrder.FRAGMENTS, ElementOrder.ROWS]
    assert "workspace slots: f32[UNITS, BM, BN] fragment_order\n" in to_text(ordered)
    assert parse(to_text(ordered)) == ordered != plain
    assert violations(ordered) == ()
    found = []
    for program in (plain, ordered):
        arrays = random_inputs(program, 1, integer_valued=False)
        run(program, arrays, seed=2)
        found.append(arrays)
    assert all(same_bits(found[0][name], found[1][name]) for name in found[0])
