"""The operators as torch sees them: schema, fake, autograd and dispatch agree; graphs keep them;
autocast casts for them."""

from typing import Any

import pytest
import torch
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint

from backends.torch_ops import conv2d, linear, matmul
from tests.support.numerics import normal
from tests.support.torch_ops import Calls, called, graphs_of_autograd

BF16, F32 = torch.bfloat16, torch.float32
OPS: Any = torch.ops.loopir
LAST = torch.channels_last


def leaf(shape: tuple[int, ...], seed: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return normal(shape, dtype, seed).requires_grad_()


def images(layout: torch.memory_format) -> torch.Tensor:
    return normal((2, 3, 6, 7), F32, 1).contiguous(memory_format=layout).requires_grad_()


SAMPLES = {
    "matmul": ("matmul", (leaf((3, 4), 1), leaf((4, 2), 2))),
    "matmul of batches": ("matmul", (leaf((2, 1, 3, 4), 1), leaf((5, 4, 2), 2))),
    "matmul of vectors": ("matmul", (leaf((4,), 1), leaf((4,), 2))),
    "matmul of views": ("matmul", (leaf((4, 3), 1).detach().t(), leaf((2, 4), 2).detach().t())),
    "matmul bf16": ("matmul", (leaf((3, 4), 1, BF16), leaf((4, 2), 2, BF16))),
    "linear": ("linear", (leaf((2, 3, 4), 1), leaf((5, 4), 2), leaf((5,), 3), "none")),
    "linear relu": ("linear", (leaf((3, 4), 1), leaf((5, 4), 2), None, "relu")),
    "linear gelu": ("linear", (leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3), "gelu")),
    "linear silu": ("linear", (leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3), "silu")),
    "conv2d": ("conv2d", (images(torch.contiguous_format), leaf((5, 3, 3, 2), 2))),
    "conv2d steps": ("conv2d", (images(LAST), leaf((5, 3, 3, 2), 2), leaf((5,), 3),
                                [2, 1], [0, 1], [1, 2], "relu")),
    "conv2d gelu": ("conv2d", (images(LAST), leaf((5, 3, 1, 1), 2), leaf((5,), 3),
                               [1, 1], [0, 0], [1, 1], "gelu")),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name: str):
    op, args = SAMPLES[name]
    checks = opcheck(getattr(OPS, op).default, args)
    assert set(checks.values()) == {"SUCCESS"}
    assert len(checks) == 4


# --- controls of opcheck: operators of which one part is wrong

torch.library.define("loopir_wrong::shape", "(Tensor a) -> Tensor")
torch.library.impl("loopir_wrong::shape", "cpu")(lambda a: a.new_ones(a.shape[1:]))
torch.library.register_fake("loopir_wrong::shape")(lambda a: a.new_empty(a.shape))
torch.library.define("loopir_wrong::layout", "(Tensor a) -> Tensor")
torch.library.impl("loopir_wrong::layout", "cpu")(lambda a: a.new_ones((4, 3)).t())
torch.library.register_fake("loopir_wrong::layout")(lambda a: a.new_empty((3, 4)))
torch.library.define("loopir_wrong::alias", "(Tensor a) -> Tensor")
torch.library.impl("loopir_wrong::alias", "cpu")(lambda a: a)
torch.library.register_fake("loopir_wrong::alias")(lambda a: a.new_empty(a.shape))


@pytest.mark.parametrize("name", ["shape", "layout", "alias"])
def test_control_opcheck_finds_a_wrong_operator(name: str):
    op = getattr(torch.ops.loopir_wrong, name).default
    with pytest.raises(Exception, match=r"opcheck|[Aa]lias|shape|stride"):
        opcheck(op, (torch.ones(3, 4),))


# --- graphs


def block(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return matmul(linear(x, weight, bias, "gelu"), weight).sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_graphs_keep_the_operators_forward_and_backward(dynamic: bool):
    operands = leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)
    expected = torch.autograd.grad(block(*operands), operands)
    with graphs_of_autograd() as (backend, graphs):
        compiled = torch.compile(block, backend=backend, fullgraph=True, dynamic=dynamic)
        found = torch.autograd.grad(compiled(*operands), operands)
    forward, backward = map(called, graphs)
    assert (forward.count("loopir.linear"), forward.count("loopir.matmul")) == (1, 1)
    assert (backward.count("loopir.linear"), backward.count("loopir.matmul")) == (1, 4)
    assert not {"aten.mm", "aten.addmm", "aten.linear"} & {*forward, *backward}
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other)


