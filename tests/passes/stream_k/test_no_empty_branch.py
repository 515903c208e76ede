"""A rewrite writes no branch in which nothing happens."""

import pytest

from loopir.nodes import If, Program
from loopir.parser import parse
from loopir.walk import walk_program
from passes.stream_k import Merge, StreamKPass
from tests.support.texts import GEMM
from tests.support.wave_kernels import GEMM_ROWS


def branches(program: Program) -> list[If]:
    return [s for _, s in walk_program(program) if isinstance(s, If)]


@pytest.mark.parametrize("merge", [m for m in Merge if m is not Merge.AUTO])
@pytest.mark.parametrize("text", [GEMM, GEMM_ROWS])
def test_every_branch_has_a_statement(text: str, merge: Merge):
    found = branches(StreamKPass(units=5, merge=merge).apply(parse(text)))
    assert found
    assert all(branch.then for branch in found)
