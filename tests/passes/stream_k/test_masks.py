"""Masked contributions under stream-k: a segment masks by the panels of the whole tile."""

from dataclasses import replace

import pytest

from loopir.interp import random_inputs, run
from loopir.nodes import Ewise, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import sym
from loopir.verifier import violations
from loopir.walk import map_bodies, substitute_node
from passes.stream_k import Merge, StreamKPass
from tests.support.differential import difference
from tests.support.nests import MASKED_ROWS
from tests.support.texts import edited

UNITS = (1, 2, 3, 5, 7, 9)


def split(text: str, units: int) -> Program:
    made = StreamKPass(units=units, merge=Merge.ATOMIC)
    verdict = made.can_be_applied(parse(text))
    assert verdict, verdict.explain()
    return made.apply(parse(text))


@pytest.mark.parametrize("units", UNITS)
def test_split_sums_of_masked_contributions_have_the_same_bits(units: int):
    after = split(MASKED_ROWS, units)
    assert violations(after) == ()
    assert "mask(x + 1, 1, kp * BK, K, 0)" in to_text(after)
    assert difference(parse(MASKED_ROWS), after, {}, seed=units, schedules=2) == ""


def counted_from_the_segment(program: Program) -> Program:
    """A wrong rewrite: masks count panels from the first one of the unit's share."""

    def changed(stmt):
        if isinstance(stmt, Ewise):
            return substitute_node(stmt, {"kp": sym("kp") - sym("k0")})
        return map_bodies(stmt, lambda body: tuple(map(changed, body)))

    (kernel,) = program.kernels
    return replace(program, kernels=(replace(kernel, body=tuple(map(changed, kernel.body))),))


def test_a_mask_that_counts_from_the_segment_is_noticed():
    wrong = counted_from_the_segment(split(MASKED_ROWS, 5))
    assert violations(wrong) == ()
    assert "differ" in difference(parse(MASKED_ROWS), wrong, {}, seed=1)


@pytest.mark.parametrize("name", ["k0", "k1", "it", "it_end", "tile", "unit", "TOTAL", "TILES"])
def test_names_that_only_a_mask_uses_are_not_taken(name: str):
    text = edited(MASKED_ROWS, ("kp * BK, K, 0", f"kp * BK - {name}, K, 0"))
    after, sizes = split(text, 5), {name: 3}
    assert f"mask(x + 1, 1, kp * BK - {name}, K, 0)" in to_text(after)
    assert difference(parse(text), after, sizes, seed=2) == ""
    arrays = random_inputs(parse(text), 2, sizes=sizes)
    run(after, arrays, sizes)
    assert (arrays["Y"] == (arrays["X"] + 1).sum(1) + 2).all()


#: the masks' limit is read in each panel from a table
TABLE = edited(
    MASKED_ROWS,
    ("X: f32[M, K],", "X: f32[M, K], ends: i32[P],"),
    ("        ewise acc", "        let end = ends[kp]\n        ewise acc"),
    ("kp * BK, K, 0", "kp * BK, end, 0"),
)


def test_a_limit_read_in_each_panel_is_kept_with_it():
    assert difference(parse(TABLE), split(TABLE, 4), {}, seed=3) == ""


def test_a_limit_that_depends_on_an_accumulator_breaks_the_reduce():
    text = edited(
        TABLE,
        ("ends: i32[P]", "inout ends: i32[P]"),
        (
            "reduce (acc: add)",
            "alloc run: register i32[1]\n    fill run, 0\n    reduce (acc: add, run: scan)",
        ),
        (
            "        let end",
            "        ewise run = run + 1\n        store ends[kp +: 1], run\n        let end",
        ),
    )
    assert {v.rule for v in violations(parse(text))} == {"V39"}
    fine = edited(text, ("kp * BK, end, 0", "kp * BK, K, 0"))
    assert violations(parse(fine)) == ()
