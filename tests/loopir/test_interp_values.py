"""What tile operations and control flow compute, against numpy."""

import math

import numpy as np
import pytest

from loopir.interp import STORAGE, random_inputs, rounded, run
from loopir.interp.formats import tf32
from loopir.parser import parse
from loopir.types import DType
from tests.support.interp import kernel, mapped, one_block, same_bits
from tests.support.nests import GEMM_NEST, MASKED_ROWS
from tests.support.texts import GEMM, MAX_ROWS, edited

UNARY = {
    "neg": ("-x", np.negative),
    "abs": ("abs(x)", np.abs),
    "exp": ("exp(x)", np.exp),
    "log": ("log(x)", np.log),
    "sqrt": ("sqrt(x)", np.sqrt),
    "rsqrt": ("rsqrt(x)", lambda x: 1 / np.sqrt(x)),
    "tanh": ("tanh(x)", np.tanh),
    "sigmoid": ("sigmoid(x)", lambda x: 1 / (1 + np.exp(-x))),
    "erf": ("erf(x)", lambda x: np.array([math.erf(v) for v in x])),
}
BINARY = {
    "x + 3": np.add,
    "x - 3": np.subtract,
    "x * 3": np.multiply,
    "max(x, 3)": np.maximum,
    "min(x, 3)": np.minimum,
}


# --- element-wise


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("fn", UNARY)
def test_a_function_is_that_of_f64_rounded_once(fn, dtype):
    text, function = UNARY[fn]
    values = np.random.default_rng(1).uniform(0.1, 5, 50).astype(STORAGE[DType(dtype)])
    expected = function(values.astype(np.float64)).astype(values.dtype)
    assert same_bits(mapped(text, dtype, dtype, values), expected)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("text", [*BINARY, "3 - x", "-x", "abs(x)"])
def test_arithmetic_is_numpys_in_the_tiles_type(text, dtype):
    values = rounded(np.array([0, 1, -1, 2, 100, 126, 127, -127, -128]), DType(dtype))
    other = {"3 - x": lambda x, y: y - x, "-x": lambda x, _: -x, "abs(x)": lambda x, _: np.abs(x)}
    function = {**BINARY, **other}[text]
    expected = function(values, values.dtype.type(3))
    assert same_bits(mapped(text, dtype, dtype, values), expected)


def test_integers_wrap():
    assert mapped("x + 100", "i8", "i8", np.array([100, -100])).tolist() == [-56, 0]
    assert mapped("-x", "i8", "i8", np.array([-128])).tolist() == [-128]


@pytest.mark.parametrize("dtype", ["i8", "i32"])
def test_and_and_or_are_bitwise_on_integers(dtype):
    values = np.array([0, 1, 6, -1])
    assert mapped("and(x, 3)", dtype, dtype, values).tolist() == [0, 1, 2, 3]
    assert mapped("or(x, 3)", dtype, dtype, values).tolist() == [3, 3, 7, -1]


def test_and_and_or_are_logical_on_booleans():
    assert mapped("and(x, 1)", "bool", "bool", np.array([0, 1])).tolist() == [False, True]
    assert mapped("or(x, 1)", "bool", "bool", np.array([0, 1])).tolist() == [True, True]


def test_division_is_ieee():
    values = np.float32([1, 3, 0, -1, np.inf])
    assert mapped("x / 3", "f32", "f32", values).tolist() == (values / np.float32(3)).tolist()
    found = mapped("1 / x", "f32", "f32", np.float32([0, -0.0]))
    assert found.tolist() == [np.inf, -np.inf]


def test_max_and_min_propagate_nan():
    values = np.float32([np.nan, 1, 5])
    assert np.isnan(mapped("max(x, 3)", "f32", "f32", values)).tolist() == [True, False, False]
    assert np.isnan(mapped("min(3, x)", "f32", "f32", values)).tolist() == [True, False, False]


def test_a_number_is_rounded_to_the_type_that_it_meets():
    assert mapped("x * 0.1", "f32", "f32", np.float32([1]))[0] == np.float32(0.1)
    assert mapped("x * 0.1", "f64", "f64", np.float64([1]))[0] == 0.1
    assert mapped("0.1", "f32", "bf16", np.float32([1]))[0] == np.float32(0.10009765625)


