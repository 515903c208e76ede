"""The operators on CPU tensors against fp64, by torch's arithmetic and by the interpreted kernels:
the same shapes, types, layouts and refusals."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from backends.torch_ops import conv2d, interpreted, linear, matmul
from backends.torch_ops.conv_kernels import kernel_of
from tests.support.numerics import laid_out, normal
from tests.support.torch_ops import ACTIVATIONS, Calls, check_conv2d, check_linear, check_matmul

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
LAST = torch.channels_last


@pytest.fixture(params=["torch's arithmetic", "interpreted"], autouse=True)
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    with interpreted() if request.param == "interpreted" else nullcontext():
        yield


# --- matmul

SHAPES = {
    "matrices": ((9, 16), (16, 8)),
    "batches": ((2, 9, 16), (2, 16, 8)),
    "batches that broadcast": ((2, 1, 9, 16), (3, 16, 8)),
    "a matrix b for all": ((2, 3, 9, 16), (16, 8)),
    "a matrix a for all": ((9, 16), (2, 16, 8)),
    "a vector a": ((16,), (16, 8)),
    "a vector b": ((2, 9, 16), (16,)),
    "two vectors": ((16,), (16,)),
    "no row": ((0, 16), (16, 8)),
    "no column": ((9, 16), (16, 0)),
    "no batch": ((0, 9, 16), (16, 8)),
    "an empty sum": ((9, 0), (0, 8)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_matmul_has_the_shapes_of_torch(name: str):
    of_a, of_b = SHAPES[name]
    a, b = normal(of_a, BF16, 1), normal(of_b, BF16, 2)
    check_matmul(matmul(a, b), a, b)


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_matmul_of_every_type(dtype: torch.dtype):
    a, b = normal((20, 40), dtype, 1), normal((40, 24), dtype, 2)
    check_matmul(matmul(a, b), a, b)


def test_matmul_of_tensors_that_lie_otherwise():
    a, b = normal((20, 40), BF16, 1), normal((40, 24), BF16, 2)
    for left in (laid_out(a, 0), laid_out(a, 1, 3), laid_out(a, 0, 8, 1), a[:, ::2], a[:1]):
        right = b if left.shape[-1] == 40 else b[::2]
        for turned in (right, laid_out(right, 0), laid_out(right, 1, 5)):
            check_matmul(matmul(left, turned), left, turned)
    check_matmul(matmul(a[:1].expand(7, 40), b), a[:1].expand(7, 40), b)


# --- linear


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_linear_with_each_activation(activation, dtype: torch.dtype):
    x, weight, bias = (
        normal((18, 40), dtype, 1),
        normal((24, 40), dtype, 2),
        normal((24,), dtype, 3),
    )
    check_linear(linear(x, weight, bias, activation), x, weight, bias, activation)


@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 3, 16), (0, 16), (2, 0, 16)], ids=str)
def test_linear_keeps_leading_dimensions(shape: tuple[int, ...]):
    x, weight, bias = normal(shape, F16, 1), normal((24, 16), F16, 2), normal((24,), F16, 3)
    result = linear(x, weight, bias, "relu")
    assert result.shape == (*shape[:-1], 24)
    check_linear(result, x, weight, bias, "relu")


def test_linear_of_rows_in_pieces_and_of_weights_in_columns():
    x, weight = normal((2, 9, 32), BF16, 1)[:, :5], laid_out(normal((24, 32), BF16, 2), 0)
    check_linear(linear(x, weight), x, weight, None, "none")


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_one_bias_goes_to_all_columns(shape: tuple[int, ...]):
    x, weight = normal((9, 16), F32, 1), normal((24, 16), F32, 2)
    bias = torch.full(shape, 2.5)
    check_linear(linear(x, weight, bias), x, weight, bias.expand(24), "none")


def test_an_empty_sum_is_the_bias():
    bias = normal((6,), BF16, 1)
    result = linear(torch.ones(4, 0, dtype=BF16), torch.ones(6, 0, dtype=BF16), bias, "relu")
    assert torch.equal(result, F.relu(bias).expand(4, 6))


def test_nan_goes_through_relu_in_its_row_only():
    x, weight = normal((9, 16), F32, 1), normal((24, 16), F32, 2)
    x[3, 5] = torch.nan
    result = linear(x, weight, None, "relu")
    assert result[3].isnan().all()
    assert result.isnan().sum() == 24


# --- conv2d

STEPS = {
    "plain": {},
    "padded": {"padding": 1},
    "strides": {"stride": (2, 1), "padding": (1, 2)},
    "dilated": {"dilation": (1, 2), "padding": (0, 1)},
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, LAST], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_conv2d_with_its_steps_in_both_layouts(name: str, layout: torch.memory_format):
    steps = STEPS[name]
    x = normal((2, 5, 8, 9), BF16, 1).contiguous(memory_format=layout)
    weight, bias = normal((6, 5, 3, 2), BF16, 2), normal((6,), BF16, 3)
    check_conv2d(conv2d(x, weight, bias, **steps), x, weight, bias, steps)


@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_conv2d_of_every_type(dtype: torch.dtype):
    x, weight = normal((2, 5, 6, 7), dtype, 1), normal((6, 5, 3, 3), dtype, 2)
    check_conv2d(conv2d(x, weight), x, weight, None, {})


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_conv2d_with_each_activation(activation):
    x, weight, bias = (
        normal((1, 5, 6, 7), F16, 1),
        normal((6, 5, 3, 3), F16, 2),
        normal((6,), F16, 3),
    )
    result = conv2d(x, weight, bias, activation=activation)
    check_conv2d(result, x, weight, bias, {}, activation)


def test_a_window_of_one_pixel_is_a_product():
    x = normal((2, 16, 5, 6), BF16, 1).contiguous(memory_format=LAST)
    weight, bias = normal((24, 16, 1, 1), BF16, 2), normal((24,), BF16, 3)
    before = kernel_of.cache_info()
    check_conv2d(conv2d(x, weight, bias, activation="gelu"), x, weight, bias, {}, "gelu")
    assert before == kernel_of.cache_info()
    check_conv2d(conv2d(x, weight, bias, stride=2), x, weight, bias, {"stride": 2})


def test_layouts_follow_the_weight_too_and_views_of_images_are_taken():
    x, weight = normal((2, 8, 6, 7), BF16, 1), normal((6, 8, 3, 3), BF16, 2)
    last = weight.contiguous(memory_format=LAST)
    check_conv2d(conv2d(x, last), x, last, None, {})
    for seen in (x[:, :, ::2], x[..., ::2], x.contiguous(memory_format=LAST)[..., 1:5]):
        value, same = conv2d(seen, weight), F.conv2d(seen.double(), weight.double())
        assert torch.allclose(value.double(), same, rtol=1e-2, atol=1e-1)


def test_images_of_one_pixel_that_lie_anyhow():
    x = torch.full((), 3.0).as_strided((1, 1, 1, 1), (9, 8, 7, 6))
    weight = torch.full((), 2.0).as_strided((1, 1, 1, 1), (5, 7, 9, 4))
    assert conv2d(x, weight, padding=1)[0, 0].tolist() == [[0, 0, 0], [0, 6, 0], [0, 0, 0]]
    last = torch.ones(2, 4, 1, 3).contiguous(memory_format=LAST)
    result = conv2d(last, torch.ones(1, 4, 1, 3))
    assert result.flatten().tolist() == [12, 12]


def test_one_image_without_a_batch_and_no_image():
    x, weight = normal((5, 6, 7), F32, 1), normal((6, 5, 3, 3), F32, 2)
    assert torch.equal(conv2d(x, weight), conv2d(x[None], weight)[0])
    assert conv2d(normal((0, 5, 6, 7), F32, 1), weight).shape == (0, 6, 4, 5)


def test_paddings_by_name():
    x, weight = normal((1, 5, 6, 7), F32, 1), normal((6, 5, 3, 5), F32, 2)
    for name in ("valid", "same"):
        result = conv2d(x, weight, padding=name, dilation=(2, 1))
        check_conv2d(result, x, weight, None, {"padding": name, "dilation": (2, 1)})


# --- refusals, each beside the neighbours above

X, W, IMAGES, FILTERS = (
    torch.ones(4, 16),
    torch.ones(8, 16),
    torch.ones(1, 4, 5, 5),
    torch.ones(6, 4, 3, 3),
)
REFUSED = {
    "b: expected 16 rows": lambda: matmul(X, W),
    "b: expected batches": lambda: matmul(torch.ones(2, 4, 16), torch.ones(3, 16, 8)),
    "a: expected a vector": lambda: matmul(torch.ones(()), X),
    "b: expected dtype torch.float32, as a": lambda: matmul(X, W.t().half()),
    "a: expected one of": lambda: matmul(X.int(), W.t().int()),
    "weight: expected a matrix": lambda: linear(X, W[0]),
    "x: expected 16 columns": lambda: linear(X[:, :8], W),
    "x: expected ": lambda: linear(torch.ones(()), W),
    "bias: expected shape": lambda: linear(X, W, torch.ones(7)),
    "bias: expected dtype torch.float32, as x": lambda: linear(X, W, torch.ones(8).half()),
    "activation: 'swish' is none of": lambda: linear(X, W, None, "swish"),  # pyright: ignore
    "x: expected four dimensions": lambda: conv2d(IMAGES[0, 0], FILTERS),
    "weight: expected 4 channels": lambda: conv2d(IMAGES, FILTERS[:, :2]),
    "weight: expected a channel": lambda: conv2d(IMAGES, FILTERS[:0]),
    "weight: expected a window that fits": lambda: conv2d(IMAGES, FILTERS, dilation=3),
    "groups: expected 1": lambda: conv2d(IMAGES, FILTERS[:, :2], groups=2),
    "stride: expected two ints of at least 1": lambda: conv2d(IMAGES, FILTERS, stride=0),
    "padding: expected two ints": lambda: conv2d(IMAGES, FILTERS, padding=(1, -1)),
    "padding: expected 'same' of": lambda: conv2d(IMAGES, FILTERS[..., :2], padding="same"),
    "padding: expected an int": lambda: conv2d(IMAGES, FILTERS, padding="full"),  # pyright: ignore
    "padding: expected 'same' of four": lambda: conv2d(IMAGES, W, padding="same"),
    "padding: expected an int or two, got 1.5": lambda: conv2d(
        IMAGES,
        FILTERS,
        padding=1.5,  # pyright: ignore
    ),
    "dilation: expected an int or two": lambda: conv2d(
        IMAGES,
        FILTERS,
        dilation=(1, "1"),  # pyright: ignore
    ),
    "stride: expected 1, as torch wants": lambda: conv2d(IMAGES, FILTERS, stride=2, padding="same"),
    "activation: expected a name, got None": lambda: linear(X, W, None, None),  # pyright: ignore
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_named(message: str):
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


OTHERS = {
    "got int": lambda: 1,
    "got ndarray": lambda: X.numpy(),
    "got torch.sparse_coo": lambda: X.to_sparse(),
    "got torch._mkldnn": lambda: X.to_mkldnn(),
    "got a quantized one": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "got a nested one": lambda: torch.nested.nested_tensor([X, X]),
}


@pytest.mark.parametrize("message", OTHERS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of nested and quantized tensors
def test_what_is_no_dense_tensor_is_named(message: str):
    other = OTHERS[message]()
    for name, call in {
        "a": lambda: matmul(other, W.t()),
        "weight": lambda: linear(X, other),
        "bias": lambda: conv2d(IMAGES, FILTERS, other),
    }.items():
        with pytest.raises(ValueError, match=f"{name}: expected .*, {message}"):
            call()


# --- results are tensors of their own

RESULTS = {
    "matmul": lambda x: matmul(x, W.t()),
    "linear": lambda x: linear(x, W),
    "linear and a bias": lambda x: linear(x, W, W[:, 0]),
    "linear and gelu": lambda x: linear(x, W, W[:, 0], "gelu"),
    "conv2d": lambda x: conv2d(x[:, :, None], W[..., None, None]),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_no_view_and_may_be_changed_in_place(name: str):
    x = normal((3, 16, 16), F32, 5).requires_grad_()
    result = RESULTS[name](x)
    assert not result._is_view()
    result.mul_(2).sum().backward()
    (expected,) = torch.autograd.grad(2 * RESULTS[name](x).sum(), x)
    torch.testing.assert_close(x.grad, expected)


# --- controls


def test_control_a_result_off_by_a_unit_of_its_last_place_is_found():
    x, weight = normal((18, 40), BF16, 1), normal((24, 40), BF16, 2)
    result = linear(x, weight, None, "gelu")
    result[5, 6] += 2 * torch.finfo(BF16).eps * max(1, abs(result[5, 6].item()))
    with pytest.raises(AssertionError, match="1 of 432 elements are wrong"):
        check_linear(result, x, weight, None, "gelu")


def test_control_an_activation_left_out_is_found():
    x, weight = normal((18, 40), BF16, 1), normal((24, 40), BF16, 2)
    with pytest.raises(AssertionError, match="elements are wrong"):
        check_linear(linear(x, weight), x, weight, None, "relu")


def test_operators_stay_whole_in_dispatch():
    with Calls() as calls:
        linear(X, W, None, "gelu")
        matmul(X, W.t())
        conv2d(IMAGES, FILTERS)
    assert [n for n in calls.names if n.startswith("loopir")] == [
        "loopir.linear",
        "loopir.matmul",
        "loopir.conv2d",
    ]
