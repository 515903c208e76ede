"""Arguments of a launch: sizes from shapes, picked units, and what does not fit."""

import numpy as np
import pytest

from loopir.errors import LaunchError
from loopir.interp import STORAGE, random_inputs, run
from loopir.parser import parse
from loopir.types import DType
from tests.support.interp import kernel, one_block, same_bits
from tests.support.texts import GEMM, edited

SYMBOLIC = edited(GEMM, ("M = 96, N = 80, K = 100, ", ""))
PICKED = """\
kernel @k(X: f32[T], out Y: f32[T])
    where BM = 4, TILES = ceildiv(T, BM), LAST = UNITS - 1
    requires at_most(UNITS, TILES) {
  grid1d (unit) in [UNITS] persistent {
    let tile = unit
    while tile < TILES {
      alloc x: register f32[BM]
      load x, X[tile * BM +: BM] masked
      store Y[tile * BM +: BM], x masked
      set tile = tile + UNITS
    }
  }
}
"""


def gemm_arrays(m: int, n: int, k: int) -> dict[str, np.ndarray]:
    return random_inputs(parse(SYMBOLIC), 0, sizes={"M": m, "N": n, "K": k})


@pytest.mark.parametrize("sizes", [(40, 33, 50), (1, 1, 1), (0, 5, 5), (5, 5, 0)])
def test_launch_symbols_come_from_the_shapes(sizes):
    m, n, k = sizes
    a = gemm_arrays(m, n, k)
    result = run(parse(SYMBOLIC), a)
    assert (a["C"] == a["A"].astype(np.float32) @ a["B"].astype(np.float32)).all()
    assert {n: result.values[0][n] for n in "MNK"} == {"M": m, "N": n, "K": k}


def test_a_symbol_that_no_shape_tells_must_be_given():
    body = "grid (t) in [n // 4] {\nalloc x: register f32[4]\nfill x, 1\nstore Y[4 * t +: 4], x\n}"
    program = kernel("out Y: f32[n * 1 + 4 - 4]", body)
    y = np.zeros(8, np.float32)
    run(program, {"Y": y}, {"n": 8})
    assert y.tolist() == [1] * 8


@pytest.mark.parametrize(("given", "units"), [(None, 4), (1, 1), (3, 3), (5, 5), (99, 5)])
def test_a_picked_symbol_is_given_or_four_and_at_most_its_bound(given, units):
    program = parse(PICKED)
    a = random_inputs(program, 1, sizes={"T": 18})
    result = run(program, a, {} if given is None else {"UNITS": given})
    assert result.values[0]["UNITS"] == units
    assert result.values[0]["LAST"] == units - 1
    assert same_bits(a["X"], a["Y"])


def test_no_tiles_pick_no_units():
    program = parse(PICKED)
    result = run(program, random_inputs(program, 2, sizes={"T": 0}))
    assert result.values[0]["UNITS"] == 0


def without(arrays: dict, name: str) -> dict:
    return {n: a for n, a in arrays.items() if n != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: without(a, "B"), "B: no array given"),
        (lambda a: a | {"D": a["C"]}, "D: the program has no such parameter"),
        (lambda a: a | {"A": a["A"].tolist()}, "A: a numpy array, not list"),
        (lambda a: a | {"A": a["A"].astype(np.float32)}, "A: float16 for f16, not float32"),
        (lambda a: a | {"A": a["A"][0]}, "A: 2 dimensions, not 1"),
        (lambda a: a | {"B": a["B"][1:]}, r"B: shape \[K, N\] = \[50, 33\], not \[49, 33\]"),
        (lambda a: a | {"C": np.broadcast_to(a["C"][:1], (40, 33))}, "C: an array that can be"),
    ],
)
def test_an_array_that_does_not_fit_is_named(change, message):
    arrays = gemm_arrays(40, 33, 50)
    run(parse(SYMBOLIC), arrays)
    with pytest.raises(LaunchError, match=message):
        run(parse(SYMBOLIC), change(arrays))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"UNITS": 0}, "UNITS: an int of at least 1, not 0"),
        ({"T": -1}, "T: an int of at least 0, not -1"),
        ({"units": 3}, r"units: no launch symbol; there are \['T', 'UNITS'\]"),
        ({"T": 17}, r"X: shape \[T\] = \[17\], not \[18\]"),
    ],
)
def test_a_size_that_does_not_fit_is_named(sizes, message):
    program = parse(PICKED)
    with pytest.raises(LaunchError, match=message):
        run(program, random_inputs(program, 3, sizes={"T": 18}), sizes)


def test_a_symbol_without_a_value_is_named():
    program = kernel("out Y: f32[4]", "grid (t) in [n] {\nlet r = t\n}")
    with pytest.raises(LaunchError, match=r"n: no value; say sizes=\{'n': ...\}"):
        run(program, {"Y": np.zeros(4, np.float32)})
    with pytest.raises(LaunchError, match="T: no value for the shape of X"):
        random_inputs(parse(PICKED), 0)