def test_control_torch_s_own_product_is_seen_in_a_graph():
    with graphs_of_autograd() as (backend, graphs):
        torch.compile(torch.matmul, backend=backend, fullgraph=True)(
            torch.ones(3, 4), torch.ones(4, 2)
        )
    assert "aten.mm" in called(graphs[0])
    assert "loopir.matmul" not in called(graphs[0])


def test_one_graph_serves_sizes_that_change():
    weight, bias = normal((5, 4), F32, 2), normal((5,), F32, 3)
    with graphs_of_autograd() as (backend, graphs):
        compiled = torch.compile(block, backend=backend, fullgraph=True, dynamic=True)
        for rows in (3, 6, 11):
            x = normal((rows, 4), F32, rows)
            torch.testing.assert_close(compiled(x, weight, bias), block(x, weight, bias))
        assert len(graphs) == 1


def test_convolutions_stay_in_graphs():
    x, weight = images(LAST), leaf((5, 3, 3, 3), 2)

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return conv2d(x, weight, padding="same", activation="relu")

    with graphs_of_autograd() as (backend, graphs):
        result = torch.compile(function, backend=backend, fullgraph=True)(x, weight)
        result.sum().backward()
    assert result.is_contiguous(memory_format=LAST)
    assert called(graphs[0]).count("loopir.conv2d") == 1
    assert "aten.convolution_backward" in called(graphs[1])


def test_a_wrong_shape_is_named_while_tracing():
    with pytest.raises(Exception, match="b: expected 4 rows, as a has columns"):
        torch.compile(matmul, backend="eager", fullgraph=True)(torch.ones(3, 4), torch.ones(3, 2))


# --- transforms


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's, of itself
def test_forward_mode_is_refused_rather_than_zero():
    x, weight = normal((3, 4), F32, 1), normal((4, 2), F32, 2)
    with pytest.raises(NotImplementedError, match="loopir::matmul: no forward-mode derivative"):
        torch.func.jvp(lambda w: matmul(x, w), (weight,), (weight,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
            matmul(dual, weight)
    assert matmul(x, weight).shape == (3, 2)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's, of itself
def test_forward_mode_is_refused_within_a_compiled_function():
    weight = normal((4, 2), F32, 2)

    @torch.compile(backend="aot_eager")
    def pushed(x: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda t: matmul(t, weight), (x,), (x,))[1]

    with pytest.raises(Exception, match="loopir::matmul: no forward-mode derivative"):
        pushed(normal((3, 4), F32, 1))


def test_function_transforms_are_refused():
    x, weight = normal((3, 4), F32, 1), normal((5, 4), F32, 2)
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda w: linear(x, w).sum())(weight)


def test_recomputed_regions_have_the_same_gradients():
    x, weight = normal((3, 4), F32, 1), leaf((5, 4), 2)
    result = checkpoint(linear, x, weight, None, "gelu", use_reentrant=False)
    (found,) = torch.autograd.grad(result.sum(), weight)
    (expected,) = torch.autograd.grad(linear(x, weight, None, "gelu").sum(), weight)
    assert torch.equal(found, expected)


# --- autocast


def test_autocast_casts_and_gradients_come_back():
    x, weight, bias = leaf((3, 4), 1), leaf((5, 4), 2), leaf((5,), 3)
    with torch.autocast("cpu", dtype=BF16):
        result = linear(x, weight, bias, "relu")
        assert matmul(x, weight.t()).dtype is BF16
        assert conv2d(images(LAST), leaf((5, 3, 3, 3), 2)).dtype is BF16
    assert result.dtype is BF16
    assert torch.equal(result, linear(x.to(BF16), weight.to(BF16), bias.to(BF16), "relu"))
    result.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype is F32


def test_autocast_leaves_fp64_alone():
    a = torch.ones(3, 4, dtype=torch.float64)
    with torch.autocast("cpu", dtype=BF16):
        assert matmul(a, a.t()).dtype is torch.float64


def test_without_autocast_nothing_is_cast():
    a, b = normal((3, 4), BF16, 1), normal((4, 2), BF16, 2)
    with Calls() as calls:
        matmul(a, b)
    assert calls.names == ["loopir.matmul"]
