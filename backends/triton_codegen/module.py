"""What `emit` returns: the source of a standalone file, and what a launcher or compiler must know
of its kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sympy import Integer

from backends.triton_codegen.headers import Header, joined
from backends.triton_codegen.settings import Settings
from loopir.expr_text import expr_text
from loopir.nodes import Program
from loopir.scope import constants, spelled
from loopir.symbols import Expr, evaluate, substitute, to_expr, try_evaluate
from loopir.types import DType
from loopir.workspaces import parts_of

_NOTHING = Integer(0)


class ArgKind(Enum):
    """What an argument of a kernel is, in the order in which they stand."""

    TENSOR = "tensor"
    DESCRIPTOR = "descriptor"
    STRIDE = "stride"
    SIZE = "size"
    CONSTANT = "constant"


@dataclass(frozen=True)
class KernelArg:
    """One argument: `name` in the source, `symbol` in the IR (a parameter, or a name of an index
    expression).

    A TENSOR has `dtype`; so has a STRIDE, and `dim`: it is passed in bytes; a CONSTANT has `value`;
    SIZE is a 64-bit integer known at launch. A DESCRIPTOR has `dtype`, and moves a `box` of the
    tensor, whose dimensions it has in the `order` said, the contiguous one last;
    `evict_first`: every load through it is so.
    """

    name: str
    kind: ArgKind
    symbol: str
    dtype: DType | None = None
    dim: int | None = None
    value: int | None = None
    order: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    evict_first: bool = False


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of the file: name of its function, its name in the IR, its arguments, and its
    number of blocks over the sizes. `described`: the function that moves tiles through tensor
    descriptors, if the IR says so of some; this one then uses pointers instead, for launches whose
    tensors do not suit."""

    name: str
    symbol: str
    args: tuple[KernelArg, ...]
    blocks: Expr
    described: "KernelInfo | None" = None

    @property
    def evict_first(self) -> tuple[int, ...]:
        """Which of its descriptors, by number, have a policy in their copies."""
        descriptors = (arg for arg in self.args if arg.kind is ArgKind.DESCRIPTOR)
        return tuple(i for i, arg in enumerate(descriptors) if arg.evict_first)


@dataclass(frozen=True)
class Module:
    """A standalone Python file, as text: `@triton.jit` functions and `launch()`. Needs torch and
    triton only. `keywords`: what `launch()` calls a size that it picks or that no tensor shows.
    `workspace`: bytes of device memory that a launch needs beside its tensors, over the names of
    the first kernel's header; `idle_needs_none`: whether a launch without blocks needs none,
    whatever the sizes."""

    source: str = field(repr=False)
    kernels: tuple[KernelInfo, ...]
    settings: Settings
    program: Program = field(repr=False)
    keywords: Mapping[str, str] = field(default_factory=dict)
    workspace: Expr = _NOTHING
    idle_needs_none: bool = False

    def workspace_bytes(self, sizes: Mapping[str, int] | None = None) -> int:
        """The bytes of the workspace where the launch symbols have these `sizes`; of one that the
        launcher picks, the most that it may pick. ValueError: a symbol has no size, a name is no
        launch symbol, a size is none, or a workspace has no size with these."""
        given, header = dict(sizes or {}), joined(self.program)
        try:
            return self._bytes_at(given, header)
        except (KeyError, ZeroDivisionError) as error:
            raise ValueError(_no_value(given, header)) from error

    def _bytes_at(self, given: dict[str, int], header: Header) -> int:
        picks = {pick.name: pick.expr for pick in header.picks}
        _check_sizes(given, header.symbols, frozenset(picks))
        env = _bound(header, given)
        least = {n: min(given[n], evaluate(e, env)) for n, e in picks.items() if n in given}
        env = _bound(header, given | least)
        if self.idle_needs_none and all(evaluate(k.blocks, env) <= 0 for k in self.kernels):
            return 0
        return parts_of(self.program).bytes_at(env)

    @property
    def workspace_text(self) -> str:
        """The bytes of the workspace, or how they follow from the sizes of a launch."""
        first = self.program.kernels[0]
        known = {n: to_expr(v) for n, v in constants(first).items()}
        total = substitute(self.workspace, {**spelled(first), **known})
        return f"{int(total):,} bytes" if total.is_Integer else f"{expr_text(total)} bytes"

    @property
    def names(self) -> str:
        """The kernels, for a message."""
        return ", ".join(f"@{info.symbol}" for info in self.kernels)

    @property
    def one_of_names(self) -> str:
        """The kernels, for a message about one of them that does not know which."""
        return self.names if len(self.kernels) == 1 else f"one of {self.names}"


def _check_sizes(
    given: Mapping[str, int], symbols: tuple[str, ...], picked: frozenset[str]
) -> None:
    for name, size in given.items():
        if name not in symbols:
            known = ", ".join(symbols) or "no name at all"
            raise ValueError(f"{name}: expected a launch symbol ({known})")
        least = 1 if name in picked else 0
        if type(size) is not int or size < least:
            raise ValueError(f"{name}: expected an int of at least {least}, got {size!r}")


def _no_value(given: Mapping[str, int], header: Header) -> str:
    """Why no number of bytes follows from these sizes."""
    missing = ", ".join(name for name in header.symbols if name not in given)
    if missing:
        return f"{missing}: no value is given; expected all of {', '.join(header.symbols)}"
    return f"sizes: expected positive divisors, got {given}"


def _bound(header: Header, sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes`, and the `where` names that have a value with them."""
    env = dict(sizes)
    for binding in header.where:
        if (value := try_evaluate(binding.expr, env)) is not None:
            env[binding.name] = value
    return env
