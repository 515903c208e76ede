"""Element types, memory spaces and the other closed sets of words of the IR."""

import math
from enum import Enum


class Kind(Enum):
    FLOAT = "float"
    INT = "int"
    BOOL = "bool"


class DType(Enum):
    """An element type; the value is its text form."""

    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

    @property
    def kind(self) -> Kind:
        if self is DType.BOOL:
            return Kind.BOOL
        return Kind.INT if self.value.startswith("i") else Kind.FLOAT

    @property
    def bits(self) -> int:
        return _BITS[self]

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_int(self) -> bool:
        return self.kind is Kind.INT

    @property
    def computes(self) -> bool:
        """Whether element-wise arithmetic is defined on it; fp8, fp16 and bf16 are storage and
        `dot` operand types, to be cast up first (STYLE: one rounding, where it is written)."""
        return self not in (DType.F8E4M3, DType.F8E5M2, DType.F16, DType.BF16)


_BITS = {
    DType.F8E4M3: 8,
    DType.F8E5M2: 8,
    DType.F16: 16,
    DType.BF16: 16,
    DType.F32: 32,
    DType.F64: 64,
    DType.I8: 8,
    DType.I16: 16,
    DType.I32: 32,
    DType.I64: 64,
    DType.BOOL: 1,
}


class Space(Enum):
    """Where a buffer lives. `alloc` makes the first four; local is a tile of the block that no
    pass has placed yet. Parameters are global, workspaces workspace."""

    LOCAL = "local"
    SHARED = "shared"
    REGISTER = "register"
    FRAGMENT = "fragment"
    GLOBAL = "global"
    WORKSPACE = "workspace"


class Direction(Enum):
    IN = "in"
    OUT = "out"
    INOUT = "inout"


class ForKind(Enum):
    """The value is the keyword. Iterations of a PARALLEL loop are independent of each other."""

    SEQUENTIAL = "for"
    PARALLEL = "parallel"
    WAVE = "wave"


class OrderKind(Enum):
    """How a linear tile number maps to the last two axes of a grid."""

    ALONG_N = "along_n"
    ALONG_M = "along_m"
    GROUPED = "grouped"


class Precision(Enum):
    """How a `dot` of f32 operands multiplies; other operand types have only IEEE."""

    IEEE = "ieee"
    TF32 = "tf32"
    TF32X3 = "tf32x3"


class ElementOrder(Enum):
    """How the elements of a tile lie in a slot of a workspace. FRAGMENTS: the four that a thread
    holds of 16 x 16 elements of an MMA accumulator side by side, `loopir.fragment_order`."""

    ROWS = "row_order"
    FRAGMENTS = "fragment_order"


class Via(Enum):
    """How a load or a store reaches memory: element by element through pointers, or as a box of a
    tensor through its descriptor (TMA)."""

    POINTER = "pointer"
    DESCRIPTOR = "descriptor"


class ReduceOp(Enum):
    """Combining operator of an accumulator. SUB, SCAN and ARGMAX can be written, and are not
    associative over panels: a rewrite that splits the panel loop refuses them."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    SUB = "sub"
    SCAN = "scan"
    ARGMAX = "argmax"

    @property
    def is_associative(self) -> bool:
        return self not in (ReduceOp.SUB, ReduceOp.SCAN, ReduceOp.ARGMAX)

    def identity(self, dtype: DType) -> int | float | None:
        """The value e with op(e, x) == x for every x of `dtype`; None where there is none."""
        low, high = _limits(dtype)
        table = {
            ReduceOp.ADD: 0,
            ReduceOp.MUL: 1,
            ReduceOp.MAX: low,
            ReduceOp.MIN: high,
            ReduceOp.AND: {Kind.INT: -1, Kind.BOOL: 1}.get(dtype.kind),
            ReduceOp.OR: None if dtype.is_float else 0,
        }
        return table.get(self)


def _limits(dtype: DType) -> tuple[int | float, int | float]:
    if dtype.is_int:
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return -math.inf, math.inf
