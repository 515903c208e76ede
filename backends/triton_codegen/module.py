"""What `emit` returns: the source of a standalone file, and what a launcher or compiler must know
of its kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from backends.triton_codegen.settings import Settings
from loopir.nodes import Program
from loopir.symbols import Expr
from loopir.types import DType


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
    """One kernel of the file: name of its function, its arguments, and its number of blocks over
    the sizes."""

    name: str
    args: tuple[KernelArg, ...]
    blocks: Expr


@dataclass(frozen=True)
class Module:
    """A standalone Python file, as text: `@triton.jit` functions and `launch()`. Needs torch and
    triton only. `keywords`: what `launch()` calls a size that it picks or that no tensor shows."""

    source: str = field(repr=False)
    kernels: tuple[KernelInfo, ...]
    settings: Settings
    program: Program = field(repr=False)
    keywords: Mapping[str, str] = field(default_factory=dict)
