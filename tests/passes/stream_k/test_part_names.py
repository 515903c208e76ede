"""The names of what a merge adds, one for each accumulator, however long theirs are."""

import pytest

from loopir.interp import random_inputs, run
from loopir.lexer import MAX_NAME
from loopir.parser import parse
from loopir.rename import fresh_names
from passes.stream_k import Merge, StreamKPass
from tests.support.interp import same_bits

#: as long as a name may be, and alike but for the last letter
LEFT, RIGHT = ("a" * (MAX_NAME - 1) + end for end in "xy")

TWO_SUMS = f"""\
kernel @sums(X: i32[M, K], out L: i32[M], out R: i32[M])
    where M = 12, K = 40, BM = 4, BK = 8, P = max(1, ceildiv(K, BK)) {{
  grid (ti) in [ceildiv(M, BM)] {{
    alloc {LEFT}: register i32[BM]
    alloc {RIGHT}: register i32[BM]
    alloc x: register i32[BM, BK]
    fill {LEFT}, 0
    fill {RIGHT}, 0
    reduce ({LEFT}: add, {RIGHT}: add) {{
      for kp in 0 .. P {{
        load x, X[ti * BM +: BM, kp * BK +: BK] masked
        ewise {LEFT} = {LEFT} + sum(x, 1)
        ewise {RIGHT} = {RIGHT} + sum(x * 3, 1)
      }}
    }}
    store L[ti * BM +: BM], {LEFT} masked
    store R[ti * BM +: BM], {RIGHT} masked
  }}
}}
"""


@pytest.mark.parametrize("merge", [m for m in Merge if m is not Merge.AUTO])
def test_accumulators_whose_names_differ_at_their_end_meet_apart(merge: Merge):
    program = parse(TWO_SUMS)
    arrays = random_inputs(program, 1)
    run(StreamKPass(units=4, merge=merge).apply(program), arrays)
    assert same_bits(arrays["L"], arrays["X"].sum(axis=1, dtype="i4"))
    assert same_bits(arrays["R"], arrays["X"].sum(axis=1, dtype="i4") * 3)


def test_names_made_together_differ_from_each_other_and_from_those_in_use():
    made = fresh_names({"l": LEFT, "r": LEFT, "z": "z"}, {LEFT, "z"})
    assert len({*made.values(), LEFT, "z"}) == 5
    assert max(map(len, made.values())) <= MAX_NAME
