"""`matmul` on the CPU, where the planned kernels are interpreted: values, layouts, what is kept."""

from pathlib import Path

import pytest
import torch

import backends.triton_codegen.ops.matmul as ops
from backends.planner import Config, Kind
from backends.triton_codegen import matmul
from backends.triton_codegen.ops.matmul import plan_for
from loopir.errors import LoopIRError
from tests.support.numerics import bound, check_close, guarded, integers, laid_out, normal, product
from tests.support.products import check_call

BF16, F16, F32, F64, I8 = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.int8,
)


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ops, "_bound", {})


def pair(m: int, n: int, k: int, dtype=BF16, batch: tuple[int, ...] = ()):
    make = integers if dtype is I8 else normal
    return make((*batch, m, k), dtype, 1), make((*batch, k, n), dtype, 2)


# --- values


@pytest.mark.parametrize("dtype", [BF16, F16, F32, F64, I8], ids=str)
def test_every_operand_type(dtype: torch.dtype):
    a, b = pair(40, 24, 48, dtype)
    check_call(a, b, out_dtype=torch.int32 if dtype is I8 else None)


@pytest.mark.parametrize("out_dtype", [BF16, F16, F32], ids=str)
def test_every_result_type(out_dtype: torch.dtype):
    check_call(*pair(24, 40, 32), out_dtype=out_dtype)


@pytest.mark.parametrize("contiguous", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("pad", [0, 3, 8])
def test_every_layout(contiguous: tuple[int, int], pad: int):
    a, b = pair(40, 24, 48)
    check_call(laid_out(a, contiguous[0], pad), laid_out(b, contiguous[1], pad))


def test_an_address_off_by_an_element():
    a, b = pair(40, 24, 48)
    check_call(laid_out(a, 1, 0, 1), laid_out(b, 0, 0, 1))


def test_without_a_stride_of_one_a_tensor_is_copied():
    a, b = pair(40, 24, 96)
    check_call(a[:, ::2], b[::2, ::3])


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 40, 64), (40, 1, 64), (1, 1, 300), (3, 70, 257), (17, 33, 5)]
)
def test_sizes_that_fill_no_tile(m: int, n: int, k: int):
    check_call(*pair(m, n, k))


@pytest.mark.parametrize(("m", "n", "k"), [(0, 4, 8), (4, 0, 8), (0, 0, 0), (4, 6, 0)])
def test_empty_products(m: int, n: int, k: int):
    result = matmul(torch.ones(m, k, dtype=BF16), torch.ones(k, n, dtype=BF16))
    assert torch.equal(result, torch.zeros(m, n, dtype=BF16))


def test_an_empty_sum_keeps_the_epilogue():
    bias = normal((6,), BF16, 3)
    result = matmul(torch.ones(4, 0, dtype=BF16), torch.ones(0, 6, dtype=BF16), bias=bias)
    assert torch.equal(result, bias.expand(4, 6))


