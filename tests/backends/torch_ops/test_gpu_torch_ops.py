"""The operators on a GPU: values, gradients, graphs that are captured and replayed, torch.compile
with and without CUDA-graph trees, autocast."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.library import opcheck

from backends.torch_ops import CompileBackend, conv2d, linear, matmul
from backends.torch_ops.conv_kernels import kernel_of
from backends.triton_codegen.ops.matmul import plan_for
from tests.support.numerics import laid_out, normal
from tests.support.torch_ops import check_conv2d, check_linear, check_matmul, distance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:::torch"),  # torch's, of itself
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
]
BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
LAST = torch.channels_last
SPLIT = (256, 8192, 256)  # rows, sum, columns of a product whose sums are shared out


def t(*shape: int, dtype: torch.dtype = BF16, seed: int = 1) -> torch.Tensor:
    return normal(shape, dtype, seed, device="cuda")


def test_the_shared_sums_meet_in_a_workspace():
    rows, terms, columns = SPLIT
    plan = plan_for(t(rows, terms), t(columns, terms).t())
    assert "stream-k" in str(plan.chosen.config)


def live_blocks(pool: torch.cuda.MemPool) -> int:
    blocks = [block for segment in pool.snapshot() for block in segment["blocks"]]
    return sum(block["state"] == "active_allocated" for block in blocks)


def test_a_kept_workspace_lies_outside_the_pool_of_the_launching_thread():
    pool, rows, columns = torch.cuda.MemPool(), t(256, 8256), t(8256, 256, seed=2)
    with torch.cuda.use_mem_pool(pool):
        result = matmul(rows, columns)
    assert live_blocks(pool) == 1  # the control: the result is in there
    check_matmul(result, rows, columns)
    del result
    assert live_blocks(pool) == 0


# --- values


@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_matmul_of_every_type(dtype: torch.dtype):
    a, b = t(150, 264, dtype=dtype), t(264, 200, dtype=dtype, seed=2)
    check_matmul(matmul(a, b), a, b)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        (SPLIT[:2], SPLIT[1:]),
        ((3, 70, 264), (264, 136)),
        ((2, 1, 70, 72), (3, 72, 136)),
        ((264,), (264, 136)),
        ((0, 264), (264, 136)),
    ],
    ids=str,
)
def test_matmul_has_the_shapes_of_torch(of_a: tuple[int, ...], of_b: tuple[int, ...]):
    a, b = t(*of_a), t(*of_b, seed=2)
    check_matmul(matmul(a, b), a, b)


def test_matmul_of_tensors_that_lie_otherwise():
    a, b = t(128, 264), t(264, 256, seed=2)
    check_matmul(matmul(laid_out(a, 0), laid_out(b, 0, 0, 1)), a, b)
    check_matmul(matmul(a[:, ::2], b[::2]), a[:, ::2], b[::2])


@pytest.mark.parametrize("activation", ["none", "gelu", "silu", "tanh"])
def test_linear_with_each_activation(activation):
    x, weight, bias = t(4, 40, 256), t(192, 256, seed=2), t(192, seed=3)
    check_linear(linear(x, weight, bias, activation), x, weight, bias, activation)


@pytest.mark.parametrize("layout", [torch.contiguous_format, LAST], ids=str)
@pytest.mark.parametrize("dtype", [BF16, F32], ids=str)
def test_conv2d(dtype: torch.dtype, layout: torch.memory_format):
    x = t(4, 24, 29, 27, dtype=dtype).contiguous(memory_format=layout)
    weight, bias = t(40, 24, 3, 3, dtype=dtype, seed=2), t(40, dtype=dtype, seed=3)
    steps = {"stride": (2, 1), "padding": 1}
    result = conv2d(x, weight, bias, **steps, activation="gelu")
    check_conv2d(result, x, weight, bias, steps, "gelu")


def test_conv2d_of_one_image_shares_its_sums_and_of_one_pixel_is_a_product():
    x, weight = t(1, 256, 14, 14).contiguous(memory_format=LAST), t(256, 256, 3, 3, seed=2)
    check_conv2d(conv2d(x, weight, padding=1), x, weight, None, {"padding": 1})
    types = BF16, False, None
    steps = ((1, 1), (1, 1), (1, 1))
    kernel = kernel_of((1, 14, 14, 256), (256, 3, 3, 256), steps, True, types, 0)
    assert kernel.module.program.workspaces
    pixel = t(64, 256, 1, 1, seed=3)
    check_conv2d(conv2d(x, pixel), x, pixel, None, {})


# --- gradients

Function = Callable[..., torch.Tensor]


def gradients(function: Function, operands: list[torch.Tensor], dtype: torch.dtype):
    leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in operands]
    result = function(*leaves)
    return [result, *torch.autograd.grad(result.square().sum(), leaves)]


def check_as_near_as_torch(mine: Function, theirs: Function, operands: list[torch.Tensor]) -> None:
    """To fp64, in value and gradients."""
    exact = gradients(theirs, operands, F64)
    found, others = (gradients(f, operands, operands[0].dtype) for f in (mine, theirs))
    least = torch.finfo(operands[0].dtype).eps / 2
    for ours, other, value in zip(found, others, exact, strict=True):
        assert distance(ours, value) <= max(2 * distance(other, value), least)


def mine_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return linear(x, weight, bias, "gelu")


def torch_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, weight, bias))


def test_gradients_of_linear():
    operands = [t(4, 40, 256), t(192, 256, seed=2) / 16, t(192, seed=3)]
    check_as_near_as_torch(mine_gelu, torch_gelu, operands)


def test_control_a_function_of_another_kind_is_not_as_near():
    operands = [t(4, 40, 256), t(192, 256, seed=2) / 16, t(192, seed=3)]
    with pytest.raises(AssertionError):
        check_as_near_as_torch(lambda *args: linear(*args, "relu"), torch_gelu, operands)


def test_gradients_of_matmul_and_conv2d():
    check_as_near_as_torch(matmul, torch.matmul, [t(3, 70, 264), t(264, 136, seed=2)])
    operands = [t(2, 24, 15, 14, dtype=F32), t(40, 24, 3, 3, dtype=F32, seed=2)]
    check_as_near_as_torch(conv2d, F.conv2d, operands)


def test_opcheck():
    ops: Any = torch.ops.loopir
    x, weight, bias = (s.requires_grad_() for s in (t(40, 64), t(48, 64, seed=2), t(48, seed=3)))
    images, filters = t(2, 8, 9, 9).requires_grad_(), t(16, 8, 3, 3, seed=2).requires_grad_()
    for op, args in (
        (ops.matmul.default, (x, weight.detach().t())),
        (ops.linear.default, (x, weight, bias, "relu")),
        (ops.conv2d.default, (images, filters)),
    ):
        assert set(opcheck(op, args).values()) == {"SUCCESS"}


# --- graphs that are captured


def test_a_graph_replays_forward_and_backward_with_other_inputs():
    inputs = [tensor.requires_grad_() for tensor in (t(*SPLIT[:2]), t(256, 8192, seed=2))]

    def step() -> list[torch.Tensor]:
        result = linear(*inputs, activation="gelu")
        return [result, *torch.autograd.grad(result.square().sum(), inputs)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in range(20):
        with torch.no_grad():
            inputs[0].copy_(t(*SPLIT[:2], seed=10 + seed))
        graph.replay()
        torch.cuda.synchronize()
        kept = [tensor.clone() for tensor in captured]
        for found, expected in zip(kept, step(), strict=True):
            assert torch.equal(found, expected)


def test_a_graph_replays_a_convolution_that_shares_its_sums():
    x, weight = t(1, 256, 14, 14).contiguous(memory_format=LAST), t(256, 256, 3, 3, seed=2)
    conv2d(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = conv2d(x, weight)
    for seed in range(20):
        x.copy_(t(1, 256, 14, 14, seed=seed))
        graph.replay()
        assert torch.equal(result.clone(), conv2d(x, weight))


# --- torch.compile


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(SPLIT[1], SPLIT[2]), nn.Linear(SPLIT[2], 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 32, 3, padding=1), nn.Conv2d(32, 32, 3, stride=2)
        self.head = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.second(F.relu(self.first(x)))).mean((2, 3)))


@pytest.fixture
def _no_graph_is_kept():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_no_graph_is_kept")
@pytest.mark.parametrize(
    ("kind", "shape", "taken"), [(Mlp, SPLIT[:2], 2), (Convolutions, (4, 8, 17, 17), 3)]
)
def test_an_imported_net_is_as_near_to_fp64_as_torch_s(kind, shape: tuple[int, ...], taken: int):
    torch.manual_seed(0)
    model = kind().cuda().bfloat16()
    wide, x, backend = copy.deepcopy(model).double(), t(*shape), CompileBackend()
    compiled = torch.compile(model, backend=backend, fullgraph=True)

    def step(function: Function, net: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        result = function(x)
        return [result, *torch.autograd.grad(result.square().sum(), list(net.parameters()))]

    exact = step(wide, wide, x.double())
    mine, theirs = step(compiled, model, x), step(model, model, x)
    assert len(backend.reports[0].taken) == taken
    for ours, other, value in zip(mine, theirs, exact, strict=True):
        assert distance(ours, value) <= max(2 * distance(other, value), torch.finfo(BF16).eps)


@pytest.mark.usefixtures("_no_graph_is_kept")
def test_cuda_graph_trees_replay_products_that_share_their_sums():
    def function(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return linear(linear(x, first, None, "gelu"), second) + 1

    rows, terms, columns = SPLIT
    first, second = t(columns, terms, seed=2), t(64, columns, seed=3)
    compiled = torch.compile(function, mode="reduce-overhead", fullgraph=True)
    for seed in range(6):
        x = t(rows, terms, seed=seed)
        with torch.no_grad():
            torch.compiler.cudagraph_mark_step_begin()
            found = compiled(x, first, second).clone()
            assert torch.equal(found, function(x, first, second))


def test_autocast_casts():
    x, weight = t(40, 64, dtype=F32), t(48, 64, dtype=F32, seed=2).requires_grad_()
    with torch.autocast("cuda", dtype=F16):
        result = linear(x, weight, None, "relu")
    assert torch.equal(result, linear(x.half(), weight.half(), None, "relu"))
    result.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype is F32
