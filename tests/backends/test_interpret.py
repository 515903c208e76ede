"""Triton's interpreter, repaired: right for bf16 and fp8, and gone without a trace when it is
left."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from backends.triton_codegen import compile, emit
from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.interpret import interpreting
from backends.triton_codegen.load import load
from backends.triton_codegen.rounding import from_float32, to_float32
from loopir.build import gemm
from loopir.errors import CodegenError
from loopir.parser import parse
from loopir.types import DType
from passes.stream_k import StreamKPass
from tests.support.numerics import check_close, check_product, guarded, normal

TORCH = {"bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}

CASTS = """\
kernel @casts(X: f32[N], out B: bf16[N], out E: f8e4m3[N], out F: f8e5m2[N], out H: f16[N], out Y: f32[3, N])
    where N = 4096 {
  grid (t) in [1] {
    alloc x: register f32[N]
    alloc b: register bf16[N]
    alloc e: register f8e4m3[N]
    alloc f: register f8e5m2[N]
    alloc h: register f16[N]
    load x, X[0 +: N]
    ewise b = cast(bf16, x)
    ewise e = cast(f8e4m3, x)
    ewise f = cast(f8e5m2, x)
    ewise h = cast(f16, x)
    store B[0 +: N], b
    store E[0 +: N], e
    store F[0 +: N], f
    store H[0 +: N], h
    ewise x = cast(f32, b)
    store Y[0, 0 +: N], x
    ewise x = cast(f32, e)
    store Y[1, 0 +: N], x
    ewise x = cast(f32, f)
    store Y[2, 0 +: N], x
  }
}
"""  # noqa: E501


def awkward_values() -> torch.Tensor:
    """Ties of every type, subnormals, both infinities, and values over the whole range."""
    rng = torch.Generator().manual_seed(1)
    exponents = torch.randint(-44, 40, (4000,), generator=rng).double()
    values = (torch.randint(128, 256, (4000,), generator=rng) + 0.5) * 2**exponents
    values[::3] *= -1
    special = [
        0.0,
        -0.0,
        1e-40,
        6e-8,
        2**-10,
        3 * 2**-11,
        448,
        464,
        465,
        57344,
        61440,
        61441,
        3.3e38,
    ]
    special += [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-4, 1 + 3 * 2**-4, float("inf"), -float("inf")]
    return torch.cat([values.float(), torch.tensor(special)])[:4096]


@pytest.mark.parametrize("name", TORCH)
def test_conversion_agrees_with_torch_where_it_does_not_saturate(name: str):
    values = awkward_values()
    largest = torch.finfo(TORCH[name]).max
    inside = values[values.abs() <= largest]
    expected = inside.to(TORCH[name]).float().numpy()
    assert np.array_equal(to_float32(from_float32(inside.numpy(), name), name), expected)


@pytest.mark.parametrize("name", ["fp8e4nv", "fp8e5"])
def test_fp8_saturates_and_keeps_nan(name: str):
    largest = torch.finfo(TORCH[name]).max
    values = np.array([1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    found = to_float32(from_float32(values, name), name)
    assert np.array_equal(found, [largest, -largest, largest, -largest, np.nan], equal_nan=True)


def test_bf16_keeps_infinities_and_nan():
    values = np.array([np.inf, -np.inf, np.nan, 3.4e38], np.float32)
    found = to_float32(from_float32(values, "bf16"), "bf16")
    assert np.array_equal(found, [np.inf, -np.inf, np.nan, np.inf], equal_nan=True)


def test_f64_is_rounded_to_bf16_once():
    just_above_a_tie = np.array([1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40], np.float64)
    found = to_float32(from_float32(just_above_a_tie, "bf16"), "bf16")
    assert found.tolist() == [1 + 2**-7, 1 + 2**-7]


def test_casts_of_a_kernel_agree_with_torch():
    x = torch.zeros(4096)
    x[: len(awkward_values())] = awkward_values()
    x.clamp_(-448, 448)
    outputs = [torch.zeros(4096).to(d) for d in (*TORCH.values(), torch.float16)]
    y = torch.full((3, 4096), torch.nan)
    compile(parse(CASTS), "interpret")(x, *outputs, y)
    for output in outputs:
        assert output.float().equal(x.to(output.dtype).float())
    assert y.equal(torch.stack([x.to(d).float() for d in TORCH.values()]))


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "f8e5m2"])
def test_dot_of_types_kept_as_bits(dtype: str):
    kind = {"bf16": torch.bfloat16, "f8e4m3": TORCH["fp8e4nv"], "f8e5m2": TORCH["fp8e5"]}[dtype]
    a, b, c = normal((64, 96), kind, 1), normal((96, 32), kind, 2), guarded((64, 32))
    compile(gemm(64, 32, 96, dtype, tile=(32, 32, 32)), "interpret")(a, b, c.tensor)
    check_product(c, a.float(), b.float())


def test_runtime_loop_bounds_work_with_any_numpy():
    program = StreamKPass(units=3, merge="atomic").apply(gemm(64, 32, 96, "f32", tile=(32, 32, 32)))
    a, b, c = (
        normal((64, 96), torch.float32, 1),
        normal((96, 32), torch.float32, 2),
        guarded((64, 32)),
    )
    compile(program, "interpret")(a, b, c.tensor)
    check_product(c, a, b)


def state() -> list:
    """Everything that interpreting replaces."""
    owners = [tl, tl.core, tl.math, tl.standard, tl.tensor, tl.dtype, tl.core.constexpr]
    owners += [interpreter, interpreter.InterpreterBuilder]
    return [dict(vars(owner)) for owner in owners] + [interpreter.interpreter_builder.options]


def test_everything_is_put_back_after_a_run_and_after_an_error():
    module = load(emit(gemm(32, 32, 32, "f32", tile=(32, 32, 32))).source)
    before, globals_before = (
        state(),
        {k: v for k, v in vars(module).items() if type(v) is JITFunction},
    )
    with interpreting(vars(module)):
        module.launch(torch.ones(32, 32), torch.ones(32, 32), torch.ones(32, 32))
    with pytest.raises(ZeroDivisionError), interpreting(vars(module)):
        raise ZeroDivisionError
    assert state() == before
    assert {k: v for k, v in vars(module).items() if type(v) is JITFunction} == globals_before
    assert not triton.knobs.runtime.interpret


def test_compiling_ahead_after_interpreting_gives_the_same_assembly():
    program = gemm(64, 64, 64, tile=(64, 64, 32))
    a = torch.ones(64, 64, dtype=torch.bfloat16)
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        first = compile(program, "cuda:80", num_warps=4)
        compile(program, "interpret")(a, a, torch.empty(64, 64))
        second = compile(program, "cuda:80", num_warps=4)
    assert second.assembly == first.assembly
    assert second.binary == first.binary


def test_interpreted_numbers_warn_of_nothing():
    text = """\