def test_operations_round_one_by_one():
    x = np.float32([1e8])
    assert mapped("x + 1 - x", "f32", "f32", x)[0] == 0
    assert mapped("x + (1 - x)", "f32", "f32", x)[0] == 0
    assert mapped("x - x + 1", "f32", "f32", x)[0] == 1


@pytest.mark.parametrize("source", ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8", "i32"])
@pytest.mark.parametrize("target", ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8", "i64"])
def test_a_cast_rounds_to_the_target(source, target):
    values = rounded(np.random.default_rng(2).normal(scale=20, size=64), DType(source))
    assert same_bits(mapped(f"cast({target}, x)", source, target, values),
                     rounded(values, DType(target)))  # fmt: skip


def test_a_cast_to_fewer_bits_loses_them():
    assert mapped("cast(f32, cast(f16, x))", "f32", "f32", np.float32([2049]))[0] == 2048
    assert mapped("x", "f32", "f32", np.float32([2049]))[0] == 2049


EXPAND = """
    alloc x: register f32[4, 8]
    alloc row: register f32[8]
    alloc col: register f32[4]
    alloc y: register f32[4, 8]
    load x, X[0 +: 4, 0 +: 8]
    load row, R[0 +: 8]
    load col, C[0 +: 4]
    ewise y = x + expand(row, 0) * expand(col, 1)
    store Y[0 +: 4, 0 +: 8], y"""


def test_expand_broadcasts_rows_and_columns():
    program = one_block("X: f32[4, 8], R: f32[8], C: f32[4], out Y: f32[4, 8]", EXPAND)
    a = random_inputs(program, 3)
    run(program, a)
    assert (a["Y"] == a["X"] + a["R"][None, :] * a["C"][:, None]).all()


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "i32"])
@pytest.mark.parametrize(
    ("fn", "function"),
    [("sum", np.sum), ("amax", np.max), ("amin", np.min), ("prod", np.prod)],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduction_along_an_axis_drops_it(fn, function, axis, dtype):
    size = (8, 4)[axis]
    body = f"""
        alloc x: register {dtype}[4, 8]
        alloc y: register {dtype}[{size}]
        load x, X[0 +: 4, 0 +: 8]
        ewise y = {fn}(x, {axis})
        store Y[0 +: {size}], y"""
    program = one_block(f"X: {dtype}[4, 8], out Y: {dtype}[{size}]", body)
    a = random_inputs(program, 4)
    run(program, a)
    keeps = {"dtype": a["X"].dtype} if fn in ("sum", "prod") else {}
    assert (a["Y"] == function(a["X"], axis=axis, **keeps)).all()


def reduced(fn: str, dtype: str, values: np.ndarray) -> np.ndarray:
    """Each row of `values` [rows, n], combined."""
    rows, n = values.shape
    body = f"""
        alloc x: register {dtype}[{rows}, {n}]
        alloc y: register {dtype}[{rows}]
        load x, X[0 +: {rows}, 0 +: {n}]
        ewise y = {fn}(x, 1)
        store Y[0 +: {rows}], y"""
    program = one_block(f"X: {dtype}[{rows}, {n}], out Y: {dtype}[{rows}]", body)
    found = np.zeros(rows, values.dtype)
    run(program, {"X": values, "Y": found})
    return found


@pytest.mark.parametrize("dtype", ["i8", "i16", "i64", "bool"])
def test_and_and_or_combine_an_axis_bit_by_bit(dtype):
    values = rounded(np.random.default_rng(3).integers(-100, 100, (6, 3)) * 1.0, DType(dtype))
    values[0], values[1] = values.dtype.type(-1 if dtype != "bool" else 1), 0
    assert same_bits(reduced("reduce_and", dtype, values), np.bitwise_and.reduce(values, 1))
    assert same_bits(reduced("reduce_or", dtype, values), np.bitwise_or.reduce(values, 1))


def test_a_product_wraps_in_small_integers_and_rounds_once_in_floats():
    assert reduced("prod", "i8", np.array([[100, 3, 1]], np.int8)).tolist() == [300 - 256]
    values = np.random.default_rng(1).uniform(0.5, 2, (20, 9)).astype(np.float32)
    expected = values.prod(1, dtype=np.float64).astype(np.float32)
    assert same_bits(reduced("prod", "f32", values), expected)
    assert not same_bits(values.prod(1), expected)


# --- masks and tiles of one element


def masked(dtype: str, mask: str, shape: tuple[int, ...] = (4, 6)) -> np.ndarray:
    """`ewise y = mask` where tile x counts 1, 2, ... ; block t of one, K = 5."""
    slices = ", ".join(f"0 +: {n}" for n in shape)
    body = f"""
        alloc x: register {dtype}{list(shape)}
        alloc y: register {dtype}{list(shape)}
        load x, X[{slices}]
        ewise y = {mask}
        store Y[{slices}], y"""
    program = one_block(f"X: {dtype}{list(shape)}, out Y: {dtype}{list(shape)}", body, "K = 5")
    arrays = random_inputs(program, 1)
    counted = 1.0 + np.arange(math.prod(shape)).reshape(shape)
    arrays["X"][...] = rounded(counted, DType(dtype))
    run(program, arrays)
    return arrays["Y"]


COUNTED = 1 + np.arange(24).reshape(4, 6)


@pytest.mark.parametrize("dtype", ["f8e5m2", "bf16", "f32", "i8", "i64"])
@pytest.mark.parametrize(
    ("start", "limit", "kept"), [("0", "K", 5), ("3", "K", 2), ("t - 2", "1", 3), ("K", "K", 0)]
)
def test_a_mask_keeps_what_is_below_its_limit(start, limit, kept, dtype):
    expected = rounded(np.where(np.arange(6) < kept, COUNTED, -1) * 1.0, DType(dtype))
    assert same_bits(masked(dtype, f"mask(x, 1, {start}, {limit}, -1)"), expected)


def test_a_mask_runs_along_its_axis_and_broadcasts_over_the_others():
    rows = np.where(np.arange(4)[:, None] < 3, COUNTED, 0)
    assert (masked("f32", "mask(x, 0, 2, K, 0)") == rows).all()
    row_only = masked("f32", "mask(x * 0 + 1, 0, 2, K, 0) * mask(x, 1, 0, K, 0)")
    assert (row_only == np.where(np.arange(6) < 5, rows, 0)).all()
    cube = masked("f32", "mask(x, 1, 2, K, 0)", (2, 4, 8))
    assert (cube[:, 3] == 0).all()
    assert (cube[:, :3] > 0).all()


@pytest.mark.parametrize("dtype", ["f8e5m2", "bf16", "f32", "i8", "i64"])
def test_parts_are_equal_and_side_by_side(dtype: str):
    counted = rounded(1.0 + np.arange(32).reshape(4, 8), DType(dtype))

    def found(part: str) -> np.ndarray:
        return masked(dtype, part, (4, 8))

    for i in range(8):
        column = np.broadcast_to(counted[:, i : i + 1], (4, 8))
        assert same_bits(found(f"part(x, 1, {i}, 8)"), column.copy())
        assert same_bits(found(f"part(part(x, 1, {i // 4}, 2), 1, {i % 4}, 4)"), column.copy())
    for i in range(4):
        row = np.broadcast_to(counted[i : i + 1], (4, 8))
        assert same_bits(found(f"part(x, 0, {i}, 4)"), row.copy())
    assert same_bits(found("part(x, 1, 0, 1)"), counted)


def test_a_mask_replaces_nan_and_infinity():
    found = masked("f32", "mask(x * inf - inf, 1, 0, 0, -inf)")
    assert (found == -np.inf).all()


def test_one_element_meets_any_shape_and_fills_any_tile():
    body = """
        alloc s: local f32[]
        alloc y: register f32[2, 4]
        load s, X[1]
        ewise s = s * 2
        store Z[0], s
        ewise y = s
        ewise y = y + s * expand(expand(s, 0), 0)
        store Y[0 +: 2, 0 +: 4], y"""
    program = one_block("X: f32[3], out Y: f32[2, 4], out Z: f32[1]", body)
    y, z = np.zeros((2, 4), np.float32), np.zeros(1, np.float32)
    run(program, {"X": np.array([0, 3, 0], np.float32), "Y": y, "Z": z})
    assert z.tolist() == [6]
    assert (y == 42).all()


def test_an_untiled_nest_is_a_matrix_product():
    program = parse(GEMM_NEST)
    a = random_inputs(program, 3)
    run(program, a)
    assert (a["C"] == a["A"].astype(np.float32) @ a["B"].astype(np.float32)).all()
    skipped = parse(edited(GEMM_NEST, ("parallel j in 0 .. N", "parallel j in 1 .. N step 2")))
    b = random_inputs(program, 3)
    run(skipped, b)
    assert np.isnan(b["C"][:, ::2]).all()
    assert (b["C"][:, 1::2] == a["C"][:, 1::2]).all()


def test_rows_of_masked_contributions_end_with_the_row():
    a = random_inputs(parse(MASKED_ROWS), 4)
    run(parse(MASKED_ROWS), a)
    assert (a["Y"] == (a["X"] + 1).sum(1)).all()
    run(parse(edited(MASKED_ROWS, (", 1, kp * BK, K,", ", 1, kp * BK, K + 1,"))), a)
    assert (a["Y"] == (a["X"] + 1).sum(1) + 1).all()


def test_a_reduction_can_be_broadcast_again():
    body = """
        alloc x: register f32[4, 8]
        load x, X[0 +: 4, 0 +: 8]
        ewise x = x - expand(amax(x, 1), 1)
        store Y[0 +: 4, 0 +: 8], x"""
    program = one_block("X: f32[4, 8], out Y: f32[4, 8]", body)
    a = random_inputs(program, 5, integer_valued=False)
    run(program, a)
    assert same_bits(a["Y"], a["X"] - a["X"].max(axis=1, keepdims=True))


def test_a_sum_of_small_integers_wraps_in_their_type():
    body = """
        alloc x: register i8[4, 8]
        alloc y: register i8[4]
        fill x, 100
        ewise y = sum(x, 1)
        store Y[0 +: 4], y"""
    program = one_block("out Y: i8[4]", body)
    y = np.zeros(4, np.int8)
    run(program, {"Y": y})
    assert y.tolist() == [np.int8(800 % 256)] * 4


def test_a_fill_rounds_its_number():
    body = """
        alloc y: register bf16[2]
        fill y, 0.1
        store Y[0 +: 2], y"""
    y = np.zeros(2, np.float32)
    run(one_block("out Y: bf16[2]", body), {"Y": y})
    assert y.tolist() == [0.10009765625] * 2


# --- dot


def dot_program(operand: str, accumulator: str, precision: str = ""):
    body = f"""
        alloc acc: register {accumulator}[4, 8]
        alloc a: shared {operand}[4, 16]
        alloc b: shared {operand}[16, 8]
        load acc, C[0 +: 4, 0 +: 8]
        load a, A[0 +: 4, 0 +: 16]
        load b, B[0 +: 16, 0 +: 8]
        dot acc, a, b {precision}
        store C[0 +: 4, 0 +: 8], acc"""
    params = f"A: {operand}[4, 16], B: {operand}[16, 8], inout C: {accumulator}[4, 8]"
    return one_block(params, body)


@pytest.mark.parametrize(
    ("operand", "accumulator"),
    [("f8e4m3", "f32"), ("f8e5m2", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"),
     ("f32", "f32"), ("f64", "f64"), ("i8", "i32")],
)  # fmt: skip
def test_a_dot_adds_exact_products_to_the_accumulator(operand, accumulator):
    program = dot_program(operand, accumulator)
    a = random_inputs(program, 6)
    wide = np.float64 if accumulator != "i32" else np.int64
    expected = a["C"].astype(wide) + a["A"].astype(wide) @ a["B"].astype(wide)
    run(program, a)
    assert same_bits(a["C"], expected.astype(a["C"].dtype))


def test_a_dot_rounds_once_into_its_accumulator():
    program = dot_program("f16", "f16")
    a = random_inputs(program, 7)
    a["A"][...], a["B"][...], a["C"][...] = 1, 1, 2048
    run(program, a)
    assert (a["C"] == 2064).all()
    ones = np.ones((4, 16), np.float16)
    ones[:, 1:] = 0
    run(program, a | {"A": ones, "C": a["C"]})
    assert (a["C"] == 2064).all()  # 2065 is no f16


def test_an_integer_dot_wraps():
    program = dot_program("i8", "i32")
    a = random_inputs(program, 8)
    a["A"][...], a["B"][...], a["C"][...] = 1, 1, 2**31 - 1
    run(program, a)
    assert (a["C"] == -(2**31) + 15).all()


def test_tf32_rounds_the_operands_and_three_products_nearly_restore_them():
    plain = dot_program("f32", "f32")
    a = random_inputs(plain, 9, integer_valued=False)
    a["C"][...] = 0
    found = {}
    for precision in ("", "tf32", "tf32x3"):
        copy = {n: v.copy() for n, v in a.items()}
        run(dot_program("f32", "f32", precision), copy)
        found[precision] = copy["C"]
    expected = (tf32(a["A"]) @ tf32(a["B"])).astype(np.float32)
    assert same_bits(found["tf32"], expected)
    errors = {p: np.abs(found[p] - found[""]).max() for p in ("tf32", "tf32x3")}
    assert errors["tf32"] > 100 * errors["tf32x3"]


# --- whole kernels


@pytest.mark.parametrize("order", ["", " order along_m", " order grouped(2)", " order grouped(5)"])
@pytest.mark.parametrize("sizes", [(96, 80, 100), (1, 1, 1), (33, 65, 17), (64, 32, 16)])
def test_a_gemm_is_a_matrix_product(sizes, order):
    m, n, k = sizes
    text = edited(
        GEMM,
        ("M = 96, N = 80, K = 100", f"M = {m}, N = {n}, K = {k}"),
        ("ceildiv(N, BN)] {", f"ceildiv(N, BN)]{order} {{"),
    )
    program = parse(text)
    a = random_inputs(program, 10)
    run(program, a)
    assert (a["C"] == a["A"].astype(np.float32) @ a["B"].astype(np.float32)).all()


def test_a_gemm_with_no_panels_writes_zeros():
    program = parse(edited(GEMM, ("K = 100", "K = 0")))
    a = random_inputs(program, 11)
    run(program, a)
    assert not a["C"].any()


@pytest.mark.parametrize("empty", ["M = 96", "N = 80"])
def test_an_empty_output_needs_no_block(empty):
    program = parse(edited(GEMM, (empty, empty[:4] + "0")))
    run(program, random_inputs(program, 12))


def test_a_maximum_over_panels_masks_with_its_identity():
    program = parse(MAX_ROWS)
    a = random_inputs(program, 13)
    a["X"][...] = -np.abs(a["X"]) - 1
    run(program, a)
    assert (a["Y"] == a["X"].max(axis=1)).all()


def test_a_batched_gemm_runs_over_a_third_axis():
    text = edited(
        GEMM,
        ("A: f16[M, K], B: f16[K, N], out C: f32[M, N]",
         "A: f16[L, M, K], B: f16[L, K, N], out C: f32[L, M, N]"),
        ("where M = 96", "where L = 3, M = 96"),
        ("grid (ti, tj) in [", "grid (l, ti, tj) in [L, "),
        ("A[ti", "A[l, ti"),
        ("B[kp", "B[l, kp"),
        ("store C[ti", "store C[l, ti"),
    )  # fmt: skip
    program = parse(text)
    a = random_inputs(program, 14)
    run(program, a)
    assert (a["C"] == a["A"].astype(np.float32) @ a["B"].astype(np.float32)).all()


def test_nested_grids_launch_every_pair():
    body = """
      grid (i) in [3] {
        grid (j) in [4] {
          alloc x: register i32[1]
          load x, X[i +: 1]
          ewise x = x * 10
          store Y[j, i +: 1], x
        }
      }"""
    program = kernel("X: i32[3], out Y: i32[4, 3]", body)
    y = np.zeros((4, 3), np.int32)
    run(program, {"X": np.arange(3, dtype=np.int32), "Y": y})
    assert (y == np.arange(3) * 10).all()


# --- control flow and scalars


def scalar(statements: str, sizes: str = "") -> int:
    """The value of `r` after `statements`, read through the index that it stores to."""
    body = f"""
        alloc one: register i8[1]
        fill one, 1
        {statements}
        store Y[r + 100 +: 1], one"""
    program = one_block("inout Y: i8[200]", body, sizes)
    y = np.zeros(200, np.int8)
    run(program, {"Y": y})
    assert y.sum() == 1
    return int(np.argmax(y)) - 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 // 2", 3), ("(0 - 7) // 2", -4), ("(0 - 7) % 2", 1), ("7 % 4", 3), ("(0 - 1) % 4", 3),
        ("ceildiv(7, 2)", 4), ("ceildiv(0 - 7, 2)", -3), ("min(5, 3, 4)", 3), ("max(5, 7, 6)", 7),
        ("t * 5 + 2 * 3 - 1", 5), ("(t + 3) * (t + 4)", 12), ("(t - 7) // (t + 2)", -4),
        ("(t - 7) % (t + 4)", 1), ("min(t + 1, t - 2)", -2), ("ceildiv(t - 7, t + 2)", -3),
    ],
)  # fmt: skip
def test_index_arithmetic_rounds_to_minus_infinity(text, expected):
    assert scalar(f"let r = {text}") == expected


