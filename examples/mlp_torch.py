"""A two-layer MLP of torch through torch.compile with our operators: what was imported, result and
gradients against fp64, a few steps of training; and forward once more by the generated kernels. On
a GPU if there is one, else by torch's arithmetic on the CPU."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from backends.torch_ops import CompileBackend, interpreted, replace

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INNER = "inductor" if DEVICE == "cuda" else "aot_eager"  # the latter compiles no C++


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


def main() -> None:
    torch.manual_seed(0)
    model = Mlp().to(DEVICE, torch.bfloat16)
    x = torch.randn(48, 64, device=DEVICE).bfloat16()
    backend = CompileBackend(INNER)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    section("Against fp64, forward and backward", run_and_check(compiled, model, x))
    section("Imported, with gradients", backend.reports[0].text())
    with torch.no_grad():
        compiled(x)
    section("Imported, without", backend.reports[1].text())
    section("Training", train(compiled, model, x))
    section("The generated kernels", by_generated_kernels(model, x))


def run_and_check(
    compiled: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, x: torch.Tensor
) -> str:
    """Raises if the result or a gradient is further from fp64 than a few roundings to bf16."""
    names, mine = step(compiled, model, x)
    _, exact = step(wide := copy.deepcopy(model).double(), wide, x.double())
    lines = []
    for name, found, value in zip(names, mine, exact, strict=True):
        error = ((found.double() - value).norm() / value.norm()).item()
        if not error <= 2.0**-7:
            raise AssertionError(f"{name}: error {error:.3g} is beyond what bf16 allows")
        lines.append(f"{name:12} {list(found.shape)!s:10} relative error {error:.3g}")
    return "\n".join(lines)


def step(
    function: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, x: torch.Tensor
) -> tuple[list[str], list[torch.Tensor]]:
    """The result and the gradients of all parameters, and what they are called."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    result = function(x)
    gradients = torch.autograd.grad(result.square().sum(), parameters)
    return ["result", *names], [result, *gradients]


def train(
    compiled: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, x: torch.Tensor
) -> str:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    wanted, losses = torch.roll(x[:, :32], 1, 0).tanh(), []
    for _ in range(8):
        loss = F.mse_loss(compiled(x), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        raise AssertionError(f"the loss does not fall: {losses}")
    return "loss " + " ".join(f"{loss:.3f}" for loss in losses)


def by_generated_kernels(model: nn.Module, x: torch.Tensor) -> str:
    """On the CPU through Triton's interpreter; raises if they are not as near to fp64."""
    imported, _ = replace(model, (x,))
    with torch.no_grad(), interpreted():
        found = imported(x)
    exact = copy.deepcopy(model).double()(x.double())
    error = ((found.double() - exact).norm() / exact.norm()).item()
    if not error <= 2.0**-7:
        raise AssertionError(f"error {error:.3g} is beyond what bf16 allows")
    return f"relative error against fp64: {error:.3g}"


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
