"""Casts and numbers in `ewise`: every pair of element types, at the values where they round,
saturate or wrap, against the reference interpreter; on the CPU and, marked gpu, on a GPU."""

import itertools

import numpy as np
import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile, emit
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.errors import CodegenError
from loopir.interp import rounded, run
from loopir.parser import parse
from loopir.types import DType

TARGETS = ["interpret", pytest.param("jit", marks=pytest.mark.gpu)]
FLOATS = [0, -0.0, 1.5, 2.5, -2.5, 300.7, -300.7, 127.5, -128.6, 1e5, -1e5, 3e9, -3e9, 1e20, -1e20,
          448, 449, 464, 57344, 60000, 1e-8, 1e-4, 2**-10, 65519, 65520, 255.9, -129, 16777217,
          1e38, np.inf, -np.inf, np.nan]  # fmt: skip
INTEGERS = [0, 1, -1, 100, -100, 127, -128, 255, 257, 32767, -32768, 16777217, -16777217,
            16842753, 33554435, 2**31 - 1, -(2**31), 2**40 + 1, -(2**40) - 1, 2**53 + 1,
            2**62 + 2**38 + 1, 2**63 - 1, -(2**63)]  # fmt: skip

KERNEL = """\
kernel @k(A: {source}[{n}], out C: {target}[{n}]) {{
  grid (g) in [1] {{
    alloc a: register {source}[{n}]
    alloc c: register {target}[{n}]
    load a, A[0 +: {n}]
    ewise c = {expr}
    store C[0 +: {n}], c
  }}
}}
"""


def inputs(dtype: DType) -> np.ndarray:
    if dtype is DType.BOOL:
        return np.arange(32) % 2 == 1
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return rounded(np.array(FLOATS), dtype)
    limit = 2 ** (dtype.bits - 1)
    fitting = [i for i in INTEGERS if -limit <= i < limit]
    return np.array((fitting * 32)[:32], dtype=dtype.value.replace("i", "int"))


def both(source: DType, target: DType, expr: str, on: str) -> tuple[np.ndarray, np.ndarray]:
    """What the emitted kernel stores, and what the reference interpreter does."""
    program = parse(KERNEL.format(source=source.value, target=target.value, expr=expr, n=32))
    device = "cuda" if on == "jit" else "cpu"
    a = inputs(source)
    tensor = torch.from_numpy(a).to(getattr(torch, TORCH_NAME[source])).to(device)
    out = torch.zeros(32, dtype=getattr(torch, TORCH_NAME[target]), device=device)
    kernel = compile(program, on)
    assert isinstance(kernel, CompiledKernel)
    kernel(tensor, out)
    arrays = {"A": a, "C": rounded(np.zeros(32), target)}
    with np.errstate(all="ignore"):
        run(program, arrays)
    found = out.cpu().double() if target.is_float else out.cpu()
    expected = arrays["C"].astype(np.float64) if target.is_float else arrays["C"]
    return found.numpy(), expected


def check(source: DType, target: DType, expr: str, on: str) -> None:
    found, expected = both(source, target, expr, on)
    np.testing.assert_array_equal(found, expected)


UNSAYABLE = {(DType.F64, DType.F8E4M3), (DType.F64, DType.F8E5M2)}
PAIRS = [p for p in itertools.permutations(DType, 2) if p not in UNSAYABLE]


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda d: d.value)
def test_every_cast_agrees_with_the_reference(source: DType, target: DType, on: str):
    check(source, target, f"cast({target.value}, a)", on)


@pytest.mark.parametrize(("source", "target"), sorted(UNSAYABLE, key=str), ids=lambda d: d.value)
def test_cast_that_triton_lacks_is_refused_with_the_line(source: DType, target: DType):
    with pytest.raises(CodegenError, match="cast to f32 in between") as raised:
        both(source, target, f"cast({target.value}, a)", "interpret")
    assert f"ewise c = cast({target.value}, a)" in str(raised.value)


@pytest.mark.parametrize("on", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "expr"),
    [
        ("f64", "cast(f64, 0.1) + a"),
        ("f32", "cast(f32, cast(bf16, 0.1)) + a"),
        ("i64", "cast(i64, 3000000001) + a"),
        ("i64", "cast(i64, 3000000001)"),
        ("i8", "100 + 100"),
        ("i8", "-(-128)"),
        ("i8", "a + 100 * 3"),
        ("i8", "a * 100"),
        ("f32", "max(a, 0)"),
        ("f32", "min(0, a)"),
        ("f64", "max(a, 1)"),
    ],
)
def test_numbers_keep_their_digits_and_wrap_and_nan_propagates(dtype: str, expr: str, on: str):
    check(DType(dtype), DType(dtype), expr, on)


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_sums_of_small_integers_wrap_in_their_own_type(dtype: str):
    wide = "cast(i32, a) + cast(i32, expand(sum(a, 0), 0))"  # of the wrapped sum
    check(DType(dtype), DType.I32, wide, "interpret")


def test_max_and_min_are_told_to_propagate_nan():
    # in Triton's interpreter they do in any case; on a GPU the test above needs it
    program = parse(KERNEL.format(source="f32", target="f32", expr="max(a, min(a, 0))", n=32))
    assert emit(program).source.count("propagate_nan=tl.PropagateNan.ALL") == 2
