"""The nests of GEMM and batched GEMM: against numpy in fp64, with and without an epilogue."""

import itertools

import numpy as np
import pytest

from loopir.build import Activation, Epilogue, Layout, batched_gemm_nest, gemm_nest
from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.printer import to_text
from loopir.types import DType
from loopir.walk import parallel_band
from tests.support import oracles

DTYPES = ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gemm_is_the_product_in_every_dtype_and_layout(dtype: str):
    for a, b in itertools.product(Layout, Layout):
        program = gemm_nest(3, 4, 5, dtype, a_layout=a, b_layout=b)
        oracles.check(program, lambda x: x["A"] @ x["B"])


@pytest.mark.parametrize("out", ["f8e5m2", "f16", "bf16", "f32", "f64"])
def test_another_output_type_is_one_rounding_of_the_sum(out: str):
    program = gemm_nest(3, 4, 40, "bf16", out)
    oracles.check(program, lambda x: x["A"] @ x["B"])
    assert (f"cast({out}, acc)" in to_text(program)) == (out != "f32")


def test_gemm_of_any_floats_is_near_the_product():
    oracles.check(gemm_nest(3, 4, 50), lambda x: x["A"] @ x["B"], tolerance=oracles.root_of(50))


@pytest.mark.parametrize("sizes", list(itertools.product([0, 1, None], repeat=3)))
def test_empty_unit_and_open_sizes(sizes: tuple[int | None, ...]):
    given = {name: 2 for name, size in zip("MNK", sizes, strict=True) if size is None}
    oracles.check(gemm_nest(*sizes), lambda x: x["A"] @ x["B"], sizes=given)