kernel @over(X: f32[N], out Y: f32[N])
    where N = 16 {
  grid (t) in [1] {
    alloc x: register f32[N]
    load x, X[0 +: N]
    ewise x = exp(x) - exp(x) / 0
    store Y[0 +: N], x
  }
}
"""
    x, y = torch.full((16,), 1e9), torch.zeros(16)
    compile(parse(text), "interpret")(x, y)
    check_close(y, torch.full((16,), torch.nan), 0)


def test_what_the_interpreter_cannot_do_is_an_error_of_the_toolkit():
    text = """\
kernel @add(X: bf16[N], out Y: bf16[N])
    where N = 16
    requires zeroed(Y) {
  grid (t) in [1] {
    alloc x: register bf16[N]
    load x, X[0 +: N]
    atomic add Y[0 +: N], x
  }
}
"""
    x = torch.ones(16, dtype=torch.bfloat16)
    with pytest.raises(CodegenError, match="interpret: Triton cannot run @add"):
        compile(parse(text), "interpret")(x, torch.zeros_like(x))


@pytest.mark.parametrize(("dtype", "refused"), [("bf16", True), ("f8e4m3", True), ("f16", False)])
def test_file_alone_refuses_what_tritons_own_interpreter_gets_wrong(dtype, refused, tmp_path):
    source = emit(gemm(16, 16, 32, dtype, tile=(16, 16, 32))).source
    (tmp_path / "alone.py").write_text(source)
    drive = (
        "import torch, alone\n"
        f"t = torch.{TORCH_NAME[DType(dtype)]}\n"
        "a, b, c = torch.ones(16, 32).to(t), torch.ones(32, 16).to(t), torch.zeros(16, 16)\n"
        "try: alone.launch(a, b, c)\n"
        "except ValueError as error: print('refused:', error)\n"
        "except Exception: print('tried')\n"
    )
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", drive], env=env, capture_output=True, text=True)
    assert ("refused: A: expected a GPU" in out.stdout) is refused, out.stdout + out.stderr