SHAPES = {
    "batches": ((2, 9, 16), (2, 16, 8)),
    "one batch of b for all": ((2, 9, 16), (1, 16, 8)),
    "one batch of a for all": ((1, 9, 16), (3, 16, 8)),
    "one batch": ((1, 9, 16), (1, 16, 8)),
    "one batch of b and a matrix a": ((9, 16), (1, 16, 8)),
    "one batch of b and a vector a": ((16,), (1, 16, 8)),
    "one batch in two dimensions": ((1, 1, 9, 16), (1, 1, 16, 8)),
    "two dimensions of batches": ((2, 1, 9, 16), (3, 16, 8)),
    "a matrix b for all": ((2, 3, 9, 16), (16, 8)),
    "a matrix a for all": ((9, 16), (2, 16, 8)),
    "no batch at all": ((0, 9, 16), (0, 16, 8)),
    "a vector a": ((16,), (16, 8)),
    "a vector b": ((9, 16), (16,)),
    "two vectors": ((16,), (16,)),
    "batches of a and a vector b": ((2, 9, 16), (16,)),
    "a vector a and batches of b": ((16,), (2, 16, 8)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_of_torch(name: str):
    of_a, of_b = SHAPES[name]
    check_call(normal(of_a, BF16, 1), normal(of_b, BF16, 2))


def test_batches_that_lie_apart_are_a_batch():
    a = normal((2, 9, 32), BF16, 1)[:, :5]
    check_call(a, normal((32, 8), BF16, 2))


# --- epilogue, out


def test_the_epilogue_in_its_order():
    (a, b), out = pair(24, 40, 32, F32), normal((24, 40), F32, 5)
    bias, residual = normal((40,), F32, 3), normal((24, 40), F32, 4)
    inner = 2 * product(a, b).value - 0.5 * out.double() + bias.double()
    expected = inner.clamp(min=0) + residual.double()
    options = {"alpha": 2, "beta": -0.5, "activation": "relu"}
    result = matmul(a, b, out=out, bias=bias, residual=residual, **options)
    assert result is out
    check_close(out, expected, 2 * bound(product(a, b), F32, F32) + 1e-5)


def test_a_first_call_adds_to_out_once():
    a, b = (m.float() for m in pair(8, 8, 16, I8))
    out = torch.ones(8, 8)
    matmul(a, b, out=out, beta=1)
    assert torch.equal(out, a @ b + 1)


def test_out_may_have_rows_apart_and_nothing_beside_is_written():
    a, b = pair(24, 40, 32)
    out = guarded((24, 40), BF16, pad=5)
    assert matmul(a, b, out=out.tensor) is out.tensor
    check_close(out.tensor, product(a, b).value, bound(product(a, b), F32, BF16))
    out.check_guards()


@pytest.mark.parametrize("extras", [{}, {"residual": F32}, {"bias": F32}], ids=["", "r", "b"])
def test_out_may_lie_by_columns(extras: dict[str, torch.dtype]):
    a, b = pair(24, 40, 32, F32)
    shapes = {"residual": (24, 40), "bias": (40,)}
    added = {name: normal(shapes[name], dtype, 4) for name, dtype in extras.items()}
    out = torch.empty(40, 24).t()
    for _ in range(2):
        assert matmul(a, b, out=out, **added) is out
        expected = product(a, b).value + sum(t.double() for t in added.values())
        check_close(out, expected, 2 * bound(product(a, b), F32, F32) + 1e-5)


def test_out_may_lie_anyhow():
    a, b = pair(24, 40, 32, F32, (2,))
    out = torch.ones(24, 40, 4).permute(2, 0, 1)[::2]
    assert matmul(a, b, out=out, beta=1) is out
    check_close(out, product(a, b).value + 1, bound(product(a, b), F32, F32) + 1e-5)


@pytest.mark.parametrize(
    ("of_a", "of_b", "order"),
    [
        ((2, 3, 5, 16), (16, 8), (1, 0, 2, 3)),  # rows that are not equally far apart
        ((2, 3, 5, 16), (3, 16, 8), (1, 0, 2, 3)),  # batches that are not
        ((5, 3, 16), (16,), (1, 0)),
        ((16,), (2, 3, 16, 8), (1, 0, 2)),
        ((5, 3, 16), (16,), (0, 1)),
        ((2, 3, 5, 16), (16, 8), (0, 1, 2, 3)),
    ],
    ids=str,
)
def test_out_may_have_batches_in_any_order(of_a, of_b, order: tuple[int, ...]):
    a, b = normal(of_a, F32, 1), normal(of_b, F32, 2)
    expected = product(a, b)
    out = torch.empty(expected.value.permute(order).shape).permute(order)  # its own inverse
    for _ in range(2):
        assert matmul(a, b, out=out) is out
        check_close(out, expected.value, bound(expected, F32, F32))


def test_out_gives_the_result_s_type():
    a, b = pair(8, 8, 16)
    assert matmul(a, b, out=torch.empty(8, 8)).dtype is F32


# --- what is kept


def test_tensors_alike_share_what_was_compiled(monkeypatch: pytest.MonkeyPatch):
    a, b = pair(24, 40, 32)
    matmul(a, b)
    monkeypatch.setattr(ops, "first_call", None)  # would raise, were it called
    check_call(a.clone(), b.clone())


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b: (a[:8], b),
        lambda a, b: (a.half(), b.half()),
        lambda a, b: (laid_out(a, 0), b),
        lambda a, b: (laid_out(a, 1, 2), b),
        lambda a, b: (laid_out(a, 1, 0, 1), b),
    ],
    ids=["shape", "type", "layout", "rows apart", "address"],
)
def test_tensors_of_another_kind_do_not(change, monkeypatch: pytest.MonkeyPatch):
    a, b = pair(24, 40, 32)
    matmul(a, b)
    calls = []
    first = ops.first_call
    monkeypatch.setattr(ops, "first_call", lambda *args: calls.append(args) or first(*args))
    check_call(*change(a, b))
    assert len(calls) == 1


# --- plans


def test_a_plan_is_used():
    a, b = pair(24, 40, 64)
    for text in ("gemm 16x16x16 w4 s2", "gemm 32x(16+16)x32 w4 s2: stream-k{splits=2}"):
        check_call(a, b, plan=text)
    assert [str(kept.config) for kept in ops._bound.values()] == [
        "gemm 16x16x16 w4 s2",
        "gemm 32x(16+16)x32 w4 s2: stream-k{splits=2}",
    ]


def test_a_plan_that_is_not_for_this_problem_says_why():
    a, b = pair(8, 8, 16, batch=(2,))
    with pytest.raises(ValueError, match="a GEMV has no batch"):
        matmul(a, b, plan=Config((1, 8, 64), kind=Kind.GEMV))


def test_a_plan_that_no_pass_takes_says_why():
    with pytest.raises(LoopIRError, match="no kernel for"):
        matmul(*pair(8, 8, 16), plan="gemm 16x16x16 w4 s2: tile-order,tile-order{group=0}")


