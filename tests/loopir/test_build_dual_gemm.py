"""The nest of the dual GEMM: against numpy and torch's activations."""

import itertools

import numpy as np
import pytest

from loopir.build import Activation, Layout, dual_gemm_nest
from loopir.effects import access_of
from loopir.walk import walk
from tests.support import oracles


def _gated(x: oracles.Arrays, activation: str | None) -> np.ndarray:
    gate = x["A"] @ x["B1"]
    gate = oracles.activation(activation, gate) if activation else gate
    return gate * (x["A"] @ x["B2"])


@pytest.mark.parametrize("dtype", ["f8e5m2", "f16", "bf16", "f32", "f64", "i8"])
def test_dual_gemm_is_the_gated_product_in_every_dtype_and_layout(dtype: str):
    for a, b in itertools.product(Layout, Layout):
        program = dual_gemm_nest(3, 4, 5, dtype, None, a, b, "relu")
        oracles.check(program, lambda x: _gated(x, "relu"))


@pytest.mark.parametrize("kind", Activation)
def test_gates_are_torchs_activations(kind: Activation):
    program = dual_gemm_nest(3, 4, 2, "f32", activation=kind)
    oracles.check(program, lambda x: _gated(x, kind.value), tolerance=1e-5)


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, None], repeat=3)))
def test_empty_unit_and_open_sizes(sizes: tuple[int | None, ...]):
    given = {name: 2 for name, size in zip("MNK", sizes, strict=True) if size is None}
    program = dual_gemm_nest(*sizes, out_dtype="bf16", activation=None)
    oracles.check(program, lambda x: _gated(x, None), sizes=given)


def test_the_shared_operand_is_loaded_once():
    (kernel,) = dual_gemm_nest(2, 2, 2).kernels
    loads = [a.buffer for _, s in walk(kernel.body) if (a := access_of(s))]
    assert loads == ["A", "B1", "B2", "C"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"dtype": "i32"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"a_layout": "x"}, "a_layout"),
        ({"b_layout": "x"}, "b_layout"),
        ({"activation": "x"}, "activation"),
        ({"dtype": "i8"}, "activation"),
        ({"name": ""}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        dual_gemm_nest(**({"M": 8, "N": 8, "K": 8} | arguments))
