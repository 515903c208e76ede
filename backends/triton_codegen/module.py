"""What `emit` returns: the source of a standalone file, and what a launcher or compiler must know
of its kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sympy import Integer

from backends.triton_codegen.settings import Settings
from loopir.expr_text import expr_text
from loopir.nodes import AtMost, Program
from loopir.scope import constants
from loopir.symbols import Expr, evaluate, substitute, to_expr, try_evaluate
from loopir.types import DType

_NOTHING = Integer(0)


class ArgKind(Enum):
    """What an argument of a kernel is, in the order in which they stand."""

    TENSOR = "tensor"
    STRIDE = "stride"
    SIZE = "size"
    CONSTANT = "constant"


@dataclass(frozen=True)
class KernelArg:
    """One argument: `name` in the source, `symbol` in the IR (a parameter, or a name of an index
    expression).

    A TENSOR has `dtype`, a STRIDE `symbol` and `dim`, a CONSTANT `value`; SIZE is a 64-bit integer
    known at launch.
    """

    name: str
    kind: ArgKind
    symbol: str
    dtype: DType | None = None
    dim: int | None = None
    value: int | None = None


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of the file: name of its function, its name in the IR, its arguments, and its
    number of blocks over the sizes."""

    name: str
    symbol: str
    args: tuple[KernelArg, ...]
    blocks: Expr


@dataclass(frozen=True)
class Module:
    """A standalone Python file, as text: `@triton.jit` functions and `launch()`. Needs torch and
    triton only. `keywords`: what `launch()` calls a size that it picks or that no tensor shows.
    `workspace`: bytes of device memory that a launch needs beside its tensors, over the names of
    the first kernel's header."""

    source: str = field(repr=False)
    kernels: tuple[KernelInfo, ...]
    settings: Settings
    program: Program = field(repr=False)
    keywords: Mapping[str, str] = field(default_factory=dict)
    workspace: Expr = _NOTHING

    def workspace_bytes(self, sizes: Mapping[str, int] | None = None) -> int:
        """The bytes of the workspace where the launch symbols have these `sizes`; of one that the
        launcher picks, the most that it may pick. KeyError: a symbol has no size."""
        env = self._bound(sizes or {})
        needs = (need for kernel in self.program.kernels for need in kernel.requires)
        bounds = {need.name: need.expr for need in needs if isinstance(need, AtMost)}
        picks = {n: min(env[n], evaluate(e, env)) for n, e in bounds.items() if n in env}
        return evaluate(self.workspace, self._bound({**(sizes or {}), **picks}))

    def _bound(self, sizes: Mapping[str, int]) -> dict[str, int]:
        env = dict(sizes)
        for binding in self.program.kernels[0].where:
            if (value := try_evaluate(binding.expr, env)) is not None:
                env[binding.name] = value
        return env

    @property
    def workspace_text(self) -> str:
        """The bytes of the workspace, or how they follow from the sizes of a launch."""
        known = constants(self.program.kernels[0])
        total = substitute(self.workspace, {n: to_expr(v) for n, v in known.items()})
        return f"{int(total):,} bytes" if total.is_Integer else f"{expr_text(total)} bytes"

    @property
    def names(self) -> str:
        """The kernels, for a message."""
        return ", ".join(f"@{info.symbol}" for info in self.kernels)