@pytest.mark.parametrize(("a_batched", "b_batched"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("batch", [0, 1, 3, None])
def test_batched_gemm_is_the_product_of_each_batch(
    a_batched: bool, b_batched: bool, batch: int | None
):
    for a, b in itertools.product(Layout, Layout):
        program = batched_gemm_nest(
            batch, 2, 3, 4, a_layout=a, b_layout=b, a_batched=a_batched, b_batched=b_batched
        )
        oracles.check(program, lambda x: _batches(x, batch), sizes={"NB": 3})


def _batches(x: oracles.Arrays, batch: int | None) -> np.ndarray:
    shape = (3 if batch is None else batch, 2, 3)
    return np.broadcast_to(x["A"] @ x["B"], shape)


@pytest.mark.parametrize("layout", Layout)
def test_layouts_name_the_contiguous_dimension(layout: Layout):
    plain = gemm_nest(2, 2, 2, a_layout=layout).kernels[0].params
    batched = batched_gemm_nest(2, 2, 2, 2, a_layout=layout, b_batched=False).kernels[0].params
    assert [p.contiguous for p in plain] == [layout.contiguous, 1, 1]
    assert [p.contiguous for p in batched] == [layout.contiguous + 1, 1, 2]


def test_batches_of_one_operand_stand_beside_its_own_index():
    bands = {
        (True, True): "nb i j",
        (True, False): "nb i j",
        (False, True): "i nb j",
    }
    for (a_batched, b_batched), order in bands.items():
        program = batched_gemm_nest(2, 2, 2, 2, a_batched=a_batched, b_batched=b_batched)
        assert band(program) == order


def band(program: Program) -> str:
    root = program.kernels[0].body[0]
    return " ".join(loop.iv for _, loop in parallel_band(root, ()))


# --- epilogues

EPILOGUES = [
    Epilogue(alpha=3),
    Epilogue(alpha=-0.5),
    Epilogue(alpha=0),
    Epilogue(beta=1),
    Epilogue(beta=-2, alpha=2),
    Epilogue(bias="f32"),
    Epilogue(bias="bf16", activation="relu"),
    Epilogue(residual="f16"),
    Epilogue(activation="relu", residual="f32"),
    Epilogue(0.5, 2, "f16", "relu", "bf16"),
]


def _with_epilogue(e: Epilogue, x: oracles.Arrays) -> np.ndarray:
    return oracles.epilogue(e, x["A"] @ x["B"], x, "C")


@pytest.mark.parametrize("out", [None, "bf16"])
@pytest.mark.parametrize("e", EPILOGUES, ids=str)
def test_epilogue_is_what_its_docstring_says(e: Epilogue, out: str | None):
    oracles.check(gemm_nest(3, 4, 5, "f16", out, epilogue=e), lambda x: _with_epilogue(e, x))
    program = batched_gemm_nest(2, 3, 2, 3, "f16", out, epilogue=e, b_batched=False)
    oracles.check(program, lambda x: _with_epilogue(e, x))


@pytest.mark.parametrize("kind", Activation)
def test_activations_are_torchs(kind: Activation):
    e = Epilogue(alpha=0.25, bias="f32", activation=kind, residual="f32")
    program = gemm_nest(4, 4, 3, "f32", epilogue=e)
    oracles.check(program, lambda x: _with_epilogue(e, x), tolerance=2e-6)


def test_integer_sums_have_integer_epilogues():
    e = Epilogue(3, -1, "i32", "relu", "i8")
    oracles.check(gemm_nest(3, 4, 5, "i8", epilogue=e), lambda x: _with_epilogue(e, x))


@pytest.mark.parametrize(("beta", "is_nan"), [(0, False), (1, True)])
def test_output_is_read_only_if_beta_is_not_zero(beta: int, is_nan: bool):
    program = gemm_nest(2, 2, 2, "f32", epilogue=Epilogue(beta=beta))
    assert ("inout C" in to_text(program)) == bool(beta)
    arrays = random_inputs(program, 0)
    arrays["C"][:] = np.nan
    run(program, arrays)
    assert np.isnan(arrays["C"]).all() == is_nan


def test_in_place_read_has_the_index_of_the_store():
    text = to_text(gemm_nest(2, 2, 2, epilogue=Epilogue(beta=2)))
    assert "inout C: f32[M, N]" in text
    assert "load old, C[i, j]\n" in text
    assert "store C[i, j], value\n" in text


def test_cast_comes_last():
    program = gemm_nest(2, 2, 2, out_dtype="bf16", epilogue=Epilogue(2, 1, "f32", "silu", "f32"))
    lines = [line.strip() for line in to_text(program).splitlines()]
    at = lines.index("ewise out = cast(bf16, value)")
    assert lines[at + 1] == "store C[i, j], out"
    assert not any("out" in line for line in lines[1 : at - 1])


# --- refusals


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"M": -1}, "M"),
        ({"K": 2.5}, "K"),
        ({"N": True}, "N"),
        ({"dtype": "f128"}, "dtype"),
        ({"dtype": "i32"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"a_layout": "diagonal"}, "a_layout"),
        ({"b_layout": "diagonal"}, "b_layout"),
        ({"name": "no name"}, "name"),
        ({"name": "min"}, "name"),
        ({"epilogue": Epilogue(alpha=1e39)}, "alpha"),
        ({"epilogue": Epilogue(alpha=float("nan"))}, "alpha"),
        ({"epilogue": Epilogue(beta=float("inf"))}, "beta"),
        ({"epilogue": Epilogue(alpha=True)}, "alpha"),
        ({"epilogue": Epilogue(bias="i32")}, "bias"),
        ({"epilogue": Epilogue(residual="bool")}, "residual"),
        ({"dtype": "i8", "epilogue": Epilogue(alpha=0.5)}, "alpha"),
        ({"dtype": "i8", "epilogue": Epilogue(bias="f32")}, "bias"),
        ({"dtype": "i8", "epilogue": Epilogue(activation="silu")}, "activation"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    for build in (gemm_nest, batched_gemm_nest):
        given = {"M": 8, "N": 8, "K": 8} | arguments
        if build is batched_gemm_nest:
            given["NB"] = 2
        with pytest.raises(ValueError, match=f"^{named}: "):
            build(**given)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"activation": "softmax"}, "activation"),
        ({"bias": "f128"}, "bias"),
        ({"residual": True}, "residual"),
    ],
)
def test_bad_field_of_an_epilogue_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        Epilogue(**arguments)


def test_batch_size_is_checked():
    with pytest.raises(ValueError, match=r"^NB: "):
        batched_gemm_nest(-1, 2, 2, 2)
    with pytest.raises(ValueError, match=r"^a_batched: "):
        batched_gemm_nest(2, 2, 2, 2, a_batched=False, b_batched=False)


def test_check_sees_a_wrong_result():
    def wrong(x: oracles.Arrays) -> np.ndarray:
        return x["A"] @ x["B"] + (np.arange(12).reshape(3, 4) == 11)

    program: Program = gemm_nest(3, 4, 5, DType.F32)
    with pytest.raises(AssertionError):
        oracles.check(program, wrong)
    with pytest.raises(AssertionError):
        oracles.check(program, wrong, tolerance=1e-3)
