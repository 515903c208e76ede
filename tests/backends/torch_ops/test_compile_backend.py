"""torch.compile with the importer: a two-layer MLP and a small convolution net, forward and
backward, against fp64."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from backends.torch_ops import CompileBackend, compile_backend, importer
from tests.support.numerics import normal
from tests.support.torch_ops import distance

pytestmark = [  # torch's, of itself
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning"),
]
BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(24, 48), nn.Linear(48, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, stride=2, bias=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.second(F.relu(self.first(x)))).mean((2, 3)))


MODELS = {
    "mlp": (Mlp, (6, 24), ["linear -> loopir::linear", "linear -> loopir::linear"]),
    "convolutions": (
        Convolutions,
        (2, 3, 9, 9),
        [
            "conv2d -> loopir::conv2d with relu",
            "conv2d -> loopir::conv2d with relu",
            "linear -> loopir::linear",
        ],
    ),
}


@pytest.fixture(autouse=True)
def _no_graph_is_kept():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def step(function, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of the input and of all parameters."""
    x = x.clone().requires_grad_()
    result = function(x)
    wanted = (x, *model.parameters())
    return [result, *torch.autograd.grad(result.square().sum(), wanted)]


def errors(
    name: str, inner: str, dtype: torch.dtype
) -> tuple[list[tuple[float, float]], list[str]]:
    """Of our result and gradients, and of eager torch's, against fp64; what was imported."""
    kind, shape, _ = MODELS[name]
    torch.manual_seed(0)
    model, x = kind().to(dtype), normal(shape, dtype, 1)
    wide = copy.deepcopy(model).double()
    backend = CompileBackend(inner)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    exact = step(wide, wide, x.double())
    mine, theirs = step(compiled, model, x), step(model, model, x)
    (report,) = backend.reports
    pairs = [(distance(m, e), distance(t, e)) for m, t, e in zip(mine, theirs, exact, strict=True)]
    return pairs, [str(entry).split(": ", 1)[1] for entry in report.entries]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MODELS)
def test_forward_and_backward_are_as_near_to_fp64_as_torch_s(
    name: str, inner: str, dtype: torch.dtype
):
    pairs, imported = errors(name, inner, dtype)
    assert imported == MODELS[name][2]
    least = torch.finfo(dtype).eps
    assert all(mine <= max(2 * theirs, least) for mine, theirs in pairs)


@pytest.mark.long  # compiles C++
@pytest.mark.timeout(180)
def test_inductor_runs_what_is_left():
    pairs, imported = errors("mlp", "inductor", F32)
    assert imported == MODELS["mlp"][2]
    assert all(mine <= max(2 * theirs, 1e-6) for mine, theirs in pairs)


def test_without_gradients_gelu_is_folded_and_with_them_it_is_not():
    model, backend = Mlp(), CompileBackend("eager")
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        compiled(normal((6, 24), F32, 1))
    compiled(normal((6, 24), F32, 1))
    folded = [[entry.activation for entry in report.taken] for report in backend.reports]
    assert folded == [["gelu", "none"], ["none", "none"]]


def test_an_activation_that_no_gradient_goes_through_stays_where_it_is():
    backend, weight = CompileBackend("aot_eager"), normal((4, 4), F64, 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, weight)
        with torch.no_grad():
            z = torch.tanh(y)
        return (x * z).sum()

    x = normal((3, 4), F64, 1).requires_grad_()
    (found,) = torch.autograd.grad(torch.compile(function, backend=backend)(x), x)
    assert [entry.activation for entry in backend.reports[0].taken] == ["none"]
    torch.testing.assert_close(found, torch.autograd.grad(function(x), x)[0])


def test_a_graph_without_tensors_is_left_alone():
    backend = CompileBackend("eager")

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return x

    assert torch.compile(function, backend=backend)(torch.ones(3)).sum() == 3
    assert [report.entries for report in backend.reports] == [()]


@pytest.mark.parametrize(
    "given", [{"mode": "max-autotune-no-cudagraphs"}, {"options": {"max_fusion_size": 3}}], ids=str
)
def test_mode_and_options_go_to_inductor(given, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def inductor(module, inputs, *, config_patches):
        seen.append(config_patches)
        return module

    monkeypatch.setattr(compile_backend, "lookup_backend", lambda name: inductor)
    torch.compile(Mlp(), backend=CompileBackend(), **given)(normal((6, 24), F32, 1))
    (patches,) = seen
    assert patches.items() >= given.get("options", {"max_autotune": True}).items()


@pytest.mark.parametrize("is_inside", [False, True])
def test_autocast_is_kept(is_inside: bool):
    model, backend = Mlp(), CompileBackend("aot_eager")

    def cast(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return model(x)

    x = normal((6, 24), F32, 1)
    if is_inside:
        result = torch.compile(cast, backend=backend, fullgraph=True)(x)
    else:
        with torch.autocast("cpu", dtype=BF16):
            result = torch.compile(model, backend=backend, fullgraph=True)(x)
    assert len(backend.reports[0].taken) == 2
    assert result.dtype is BF16
    assert distance(result, model.double()(x.double())) < 2.0**-6


def test_control_an_activation_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch):
    exact = importer.activation_behind
    monkeypatch.setattr(importer, "activation_behind", lambda node: ("none", exact(node)[1]))
    pairs, imported = errors("convolutions", "eager", F32)
    assert imported == [line.removesuffix(" with relu") for line in MODELS["convolutions"][2]]
    assert pairs[0][0] > 0.01 > pairs[0][1]
