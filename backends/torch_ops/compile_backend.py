"""A backend for torch.compile that imports each graph and gives it to another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo import lookup_backend
from torch.fx import GraphModule

from backends.torch_ops.importer import replace
from backends.torch_ops.report import Report

_INDUCTOR = "inductor"


@dataclass(frozen=True, eq=False)
class CompileBackend:
    """`torch.compile(model, backend=CompileBackend())`: products and convolutions by our operators,
    forward and backward, the rest by `inner`, a backend that torch.compile knows, with the `mode`
    and `options` that were given to torch.compile. `reports`: one for each graph so far."""

    inner: str = _INDUCTOR
    reports: list[Report] = field(default_factory=list)

    def __call__(self, graph: GraphModule, inputs: list[Any], **given: Any) -> Callable[..., Any]:
        module, report = replace(graph)
        self.reports.append(report)
        settings = _of_inductor(**given) if self.inner == _INDUCTOR else given
        return lookup_backend(self.inner)(module, inputs, **settings)


def _of_inductor(
    mode: str | None = None, options: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """torch.compile translates both for Inductor only where that is the backend by name."""
    from torch._inductor import list_mode_options

    if mode is None and not options:
        return more
    of_mode = {} if mode in (None, "default") else list_mode_options(mode)
    return {**more, "config_patches": {**of_mode, **(options or {})}}
