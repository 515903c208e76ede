"""How much the interpreter has to do, counted before it does it."""

import pytest

from loopir.interp import random_inputs
from loopir.interp.work import STATEMENT, work
from loopir.parser import parse
from passes.pipeline import parse_pipeline
from tests.support import kernels
from tests.support.interp import kernel
from tests.support.texts import GEMM

MANY = 2**62


def counted(program, most: int = MANY) -> int:
    return work(program, random_inputs(program, 0), {}, most)


def test_the_work_of_a_product_is_its_multiply_adds_its_tiles_and_its_statements():
    tiles, panels = 9, 7
    panel = 32 * 32 * 16 + 2 * 32 * 16
    statements = tiles * (3 + 1 + panels * 5 + 1)
    elements = tiles * (32 * 32 + panels * panel + 32 * 32)
    assert counted(parse(GEMM)) == elements + statements * STATEMENT


def test_the_loops_of_a_persistent_kernel_are_followed():
    program = parse(GEMM)
    split = parse_pipeline("stream-k{units=9}").run(program)
    assert 1 < counted(split) / counted(program) < 1.4


def test_the_count_stops_soon_after_the_bound():
    assert 10**6 < counted(parse(GEMM), 10**6) < 10**6 + 2 * STATEMENT


@pytest.mark.parametrize("name", ["GATHER", "FLOOR", "CONV", "FUNCTIONS"])
def test_any_kernel_is_counted(name):
    assert counted(parse(kernels.text(name))) > 0


def test_a_loop_that_does_nothing_counts():
    text = "grid (t) in [1] {\nlet i = 0\nwhile i < 1 {\nset i = 0 * i\n}\n}"
    assert counted(kernel("", text), 10**7) > 10**7


def test_what_the_run_would_refuse_ends_the_count():
    text = "grid (t) in [1] {\nlet d = X[t]\nlet q = 4 // d\n}"
    assert counted(kernel("X: i32[4]", text)) == 2 * STATEMENT