@pytest.mark.parametrize(
    ("cond", "expected"),
    [
        ("t == 0", 1), ("t != 0", 2), ("t < 0", 2), ("t <= 0", 1), ("t > 0", 2), ("t >= 0", 1),
        ("t == 0 and t == 1", 2), ("t == 0 or t == 1", 1), ("not t == 0", 2),
        ("not (t == 1 or t == 2) and t < 3", 1),
    ],
)  # fmt: skip
def test_a_condition_takes_its_branch(cond, expected):
    body = f"""
        alloc y: register i8[1]
        fill y, 0
        if {cond} {{
          fill y, 1
        }} else {{
          fill y, 2
        }}
        store Y[0 +: 1], y"""
    y = np.zeros(1, np.int8)
    run(one_block("out Y: i8[1]", body), {"Y": y})
    assert y[0] == expected


def counted(head: str, setup: str = "", step: str = "") -> int:
    """How many times a loop's body runs."""
    body = f"""
        alloc y: register i32[1]
        fill y, 0
        {setup}
        {head} {{
          ewise y = y + 1
          {step}
        }}
        store Y[0 +: 1], y"""
    y = np.zeros(1, np.int32)
    run(one_block("out Y: i32[1]", body), {"Y": y})
    return int(y[0])


@pytest.mark.parametrize(
    ("head", "expected"),
    [("for i in 0 .. 5", 5), ("for i in 2 .. 9 step 3", 3), ("for i in 5 .. 5", 0),
     ("for i in 7 .. 2", 0), ("wave w in 0 .. 4", 4)],
)  # fmt: skip
def test_a_loop_runs_from_lo_to_below_hi(head, expected):
    assert counted(head) == expected