def test_a_negative_size_is_named():
    program = parse(edited(PICKED, ("Y: f32[T]", "Y: f32[T - LAST]")))
    arrays = {"X": np.zeros(18, np.float32), "Y": np.zeros(15, np.float32)}
    run(program, arrays, {"UNITS": 4})
    with pytest.raises(LaunchError, match="the shape of Y: T - 19 is -1"):
        run(parse(edited(PICKED, ("Y: f32[T]", "Y: f32[T - 19]"))), arrays)


def test_outputs_have_storage_of_their_own_unless_aliased():
    copy = "alloc x: register f32[4]\nload x, X[0 +: 4]\nstore Y[0 +: 4], x"
    params = "X: f32[4], out Y: f32[4]"
    shared = np.zeros(6, np.float32)
    arrays = {"X": shared[:4], "Y": shared[2:]}
    with pytest.raises(LaunchError, match="Y: memory of its own, not shared with X"):
        run(one_block(params, copy), arrays)
    run(one_block(params, copy, "ONE = 1\nalias(X, Y)"), arrays)


def test_inputs_may_share_storage():
    body = "alloc x: register f32[4]\nload x, X[0 +: 4]\nstore Y[0 +: 4], x"
    x = np.ones(4, np.float32)
    run(one_block("X: f32[4], W: f32[4], out Y: f32[4]", body),
        {"X": x, "W": x, "Y": np.zeros(4, np.float32)})  # fmt: skip


def copied(dtype: str, values: np.ndarray, out: np.ndarray) -> np.ndarray:
    body = f"alloc x: register {dtype}[4]\nload x, X[0 +: 4]\nstore Y[0 +: 4], x"
    run(one_block(f"X: {dtype}[4], out Y: {dtype}[4]", body), {"X": values, "Y": out})
    return out


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("array_type", [np.float32, np.float64])
def test_narrow_floats_are_wider_arrays_of_their_values(dtype, array_type):
    values = np.array([1.5, -0.25, np.nan, 0], array_type)
    found = copied(dtype, values, np.full(4, 0.1, array_type))
    assert same_bits(found, values)
    with pytest.raises(LaunchError, match=rf"X: 3\.\d+ at \[1\] is no {dtype}"):
        copied(dtype, np.array([1, 3.1, 0, 0], array_type), values)


@pytest.mark.parametrize("dtype", list(DType))
def test_a_copy_keeps_every_bit(dtype):
    body = f"alloc x: register {dtype.value}[4]\nload x, X[0 +: 4]\nstore Y[0 +: 4], x"
    program = one_block(f"X: {dtype.value}[4], out Y: {dtype.value}[4]", body)
    a = random_inputs(program, 5, integer_valued=False)
    run(program, a)
    assert same_bits(a["X"], a["Y"])


def test_arrays_may_have_any_memory_layout():
    a = gemm_arrays(40, 33, 50)
    expected = a["A"].astype(np.float32) @ a["B"].astype(np.float32)
    wide = np.zeros((80, 70), np.float32)
    views = {"A": np.asfortranarray(a["A"]), "B": a["B"][::-1][::-1], "C": wide[::2, 1:67:2]}
    run(parse(SYMBOLIC), views)
    assert (views["C"] == expected).all()
    assert not wide[1::2].any()
    assert not wide[:, ::2].any()


# --- random inputs


def test_random_inputs_are_the_same_for_the_same_seed():
    program = parse(GEMM)
    one, again, other = (random_inputs(program, s) for s in (1, 1, 2))
    assert all(np.array_equal(one[n], again[n], equal_nan=True) for n in one)
    assert not np.array_equal(one["A"], other["A"])


def test_random_inputs_have_the_parameters_type_and_contiguous_dimension():
    text = edited(GEMM, ("B: f16[K, N]", "B: f16[K, N] contiguous(0)"))
    a = random_inputs(parse(text), 0)
    assert [a[n].dtype for n in "ABC"] == [np.float16, np.float16, np.float32]
    assert [a[n].strides.index(a[n].itemsize) for n in "ABC"] == [1, 0, 1]
    assert np.isnan(a["C"]).all()


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("integer_valued", [True, False])
def test_random_inputs_are_values_of_the_type(dtype, integer_valued):
    program = one_block(f"X: {dtype.value}[50], out Y: {dtype.value}[50]", "let r = t")
    a = random_inputs(program, 0, integer_valued)
    run(program, a)
    assert a["X"].dtype == STORAGE[dtype]
    assert len(np.unique(a["X"])) > 1
    if integer_valued:
        assert (a["X"] == np.trunc(a["X"].astype(np.float64))).all()
