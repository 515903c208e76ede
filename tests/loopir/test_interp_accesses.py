"""Which elements an access moves: masks, limits, padding, general index expressions."""

import numpy as np
import pytest

from loopir.interp import OutOfBoundsError, RaceError, random_inputs, run
from tests.support.interp import kernel, one_block

CONV = """
  grid (tm) in [ceildiv(L, BM)] {
    alloc x: shared f32[BM, KW]
    alloc w: shared f32[KW]
    alloc y: register f32[BM]
    load x, X[m * 2 + r - 2] over (m = tm * BM +: BM < L, r = 0 +: KW < KW) masked
    load w, Wt[0 +: KW]
    ewise y = sum(x * expand(w, 0), 1)
    store Y[tm * BM +: BM], y masked
  }"""


def test_a_convolution_pads_on_both_sides():
    where = "n = 19, L = 10, KW = 5, BM = 4"
    program = kernel("X: f32[n], Wt: f32[KW], out Y: f32[L]", CONV, where)
    a = random_inputs(program, 0)
    run(program, a)
    padded = np.concatenate([[0, 0], a["X"], [0, 0, 0, 0]])
    expected = [(padded[2 * m : 2 * m + 5] * a["Wt"]).sum() for m in range(10)]
    assert a["Y"].tolist() == expected


def loaded(access: str, shape: tuple[int, int], extra: str = "") -> np.ndarray:
    """The 4 x 4 tile that `access` loads from X of `shape`, whose elements are 1, 2, ..."""
    body = f"""
        alloc x: register f32[4, 4]
        load x, X{access} {extra}
        store Y[0 +: 4, 0 +: 4], x"""
    program = one_block(f"X: f32[{shape[0]}, {shape[1]}], out Y: f32[4, 4]", body)
    x = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    y = np.zeros((4, 4), np.float32)
    run(program, {"X": x, "Y": y})
    return y


X56 = np.arange(1, 31, dtype=np.float32).reshape(5, 6)


def test_a_slice_loads_its_rectangle():
    assert (loaded("[1 +: 4, 2 +: 4]", (5, 6)) == X56[1:5, 2:6]).all()


@pytest.mark.parametrize(("row", "col"), [(3, 4), (-2, 0), (0, -1), (-1, 4), (5, 0), (-4, 0)])
@pytest.mark.parametrize("otherwise", ["", "else -1.5"])
def test_a_masked_slice_fills_what_lies_outside(row, col, otherwise):
    fill = -1.5 if otherwise else 0
    padded = np.pad(X56, 4, constant_values=fill)
    padded = np.pad(padded, 4, constant_values=fill)
    found = loaded(f"[{row} +: 4, {col} +: 4]", (5, 6), f"masked {otherwise}")
    assert (found == padded[row + 8 : row + 12, col + 8 : col + 12]).all()


def test_a_limit_masks_below_the_extent():
    text = "[m, n] over (m = 0 +: 4 < 3, n = 1 +: 4 < 3)"
    expected = np.zeros((4, 4))
    expected[:3, :2] = X56[:3, 1:3]
    assert (loaded(text, (5, 6), "masked") == expected).all()


def test_a_limit_and_padding_meet_in_a_general_access():
    text = "[m - 1, m + n - 2] over (m = 0 +: 4 < 3, n = 0 +: 4)"
    found = loaded(text, (5, 6), "masked")
    for m in range(4):
        for n in range(4):
            i, j = m - 1, m + n - 2
            takes_part = m < 3 and 0 <= i < 5 and 0 <= j < 6
            assert found[m, n] == (X56[i, j] if takes_part else 0)


def test_indices_can_be_transposed():
    assert (loaded("[n, m] over (m = 0 +: 4, n = 1 +: 4)", (5, 6)) == X56[1:5, 0:4].T).all()


