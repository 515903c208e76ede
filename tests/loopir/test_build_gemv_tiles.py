"""The canonical GEMV: against numpy, for rows and columns, layouts and types."""

import itertools

import pytest

from loopir.build import Epilogue, Layout, gemv
from loopir.printer import to_text
from tests.support import oracles

pytestmark = pytest.mark.sampled

#: shapes, each with a tile whose edges it does not fill
CASES = [
    ((1, 21, 35), (1, 8, 16)),
    ((3, 21, 35), (4, 8, 16)),
    ((7, 21, 35), (2, 8, 16)),
    ((21, 1, 35), (8, 1, 16)),
    ((21, 5, 35), (8, 4, 16)),
    ((1, 1, 5), (1, 1, 8)),
]

each = pytest.mark.parametrize(("shape", "tile"), CASES)
sums = pytest.mark.parametrize("panel_sums", [False, True])


@sums
@each
def test_gemv_is_the_product_in_every_layout(shape: tuple, tile: tuple, panel_sums: bool):
    for layouts in itertools.product(Layout, Layout):
        program = gemv(*shape, "bf16", None, tile, *layouts, panel_sums=panel_sums)
        assert [p.contiguous for p in program.kernels[0].params[:2]] == [
            layout.contiguous for layout in layouts
        ]
        oracles.check(program, lambda x: x["A"] @ x["B"])


@sums
@each
def test_epilogue_follows_the_sum_of_each_vector(shape: tuple, tile: tuple, panel_sums: bool):
    e = Epilogue(2, -1, "f32", "relu", "f16")
    program = gemv(*shape, "f16", "bf16", tile, epilogue=e, panel_sums=panel_sums)
    oracles.check(program, lambda x: oracles.epilogue(e, x["A"] @ x["B"], x, "C"))


@pytest.mark.parametrize("dtype", ["f8e4m3", "f16", "f32", "f64", "i8", "i16", "i64"])
def test_every_dtype_is_summed_as_wide_as_it_must(dtype: str):
    program = gemv(2, 9, 20, dtype, tile=(2, 4, 8))
    oracles.check(program, lambda x: x["A"] @ x["B"])


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, None], repeat=3)))
def test_empty_unit_and_open_sizes(sizes: tuple[int | None, ...]):
    given = {name: 3 for name, size in zip("MNK", sizes, strict=True) if size is None}
    program = gemv(*sizes, tile=(2, 4, 8))
    oracles.check(program, lambda x: x["A"] @ x["B"], sizes=given)


def test_an_accumulator_is_summed_once_behind_the_panels_or_a_panel_at_a_time():
    once, each_panel = (to_text(gemv(1, 64, 64, tile=(1, 8, 16), panel_sums=p)) for p in (0, 1))
    assert "alloc acc: register f32[BN, BK]" in once
    assert "ewise total = sum(acc, 1)" in once
    assert "alloc acc: register f32[BN]" in each_panel
    assert "acc + sum(cast(f32, b) * expand(cast(f32, a), 0), 1)" in each_panel


def test_the_matrix_is_loaded_once_for_all_vectors():
    text = to_text(gemv(4, 64, 64, tile=(4, 8, 16)))
    assert text.count("coop_load b, ") == 1
    assert text.count("coop_load a") == 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"dtype": "bool"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"a_layout": "x"}, "a_layout"),
        ({"b_layout": "x"}, "b_layout"),
        ({"tile": (1, 8)}, "tile"),
        ({"tile": (1, (8, 8), 16)}, "tile"),
        ({"tile": (32, 32, 16)}, "tile"),
        ({"name": "1"}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        gemv(**({"M": 1, "N": 8, "K": 8} | arguments))
