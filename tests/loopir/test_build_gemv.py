"""The nest of GEMV: against numpy, both orientations and layouts."""

import itertools

import pytest

from loopir.build import Epilogue, Layout, gemv_nest
from loopir.printer import to_text
from tests.support import oracles


def _product(x: oracles.Arrays, transposed: bool):
    return (x["A"].T if transposed else x["A"]) @ x["X"]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "dtype", ["f8e4m3", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64"]
)
def test_gemv_is_the_product_in_every_dtype_and_layout(dtype: str, transposed: bool):
    for layout in Layout:
        program = gemv_nest(5, 7, dtype, layout=layout, transposed=transposed)
        assert program.kernels[0].params[0].contiguous == layout.contiguous
        oracles.check(program, lambda x: _product(x, transposed))


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, None], repeat=2)))
@pytest.mark.parametrize("transposed", [False, True])
def test_empty_unit_and_open_sizes(sizes: tuple[int | None, ...], transposed: bool):
    given = {name: 3 for name, size in zip("MN", sizes, strict=True) if size is None}
    program = gemv_nest(*sizes, transposed=transposed)
    oracles.check(program, lambda x: _product(x, transposed), sizes=given)


@pytest.mark.parametrize("transposed", [False, True])
def test_epilogue_takes_the_shape_of_the_output(transposed: bool):
    e = Epilogue(2, -1, "f32", "relu", "f16")
    program = gemv_nest(5, 7, "f16", "bf16", transposed=transposed, epilogue=e)
    oracles.check(program, lambda x: oracles.epilogue(e, _product(x, transposed), x, "Y"))


def test_integers_are_summed_in_i32_at_least():
    assert "out Y: i32" in to_text(gemv_nest(2, 2, "i16"))
    assert "out Y: i64" in to_text(gemv_nest(2, 2, "i64"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"N": "7"}, "N"),
        ({"dtype": "bool"}, "dtype"),
        ({"dtype": "x"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"layout": "x"}, "layout"),
        ({"name": "1"}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        gemv_nest(**({"M": 8, "N": 8} | arguments))