def test_an_index_can_repeat_elements_and_divide():
    found = loaded("[m // 2, n % 2 + m] over (m = 0 +: 4, n = 0 +: 4)", (5, 6))
    m, n = np.arange(4)[:, None], np.arange(4)
    assert (found == X56[m // 2, n % 2 + m]).all()


def test_min_max_and_ceildiv_are_elementwise_in_an_index():
    text = "[min(m, 2), max(n, 1) + ceildiv(m, 2)] over (m = 0 +: 4, n = 0 +: 4)"
    m, n = np.arange(4)[:, None], np.arange(4)
    expected = X56[np.minimum(m, 2), np.maximum(n, 1) + -(-m // 2)]
    assert (loaded(text, (5, 6)) == expected).all()


@pytest.mark.parametrize("row", [-1, 7, 0])
def test_a_masked_scalar_index_outside_masks_everything(row):
    body = f"""
        alloc x: register f32[4]
        load x, X[{row}, 0 +: 4] masked else 9
        store Y[0 +: 4], x"""
    program = one_block("X: f32[3, 4], out Y: f32[4]", body)
    a = random_inputs(program, 1)
    run(program, a)
    assert (a["Y"] == (a["X"][0] if row == 0 else 9)).all()


def test_a_masked_store_leaves_the_rest_alone():
    body = """
        alloc x: register f32[4, 4]
        fill x, 1
        store Y[3 +: 4, -2 +: 4], x masked"""
    program = one_block("inout Y: f32[5, 6]", body)
    y = np.full((5, 6), 8, np.float32)
    run(program, {"Y": y})
    expected = np.full((5, 6), 8)
    expected[3:, :2] = 1
    assert (y == expected).all()


def test_a_buffer_of_no_elements_masks_everything():
    body = """
        alloc x: register f32[4]
        load x, X[0 +: 4] masked else 3
        store Y[0 +: 4], x"""
    y = np.zeros(4, np.float32)
    run(one_block("X: f32[0], out Y: f32[4]", body), {"X": np.zeros(0, np.float32), "Y": y})
    assert (y == 3).all()


# --- outside, without a mask


@pytest.mark.parametrize(
    ("access", "element"),
    [
        ("[2 +: 4, 0 +: 4]", "X[5, 0]"),
        ("[-1 +: 4, 0 +: 4]", "X[-1, 0]"),
        ("[0 +: 4, 3 +: 4]", "X[0, 6]"),
        ("[m, m + n - 1] over (m = 0 +: 4, n = 0 +: 4)", "X[0, -1]"),
    ],
)
def test_an_access_without_a_mask_must_stay_inside(access, element):
    with pytest.raises(OutOfBoundsError) as error:
        loaded(access, (5, 6))
    text = str(error.value)
    assert f"{element} of X[5, 6]" in text
    assert "load x, X[" in text
    assert "^" in text
    loaded(access, (5, 6), "masked")


def test_a_store_outside_is_an_error_too():
    body = "alloc x: register f32[4]\nfill x, 1\nstore Y[2 +: 4], x"
    with pytest.raises(OutOfBoundsError, match=r"Y\[5\] of Y\[5\]"):
        run(one_block("out Y: f32[5]", body), {"Y": np.zeros(5, np.float32)})


@pytest.mark.parametrize(("index", "fits"), [(-1, False), (0, True), (4, True), (5, False)])
def test_an_element_read_must_stay_inside(index, fits):
    body = f"""
        let u = table[t + {index}]
        alloc x: register f32[1]
        fill x, 1
        store Y[u * 0 +: 1], x"""
    program = one_block("table: i32[5], out Y: f32[1]", body)
    arrays = random_inputs(program, 2)
    if fits:
        run(program, arrays)
        return
    with pytest.raises(OutOfBoundsError, match=rf"table\[{index}\] of table\[5\]"):
        run(program, arrays)


def test_an_index_beyond_64_bits_is_an_error():
    body = f"""
        let r = t + {2**62}
        alloc x: register f32[4]
        load x, X[m * r * r] over (m = 0 +: 4) masked
        store Y[0 +: 4], x"""
    program = one_block("X: f32[4], out Y: f32[4]", body)
    with pytest.raises(OutOfBoundsError, match="beyond 64 bits"):
        run(program, random_inputs(program, 0))


# --- elements that occur twice


def stored_twice(value: str) -> np.ndarray:
    body = f"""
        alloc x: register f32[4]
        load x, X[0 +: 4]
        ewise x = {value}
        store Y[m // 2] over (m = 0 +: 4), x"""
    y = np.zeros(2, np.float32)
    x = np.arange(4, dtype=np.float32)
    run(one_block("X: f32[4], out Y: f32[2]", body), {"X": x, "Y": y})
    return y


def test_one_store_of_two_values_to_one_element_is_a_race():
    with pytest.raises(RaceError, match=r"writes Y\[0\] twice"):
        stored_twice("x")
    assert stored_twice("x * 0 + 3").tolist() == [3, 3]


@pytest.mark.parametrize(
    ("op", "expected"),
    [("add", [10 + 3, 10 + 7]), ("mul", [10 * 2, 10 * 12]), ("max", [10, 10]), ("min", [1, 3])],
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32"])
def test_an_atomic_combines_every_element_that_it_names(op, expected, dtype):
    body = f"""
        alloc x: register {dtype}[4]
        load x, X[0 +: 4]
        atomic {op} Y[m // 2] over (m = 0 +: 4), x"""
    program = one_block(f"X: {dtype}[4], inout Y: {dtype}[2]", body)
    a = random_inputs(program, 3)
    a["X"][...], a["Y"][...] = [1, 2, 3, 4], 10
    run(program, a)
    assert a["Y"].tolist() == expected


@pytest.mark.parametrize(("op", "expected"), [("and", 0b1000), ("or", 0b1110)])
def test_atomic_and_and_or_are_bitwise(op, expected):
    body = f"alloc x: register i32[1]\nfill x, 10\natomic {op} Y[0 +: 1], x"
    y = np.array([0b1100], np.int32)
    run(one_block("inout Y: i32[1]", body), {"Y": y})
    assert y[0] == expected


@pytest.mark.parametrize(("dtype", "limit"), [("f16", 2048), ("bf16", 256), ("f32", 2**24)])
def test_an_atomic_rounds_in_its_own_type(dtype, limit):
    body = f"alloc x: register {dtype}[1]\nfill x, 1\natomic add Y[0 +: 1], x"
    program = one_block(f"inout Y: {dtype}[1]", body)
    a = random_inputs(program, 4)
    a["Y"][...] = limit
    run(program, a)
    assert a["Y"][0] == limit
    a["Y"][...] = limit - 2
    run(program, a)
    assert a["Y"][0] == limit - 1