def test_a_while_runs_until_its_variable_says_so():
    assert counted("while i < 10", "let i = 1", "set i = i + 4") == 3
    assert counted("while i < 10", "let i = 12", "set i = i + 4") == 0


def test_wave_loops_share_a_tile():
    body = """
      grid (t) in [2] {
        wave w in 0 .. 4 {
          alloc x: register f32[4, 8]
          load x, X[t * 16 + w * 4 +: 4, 0 +: 8]
          ewise x = x * 2
          store Y[t * 16 + w * 4 +: 4, 0 +: 8], x
        }
      }"""
    program = kernel("X: f32[32, 8], out Y: f32[32, 8]", body)
    a = random_inputs(program, 15)
    run(program, a)
    assert (a["Y"] == 2 * a["X"]).all()


def test_a_scalar_can_be_read_from_a_table():
    body = """
      grid (t) in [5] {
        let u = order[t]
        alloc x: register f32[4]
        load x, X[u * 4 +: 4]
        store Y[t * 4 +: 4], x
      }"""
    program = kernel("order: i32[5], X: f32[20], out Y: f32[20]", body)
    a = random_inputs(program, 16)
    run(program, a)
    assert (a["Y"].reshape(5, 4) == a["X"].reshape(5, 4)[a["order"]]).all()
    assert sorted(a["order"]) == list(range(5))


TWO_KERNELS = """\
workspace W: f32[4, 8]

kernel @first(X: f32[32]) {
  grid (t) in [4] {
    alloc x: register f32[8]
    load x, X[t * 8 +: 8]
    store W[t, 0 +: 8], x
  }
}

kernel @second(out Y: f32[8]) {
  grid (t) in [1] {
    alloc y: register f32[8]
    alloc x: register f32[8]
    fill y, 0
    for q in 0 .. 4 {
      load x, W[q, 0 +: 8]
      ewise y = y + x
    }
    store Y[0 +: 8], y
  }
}
"""


def test_a_second_kernel_sees_all_of_the_first():
    program = parse(TWO_KERNELS)
    for seed in range(5):
        a = random_inputs(program, seed)
        run(program, a, seed=seed)
        assert (a["Y"] == a["X"].reshape(4, 8).sum(axis=0)).all()
