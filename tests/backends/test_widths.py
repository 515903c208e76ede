"""Index vectors of 32 bits: only where an access computes with them, and where nothing can leave
them."""

import numpy as np
import pytest

from backends.triton_codegen import emit
from backends.triton_codegen.widths import fits_32_bits
from loopir.bounds import Fact
from loopir.build import gemm
from loopir.effects import access_of
from loopir.interp import random_inputs, run
from loopir.intervals import Interval
from loopir.nodes import Access, Program
from loopir.parser import parse
from loopir.walk import walk_program
from tests.support.launches import launched

#: gathers elements that lie `FACTOR` apart, around the end of X
GATHER = """\
kernel @gather(X: f32[R], out Y: f32[N])
    where R = 37, N = {n}, FACTOR = {factor} {{
  grid (t) in [ceildiv(N, 32)] {{
    alloc x: register f32[32]
    load x, X[m * FACTOR % R] over (m = t * 32 +: 32 < N) masked
    store Y[t * 32 +: 32], x masked
  }}
}}
"""
SAFE, UNSAFE = 2**30 // 127, 2**31 // 127 + 1  # the tiles of 100 elements number up to 127


def gather(factor: int, n: int = 100) -> Program:
    return parse(GATHER.format(n=n, factor=factor))


def load(program: Program) -> Access:
    found = (access_of(s) for _, s in walk_program(program))
    return next(a for a in found if a is not None)


def is_narrow(program: Program) -> bool:
    return "tl.cast(32 * t, tl.int32)" in emit(program).source


@pytest.mark.parametrize(("factor", "narrow"), [(3, True), (SAFE, True), (UNSAFE, False)])
def test_elements_are_numbered_in_32_bits_where_no_product_leaves_them(factor: int, narrow: bool):
    assert is_narrow(gather(factor)) is narrow


@pytest.mark.parametrize("factor", [3, SAFE, UNSAFE])
def test_gather_reads_the_elements_that_the_reference_reads(factor: int):
    program = gather(factor)
    arrays = random_inputs(program, 0)
    found = launched(program, arrays)
    run(program, arrays)
    np.testing.assert_array_equal(found["Y"], arrays["Y"])
    np.testing.assert_array_equal(found["Y"], arrays["X"][np.arange(100) * factor % 37])


def test_masked_elements_count_too():
    """Of 97 elements the last tile has 31 that nobody reads, up to number 127."""
    assert is_narrow(gather(SAFE, 97))
    assert not is_narrow(gather(2**30 // 97, 97))


def test_a_size_that_the_launch_knows_is_as_large_as_64_bits():
    text = GATHER.format(n=100, factor=3).replace("N = 100, ", "")
    assert not is_narrow(parse(text))


def test_slices_keep_64_bits():
    assert "tl.int32)" not in emit(gemm(64, 64, 64, tile=(32, 32, 32))).source


@pytest.mark.parametrize(
    ("largest", "fits"), [(2**30 - 31, True), (2**30 - 30, False), (float("inf"), False)]
)
def test_the_first_element_of_a_tile_counts(largest: float, fits: bool):
    text = GATHER.format(n=100, factor=1).replace("t * 32", "s")
    access = load(parse(text.replace("    alloc x", "    let s = t\n    alloc x")))
    known = {"FACTOR": Fact(Interval(1, 1)), "R": Fact(Interval(37, 37))}
    assert fits_32_bits(access, {**known, "s": Fact(Interval(0, largest))}) is fits
