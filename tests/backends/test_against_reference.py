"""The emitted kernel and the reference interpreter of the IR agree: two readings of one program."""

import pytest

from loopir.build import gemm
from loopir.parser import parse
from passes.pipeline import parse_pipeline
from tests.support import kernels
from tests.support.numerics import check_close
from tests.support.reference import allowed_difference, outputs_of_both


@pytest.mark.parametrize("name", kernels.NAMES)
def test_unforeseen_kernels_agree_on_real_data(name: str):
    for found, expected in outputs_of_both(parse(kernels.text(name)), sizes=kernels.SIZES):
        check_close(found, expected, allowed_difference(found, expected))


@pytest.mark.parametrize("pipeline", ["", "stream-k{units=5}", "tile-order{group=2},stream-k"])
@pytest.mark.parametrize("dtype", ["bf16", "f32", "i8", "f8e4m3"])
def test_products_of_integers_agree_bit_for_bit(dtype: str, pipeline: str):
    program = parse_pipeline(pipeline).run(gemm(40, 50, 70, dtype, tile=(16, 32, 32)))
    for found, expected in outputs_of_both(program, integer_valued=True):
        assert found.equal(expected)
