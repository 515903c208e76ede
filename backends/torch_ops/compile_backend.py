"""A backend for torch.compile that imports each graph and gives it to another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo import lookup_backend
from torch.fx import GraphModule

from backends.torch_ops.importer import replace
from backends.torch_ops.report import Report


@dataclass(frozen=True, eq=False)
class CompileBackend:
    """`torch.compile(model, backend=CompileBackend())`: products and convolutions by our operators,
    forward and backward, the rest by `inner`, a backend that torch.compile knows. `reports`: one
    for each graph so far."""

    inner: str = "inductor"
    reports: list[Report] = field(default_factory=list)

    def __call__(self, graph: GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
        module, report = replace(graph)
        self.reports.append(report)
        return lookup_backend(self.inner)(module, inputs, **options)
