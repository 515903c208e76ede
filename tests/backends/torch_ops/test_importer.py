"""The importer: what it takes from each kind of graph, what it leaves alone and why, and that the
module computes the same."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from backends.torch_ops import Reason, Report, replace
from tests.support.numerics import normal
from tests.support.torch_ops import called

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's, of itself
BF16, F32 = torch.bfloat16, torch.float32


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def t(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return normal(shape, dtype, sum(shape))


def imported(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Any, Report]:
    return replace(Of(function), inputs)


def lines(report: Report) -> list[str]:
    """Each entry without the name of its node."""
    return [str(entry).split(": ", 1)[1] for entry in report.entries]


# --- taken

IMAGE, FILTER, SHIFT = t(2, 3, 6, 7), t(5, 3, 3, 3), t(5)
TAKEN: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "mm": (torch.mm, (t(3, 4), t(4, 5)), "mm -> loopir::matmul"),
    "bmm": (torch.bmm, (t(2, 3, 4), t(2, 4, 5)), "bmm -> loopir::matmul"),
    "matmul": (torch.matmul, (t(2, 3, 4), t(4, 5)), "matmul -> loopir::matmul"),
    "@": (operator.matmul, (t(3, 4), t(4, 5)), "matmul -> loopir::matmul"),
    "a transposed view": (lambda a, b: a @ b.mT, (t(3, 4), t(5, 4)), "matmul -> loopir::matmul"),
    "addmm": (torch.addmm, (t(5), t(3, 4), t(4, 5)), "addmm -> loopir::linear"),
    "addmm and relu": (lambda *a: F.relu(torch.addmm(*a)), (t(5), t(3, 4), t(4, 5)),
                       "addmm -> loopir::linear with relu"),
    "linear": (F.linear, (t(2, 3, 4), t(5, 4), t(5)), "linear -> loopir::linear"),
    "linear bf16": (F.linear, (t(3, 4, dtype=BF16), t(5, 4, dtype=BF16)),
                    "linear -> loopir::linear"),
    "linear and gelu": (lambda *a: F.gelu(F.linear(*a)), (t(3, 4), t(5, 4)),
                        "linear -> loopir::linear with gelu"),
    "linear and gelu_tanh": (lambda *a: F.gelu(F.linear(*a), approximate="tanh"),
                             (t(3, 4), t(5, 4)), "linear -> loopir::linear with gelu_tanh"),
    "linear and silu": (lambda *a: F.silu(F.linear(*a)), (t(3, 4), t(5, 4)),
                        "linear -> loopir::linear with silu"),
    "linear and sigmoid": (lambda *a: F.linear(*a).sigmoid(), (t(3, 4), t(5, 4)),
                           "linear -> loopir::linear with sigmoid"),
    "linear and relu in place": (lambda *a: F.linear(*a).relu_(), (t(3, 4), t(5, 4)),
                                 "linear -> loopir::linear with relu"),
    "an activation of another": (lambda *a: F.leaky_relu(F.linear(*a)), (t(3, 4), t(5, 4)),
                                 "linear -> loopir::linear"),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, (2, 1), 1, (1, 2)), (IMAGE, FILTER),
               "conv2d -> loopir::conv2d"),
    "conv2d and relu": (lambda *a: F.conv2d(*a, padding="same").relu(), (IMAGE, FILTER, SHIFT),
                        "conv2d -> loopir::conv2d with relu"),
    "conv2d of channels last": (F.conv2d, (IMAGE.to(memory_format=torch.channels_last), FILTER),
                                "conv2d -> loopir::conv2d"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_a_call_is_taken(name: str):
    function, inputs, line = TAKEN[name]
    module, report = imported(function, *inputs)
    assert lines(report) == [line]
    assert len([n for n in called(module) if n.startswith("loopir")]) == 1
    torch.testing.assert_close(module(*inputs), function(*inputs))


@pytest.mark.sampled
@pytest.mark.parametrize("name", TAKEN)
def test_a_call_is_taken_from_a_graph_of_aten_s_core(name: str):
    function, inputs, _ = TAKEN[name]
    program = torch.export.export(Of(function), inputs).run_decompositions()
    module, report = replace(program)
    assert len(report.taken) == 1
    assert not report.refused
    torch.testing.assert_close(module(*inputs), function(*inputs))


# --- left alone

CONV = (IMAGE, FILTER)
REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], Reason, str]] = {
    "integers": (torch.mm, (torch.ones(3, 4).int(), torch.ones(4, 5).int()),
                 Reason.DTYPE, "torch.int32"),
    "complex": (torch.mm, (t(3, 4).cfloat(), t(4, 5).cfloat()), Reason.DTYPE, "torch.complex64"),
    "groups": (lambda x, w: F.conv2d(x, w, groups=3), (IMAGE, t(6, 1, 3, 3)),
               Reason.GROUPS, "3 groups"),
    "lines": (F.conv1d, (t(1, 3, 9), t(5, 3, 3)), Reason.RANK, "two sizes a pixel"),
    "volumes": (F.conv3d, (t(1, 3, 5, 5, 5), t(5, 3, 3, 3, 3)), Reason.RANK, "two sizes a pixel"),
    "transposed": (F.conv_transpose2d, (IMAGE, t(3, 5, 3, 3)), Reason.TRANSPOSED, "transposed"),
    "alpha": (lambda *a: torch.addmm(*a, alpha=2), (t(5), t(3, 4), t(4, 5)),
              Reason.SCALE, "alpha=2 beta=1"),
    "beta": (lambda *a: torch.addmm(*a, beta=0), (t(5), t(3, 4), t(4, 5)),
             Reason.SCALE, "alpha=1 beta=0"),
    "a matrix added": (torch.addmm, (t(3, 5), t(3, 4), t(4, 5)), Reason.SHAPE, "bias: expected"),
    "a batch added": (torch.baddbmm, (t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), Reason.FORM, "batch"),
    "a vector of weights": (F.linear, (t(3, 4), t(4)), Reason.SHAPE, "weight: expected a matrix"),
    "no batch of images": (F.conv2d, (IMAGE[0], FILTER), Reason.SHAPE, "x: expected four"),
    "uneven padding": (lambda x, w: F.conv2d(x, w, padding="same"), (IMAGE, t(5, 3, 2, 2)),
                       Reason.SHAPE, "padding: expected 'same'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
def test_a_call_is_left_alone(name: str):
    function, inputs, reason, detail = REFUSED[name]
    module, report = imported(function, *inputs)
    (refused,) = report.refused
    assert refused.reason is reason
    assert detail in refused.detail
    assert not report.taken
    assert not [n for n in called(module) if n.startswith("loopir")]
    assert torch.equal(module(*inputs), function(*inputs))


def test_sizes_known_at_run_time_are_left_alone():
    program = torch.export.export(
        Of(torch.mm), (t(3, 4), t(4, 5)), dynamic_shapes=(({0: Dim("rows")}, None),)
    )
    module, report = replace(program)
    (refused,) = report.refused
    assert refused.reason is Reason.DYNAMIC_SHAPES
    assert "compiled for each size" in refused.detail
    torch.testing.assert_close(module(t(6, 4), t(4, 5)), t(6, 4) @ t(4, 5))


def test_other_devices_are_left_alone():
    with torch.device("meta"):
        _, report = imported(torch.mm, torch.ones(3, 4), torch.ones(4, 5))
    (refused,) = report.refused
    assert refused.reason is Reason.DEVICE
    assert refused.detail == "a tensor on meta"


def noted(function: Callable[..., Any], values: list[torch.Tensor]) -> torch.fx.GraphModule:
    """A traced graph, and the tensors of its nodes."""
    graph = torch.fx.symbolic_trace(function)
    for node, value in zip(graph.graph.nodes, values, strict=False):
        node.meta["val"] = value
    return graph


def test_other_layouts_are_left_alone():
    graph = noted(lambda a, b: torch.mm(a, b), [t(3, 3).to_sparse(), t(3, 3), t(3, 3)])
    (refused,) = replace(graph)[1].refused
    assert refused.reason is Reason.LAYOUT


def test_a_product_into_a_tensor_that_is_given_is_left_alone():
    graph = noted(lambda a, b, out: torch.mm(a, b, out=out), [t(3, 3)] * 4)
    (refused,) = replace(graph)[1].refused
    assert refused.reason is Reason.FORM
    assert refused.detail == "it got an unexpected keyword argument 'out'"


def test_every_reason_has_a_case():
    elsewhere = {Reason.DYNAMIC_SHAPES, Reason.DEVICE, Reason.LAYOUT}
    assert {reason for _, _, reason, _ in REFUSED.values()} | elsewhere == set(Reason)


# --- activations stay where folding them would change something


def test_an_activation_is_not_folded_where_the_sum_is_used_too():
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, weight)
        return F.gelu(y) + y

    module, report = imported(function, t(3, 4), t(5, 4))
    assert lines(report) == ["linear -> loopir::linear"]
    assert "aten.gelu" in called(module)


def test_products_of_batches_keep_their_activation_behind_them():
    module, report = imported(lambda a, b: F.relu(a @ b), t(2, 3, 4), t(2, 4, 5))
    assert lines(report) == ["matmul -> loopir::matmul"]
    assert "aten.relu" in called(module)


# --- whole programs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.grouped = nn.Conv2d(6, 6, 3, groups=2)
        self.head = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.grouped(self.conv(x).relu())).mean((2, 3)))


REPORT = """\
conv2d: conv2d -> loopir::conv2d with relu
conv2d_1: conv2d left alone: groups: 2 groups, of which 1 is taken
linear: linear -> loopir::linear with gelu
linear_1: linear -> loopir::linear
3 taken, 1 left alone"""


def test_a_net_is_imported_and_reported():
    net, x = Net(), t(2, 3, 8, 8)
    module, report = replace(net, (x,))
    assert report.text() == REPORT
    torch.testing.assert_close(module(x), net(x))


def test_the_program_is_left_as_it_was_and_parameters_are_shared():
    net, x = Net(), t(2, 3, 8, 8)
    program = torch.export.export(net, (x,))
    graph = program.module()
    before = str(graph.graph)
    module, _ = replace(graph)
    assert str(graph.graph) == before
    assert {p.data_ptr() for p in module.parameters()} == {p.data_ptr() for p in net.parameters()}
    module(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_the_state_has_what_it_had():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.linear.register_buffer("kept", t(4))
            self.linear.register_buffer("scale", t(4), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * self.linear.scale + self.linear.kept

    module, _ = replace(Scaled(), (t(3, 4),))
    assert set(module.state_dict()) == set(Scaled().state_dict())


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.shape[0]])
def test_nothing_to_compute_is_nothing_to_take(function: Callable[..., Any]):
    module, report = imported(function, t(3, 4))
    assert report.entries == ()
    assert torch.equal(torch.as_tensor(module(t(3, 4))), torch.as_tensor(function(t(3, 4))))


@pytest.mark.parametrize("change", [nn.Module.train, nn.Module.eval], ids=["train", "eval"])
def test_the_mode_of_an_exported_module_cannot_be_changed(change: Callable[..., Any]):
    net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5))
    module, _ = replace(net, (t(4, 16),))
    with pytest.raises(NotImplementedError, match="on the module before"):
        getattr(module, change.__name__)()


def test_an_imported_module_is_exported_again():
    net, x = Net(), t(2, 3, 8, 8)
    module, _ = replace(net, (x,))
    again = torch.export.export(module, (x,))
    assert called(again.graph_module).count("loopir.linear") == 2
    torch.testing.assert_close(again.module()(x), net(x))


def test_a_traced_graph_wants_inputs():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    graph = torch.fx.symbolic_trace(Head())
    with pytest.raises(ValueError, match="program: expected tensors noted at its nodes, or inputs"):
        replace(graph)
    assert lines(replace(graph, (t(3, 4),))[1]) == ["linear -> loopir::linear"]
    with pytest.raises(ValueError, match="program: expected a graph, or inputs, got Head alone"):
        replace(Head())


def test_control_a_call_that_is_not_looked_for_is_in_no_report():
    _, report = imported(lambda a: torch.softmax(a, 1), t(3, 4))
    assert report.entries == ()
    assert report.text() == "0 taken, 0 left alone"