def test_a_plan_whose_kernel_wants_more_tensors_is_refused():
    text = "gemm 16x16x16 w4 s2: stream-k{units=4%s}"
    check_call(*pair(24, 40, 64), plan=text % "")
    with pytest.raises(LoopIRError, match="the kernel takes order beside the tensors of a product"):
        matmul(*pair(24, 40, 64), plan=text % " permuted=true")


def test_a_result_of_int8_wraps():
    a, b = torch.full((16, 64), 5, dtype=torch.int8), torch.full((64, 16), 7, dtype=torch.int8)
    assert torch.equal(matmul(a, b), a @ b)
    assert matmul(a, b, out_dtype=torch.int32).eq(64 * 35).all()


def test_the_plan_can_be_read():
    a, b = pair(24, 40, 64)
    found = plan_for(a, b, out_dtype=F32)
    assert (found.problem.m, found.problem.n, found.problem.k) == (24, 40, 64)
    assert str(found.chosen.config) in found.text()


def test_tuning_on_the_cpu_times_and_pins_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    check_call(*pair(24, 40, 64), tune=True)
    assert list(tmp_path.iterdir()) == []


# --- refusals

ONE, TWO = torch.ones(4, 6, dtype=BF16), torch.ones(6, 5, dtype=BF16)
REFUSED = {
    "b: expected a torch.Tensor, got list": (ONE, [1], {}),
    "a: expected a torch.Tensor, got int": (3, TWO, {}),
    "b: expected 6 rows, as a has columns, got shape [4, 6]": (ONE, ONE, {}),
    "b: expected dtype torch.bfloat16, as a, got torch.float16": (ONE, TWO.half(), {}),
    "a: expected one of": (ONE.cfloat(), TWO.cfloat(), {}),
    "out_dtype: expected one of": (ONE, TWO, {"out_dtype": torch.complex64}),
    "out: expected shape [4, 5], got [5, 4]": (ONE, TWO, {"out": torch.ones(5, 4, dtype=BF16)}),
    "out: expected dtype torch.float32, got torch.bfloat16": (
        ONE,
        TWO,
        {"out": torch.ones(4, 5, dtype=BF16), "out_dtype": F32},
    ),
    "out: expected a tensor that beta is for, got none": (ONE, TWO, {"beta": 1}),
    "bias: expected shape [5], got [4]": (ONE, TWO, {"bias": torch.ones(4)}),
    "out: expected memory of its own for each element, got strides [0, 1]": (
        ONE,
        TWO,
        {"out": torch.ones(1, 5, dtype=BF16).expand(4, 5)},
    ),
    "out: expected memory of its own for each element, got strides [1, 0]": (
        ONE,
        TWO,
        {"out": torch.ones(4, 1, dtype=BF16).expand(4, 5)},
    ),
    "bias: expected one of": (ONE, TWO, {"bias": torch.ones(5, dtype=torch.cfloat)}),
    "residual: expected one of": (ONE, TWO, {"residual": torch.ones(4, 5, dtype=torch.cfloat)}),
    "residual: expected shape [4, 5], got [4]": (ONE, TWO, {"residual": torch.ones(4)}),
    "b: expected batches that go with [2] of a, got [3]": (
        ONE.expand(2, 4, 6),
        TWO.expand(3, 6, 5),
        {},
    ),
    "a: expected a vector, a matrix or a batch of them, got a scalar": (ONE[0, 0], TWO, {}),
    "a: expected a dense tensor": (ONE.to_sparse(), TWO, {}),
    "b: expected device cpu, as a, got meta": (ONE, TWO.to("meta"), {}),
    "a: expected no gradient": (ONE.clone().requires_grad_(), TWO, {}),
    "activation: 'cosine'": (ONE, TWO, {"activation": "cosine"}),
    "alpha: a finite number": (ONE, TWO, {"alpha": float("nan")}),
    "plan: expected a Config, its text or None, got int": (ONE, TWO, {"plan": 3}),
    "config: 'fast'": (ONE, TWO, {"plan": "fast"}),
    "C: expected memory of its own": (ONE, TWO, {"out": ONE[:, :5]}),
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("times", [1, 2])
def test_what_does_not_fit_is_named(message: str, times: int):
    a, b, options = REFUSED[message]
    for _ in range(times):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            matmul(a, b, **options)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("out", [torch.ones(5, 4).t(), torch.ones(5, 4, 2)[..., 0].t()])
def test_what_does_not_fit_is_named_also_of_an_out_by_columns(out: torch.Tensor):
    with pytest.raises(ValueError, match=r"^b: expected a torch\.Tensor, got list"):
        matmul(torch.ones(4, 6), [1], out=out)  # pyright: ignore[reportArgumentType]


def test_a_gradient_is_refused_also_after_a_call_without():
    a, b = ONE.clone().requires_grad_(), TWO
    with torch.no_grad():
        matmul(a, b)
    with pytest.raises(ValueError, match="a: expected no gradient"):
        matmul(a, b)
    with torch.no_grad():
        matmul(a, b)
