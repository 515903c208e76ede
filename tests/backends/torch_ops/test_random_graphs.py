"""Random programs, imported: values and gradients are those of the program, in fp64, from exported
graphs and from those of torch.compile."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from backends.torch_ops import CompileBackend, Report, graph_calls, importer, replace
from tests.support.numerics import normal

pytestmark = [  # torch's, of itself
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning"),
]
F64 = torch.float64
SIZE = 4
Tensors = list[torch.Tensor]
Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def in_no_grad(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.linear(x, w, b)
    with torch.no_grad():
        return torch.tanh(y)


def changed_between(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x, w = x.detach() * 1, w.detach()
    y = x @ w
    x.mul_(3)
    return torch.relu(y) + F.linear(x, w, b)


def changed_in_part(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.linear(x, w, b)
    y[..., :1].relu_()
    return torch.tanh(y)


def used_twice(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.linear(x, w, b)
    return F.silu(y) * y.view(-1).view(x.shape)


def added(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.addmm(b, x.reshape(-1, SIZE), w).sigmoid_().reshape(x.shape)


def convolved(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = F.conv2d(x.reshape(-1, SIZE, 1, 1), w.reshape(SIZE, SIZE, 1, 1), b, padding=1)
    return F.relu(y, inplace=True).sum((2, 3)).reshape(x.shape)


STEPS: tuple[Step, ...] = (
    *(in_no_grad, changed_between, changed_in_part, used_twice, added, convolved),
    lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
    lambda x, w, b: F.silu(F.linear(x[:1].expand(x.shape), w), inplace=True),
    lambda x, w, b: torch.matmul(x, w.t()).mul_(2),
    lambda x, w, b: torch.bmm(x, w.expand(x.shape[0], SIZE, SIZE)).relu(),
    lambda x, w, b: x * (x @ b).unsqueeze(-1),
    lambda x, w, b: x.transpose(0, 1).matmul(w).transpose(0, 1) + x,
)


class Chance(nn.Module):
    """`count` steps of a random program: each takes one of the tensors there are, adds one."""

    def __init__(self, seed: int, count: int = 6):
        super().__init__()
        chance = random.Random(seed)
        self.weights = nn.ParameterList(normal((SIZE, SIZE), F64, seed + i) for i in range(2))
        self.biases = nn.ParameterList(normal((SIZE,), F64, seed + i) for i in range(2, 4))
        self.plan = [
            (chance.choice(STEPS), chance.randrange(i + 1), *(chance.randrange(2) for _ in "wb"))
            for i in range(count)
        ]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = [x]
        for step, place, weight, bias in self.plan:
            known.append(step(known[place], self.weights[weight], self.biases[bias]))
        return torch.stack([t.sin() for t in known]).sum(0)


def exported(program: nn.Module, x: torch.Tensor) -> tuple[nn.Module, Report]:
    return replace(program, (x,))


def compiled(program: nn.Module, x: torch.Tensor) -> tuple[nn.Module, Report]:
    backend = CompileBackend("aot_eager")
    module: Any = torch.compile(program, backend=backend, fullgraph=True, dynamic=False)
    module(x)
    return module, backend.reports[0]


def outcome(module: nn.Module, x: torch.Tensor) -> Tensors:
    """The result, and the gradients of x and of the parameters that it depends on."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    result = module(x)
    result.sum().backward()
    grads = {n.removeprefix("_orig_mod."): p.grad for n, p in module.named_parameters()}
    return [
        result.detach(),
        *(g for _, g in [("x", x.grad), *sorted(grads.items())] if g is not None),
    ]


def check(way: Callable[..., tuple[nn.Module, Report]], seed: int) -> int:
    """How many calls were taken."""
    torch.compiler.reset()
    program, x = Chance(seed), normal((2, 3, SIZE), F64, seed + 9)
    expected = outcome(program, x)
    module, report = way(program, x.clone().requires_grad_())
    for found, value in zip(outcome(module, x), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-9)
    return len(report.taken)


SEEDS = range(12)


@pytest.mark.parametrize("way", [exported, compiled])
def test_random_programs_keep_their_values_and_gradients(way):
    assert sum(check(way, seed) for seed in SEEDS) > 36


def test_control_a_fold_out_of_no_grad_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graph_calls, "_are_alike", lambda node, user: True)
    with pytest.raises(AssertionError, match="not close"):
        any(check(compiled, seed) < 0 for seed in SEEDS)


def test_control_an_activation_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch):
    exact = importer.activation_behind
    monkeypatch.setattr(importer, "activation_behind", lambda node: ("none", exact(node)[1]))
    with pytest.raises(AssertionError, match="not close"):
        any(check(exported, seed) < 0 for seed in SEEDS)
