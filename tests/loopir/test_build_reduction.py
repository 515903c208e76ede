"""The nests of reductions: against numpy."""

import itertools

import numpy as np
import pytest

from loopir.build import reduction_nest, sum_and_max_nest
from loopir.interp import random_inputs, run
from loopir.printer import to_text
from loopir.types import ReduceOp
from tests.support import oracles

FLOATS = ["f8e4m3", "f16", "bf16", "f32", "f64"]
INTEGERS = ["i8", "i16", "i32", "i64"]
ARITHMETIC = [ReduceOp.ADD, ReduceOp.MUL, ReduceOp.MAX, ReduceOp.MIN]
BITWISE = [ReduceOp.AND, ReduceOp.OR]
AXES = [0, 1, 2, -1, (0, 1), (0, 2), (2, -2), (0, 1, 2)]


@pytest.mark.parametrize("op", ARITHMETIC + BITWISE)
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_integers_over_any_axes(op: ReduceOp, axes: int | tuple[int, ...]):
    program = reduction_nest(op, (2, 3, 2), axes, "i32")
    oracles.check(program, lambda x: oracles.reduction(op, x["X"], axes))


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_every_dtype(op: ReduceOp, dtype: str):
    program = reduction_nest(op, (3, 5), 1, dtype)
    oracles.check(program, lambda x: oracles.reduction(op, x["X"], 1))


@pytest.mark.parametrize("op", BITWISE)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_and_and_or_are_bitwise(op: ReduceOp, dtype: str):
    program = reduction_nest(op, (4, 3), 0, dtype)
    oracles.check(program, lambda x: oracles.reduction(op, x["X"], 0))
    assert f"out Y: {dtype}[" in to_text(program)


@pytest.mark.parametrize(
    ("op", "dtype", "out"),
    [
        ("max", "i8", "i8"),
        ("min", "i16", "i16"),
        ("add", "i8", "i32"),
        ("mul", "i16", "i32"),
        ("add", "i64", "i64"),
        ("max", "bf16", "f32"),
        ("min", "f64", "f64"),
    ],
)
def test_accumulators_are_wide_enough_and_no_wider(op: str, dtype: str, out: str):
    assert f"out Y: {out}[" in to_text(reduction_nest(op, (2, 3), 1, dtype))


@pytest.mark.parametrize(
    ("op", "dtype", "identity"),
    [
        ("add", "f32", 0),
        ("mul", "f32", 1),
        ("max", "f16", -np.inf),
        ("min", "f64", np.inf),
        ("add", "i8", 0),
        ("mul", "i8", 1),
        ("max", "i64", -(2**63)),
        ("min", "i64", 2**63 - 1),
        ("and", "i16", -1),
        ("or", "i16", 0),
    ],
)
def test_combining_nothing_gives_the_identity(op: str, dtype: str, identity: float):
    program = reduction_nest(op, (2, 0), 1, dtype)
    arrays = random_inputs(program, 0)
    run(program, arrays)
    assert arrays["Y"].tolist() == [identity, identity]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_a_nan_reaches_its_own_row_only(op: ReduceOp):
    program = reduction_nest(op, (3, 4), 1)
    arrays = random_inputs(program, 0)
    arrays["X"][1, 2] = np.nan
    run(program, arrays)
    assert np.isnan(arrays["Y"]).tolist() == [False, True, False]


def test_max_of_negative_numbers_is_negative():
    program = reduction_nest("max", (4,), 0, "i8")
    arrays = {"X": np.array([-5, -7, -3, -9], np.int8), "Y": np.zeros(1, np.int8)}
    run(program, arrays)
    assert arrays["Y"].tolist() == [-3]


def test_another_output_type_is_one_rounding_of_the_sum():
    oracles.check(
        reduction_nest("add", (2, 90), 1, "bf16", "bf16"),
        lambda x: oracles.reduction(ReduceOp.ADD, x["X"], 1),
    )


@pytest.mark.parametrize("sizes", list(itertools.product([1, 3, None], repeat=2)))
def test_unit_and_open_sizes(sizes: tuple[int | None, ...]):
    for axes in (0, 1, (0, 1)):
        program = reduction_nest("min", sizes, axes, "bf16")
        oracles.check(
            program,
            lambda x, a=axes: oracles.reduction(ReduceOp.MIN, x["X"], a),
            sizes={"N0": 4, "N1": 5},
        )


@pytest.mark.parametrize("axes", [0, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_sum_and_max_in_one_reduce(dtype: str, axes: int | tuple[int, ...]):
    def both(x: oracles.Arrays) -> oracles.Arrays:
        made = {"SUM": ReduceOp.ADD, "MAX": ReduceOp.MAX}
        return {name: oracles.reduction(op, x["X"], axes) for name, op in made.items()}

    program = sum_and_max_nest((3, 4), axes, dtype)
    assert to_text(program).count("reduce (") == 1
    oracles.check(program, both)
    oracles.check(sum_and_max_nest((None, 4), axes, dtype, "bf16"), both, sizes={"N0": 2})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"op": "scan"}, "op"),
        ({"op": "sub"}, "op"),
        ({"op": "xor"}, "op"),
        ({"op": "and"}, "dtype"),
        ({"op": "or", "dtype": "bool"}, "dtype"),
        ({"dtype": "bool"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"shape": (2, -1)}, "shape"),
        ({"shape": ()}, "axes"),
        ({"axes": 2}, "axes"),
        ({"axes": -3}, "axes"),
        ({"axes": ()}, "axes"),
        ({"axes": (0, -2)}, "axes"),
        ({"axes": "0"}, "axes"),
        ({"axes": True}, "axes"),
        ({"name": "or"}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    given = {"op": "add", "shape": (2, 3), "axes": 0} | arguments
    with pytest.raises(ValueError, match=f"^{named}: "):
        reduction_nest(**given)
    if "op" not in arguments:
        del given["op"]
        with pytest.raises(ValueError, match=f"^{named}: "):
            sum_and_max_nest(**given)
