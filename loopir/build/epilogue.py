"""What follows a sum of products: scaling, what the output held, bias, activation, residual, a
cast, the store."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from loopir.build.arguments import choice
from loopir.build.nest import Operand, alloc, param
from loopir.tile_types import number_mistake
from loopir.types import DType, Space


class Activation(Enum):
    """`gelu` is the exact one, of erf; `gelu_tanh` its approximation; `silu` is x * sigmoid(x)."""

    RELU = "relu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    SILU = "silu"
    TANH = "tanh"
    SIGMOID = "sigmoid"

    def of(self, value: str) -> str:
        """The text of the function of a tile."""
        return _FORMULAS[self].format(x=value)

    def check(self, dtype: DType) -> None:
        """ValueError: integers have `relu` only."""
        if dtype.is_int and self is not Activation.RELU:
            raise ValueError(f"activation: {self.value} is not defined on {dtype.value}")


_FORMULAS = {
    Activation.RELU: "max({x}, 0)",
    Activation.GELU: "{x} * 0.5 * (erf({x} * 0.7071067811865476) + 1)",
    Activation.GELU_TANH: (
        "{x} * 0.5 * (tanh(0.7978845608028654 * ({x} + 0.044715 * {x} * {x} * {x})) + 1)"
    ),
    Activation.SILU: "{x} * sigmoid({x})",
    Activation.TANH: "tanh({x})",
    Activation.SIGMOID: "sigmoid({x})",
}


@dataclass(frozen=True)
class Epilogue:
    """`activation(alpha * sum + beta * C + bias) + residual`, in the accumulator's dtype.

    `beta` other than 0: C, the output, is inout, and what it holds is read; with 0 it is not.
    `bias`: the dtype of the parameter `bias`, one element for each output column or channel.
    `residual`: the dtype of the parameter `residual`, of the output's shape. None: there is none.
    An integer sum takes integers only, and `relu`. ValueError names a bad field.
    """

    alpha: int | float = 1
    beta: int | float = 0
    bias: DType | str | None = None
    activation: Activation | str | None = None
    residual: DType | str | None = None

    def __post_init__(self):
        for field, kind in _KINDS.items():
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, choice(kind, value, field))


_KINDS: dict[str, type[Enum]] = {"bias": DType, "activation": Activation, "residual": DType}


@dataclass(frozen=True)
class Place:
    """The text of an access behind the name of its buffer, and the tile there: one element, unless
    its shape says more. `mask`: " masked", or nothing."""

    access: str
    shape: str = ""
    space: Space = Space.LOCAL
    mask: str = ""

    def load(self, tile: str, dtype: DType, buffer: str) -> Operand:
        return Operand(tile, dtype, f"{buffer}{self.access}{self.mask}", self.shape, self.space)

    def store(self, buffer: str, tile: str) -> str:
        return f"store {buffer}{self.access}, {tile}{self.mask}"

    def alloc(self, tile: str, dtype: DType) -> str:
        return alloc(tile, dtype, self.shape, self.space)


@dataclass(frozen=True)
class Output:
    """The output's parameter, and the place in it that is stored; the extent and the place of its
    channels, which a bias is added to, and the axis of the tile that the bias is spread along, if
    any. `suffix`: of the names of all tiles."""

    name: str
    dtype: DType
    shape: str
    place: Place
    channels: str = ""
    channel: Place = Place("")
    spread: int | None = None
    suffix: str = ""


@dataclass(frozen=True)
class Writeback:
    """The parameters that an epilogue adds, the output last, and its statements."""

    params: tuple[str, ...]
    lines: tuple[str, ...]


def writeback(total: str, acc: DType, out: Output, epilogue: Epilogue | None = None) -> Writeback:
    """Stores the tile `total`, of dtype `acc`, behind `epilogue` and, where the output has another
    dtype, a cast, which comes last. ValueError: a field that is of no use for `acc`."""
    epilogue = epilogue or Epilogue()
    _check(epilogue, acc)
    reads = tuple(r for _, r in _steps(epilogue, acc, out) if r)
    params = (*_extra_params(epilogue, out), _out_param(epilogue, out))
    value, cast = f"value{out.suffix}", f"out{out.suffix}"
    lines: list[str] = [out.place.alloc(value, acc)] if any(_steps(epilogue, acc, out)) else []
    lines += (line for r in reads for line in (r.alloc, r.load))
    for formula, _ in _steps(epilogue, acc, out):
        lines.append(f"ewise {value} = {formula.replace('$', total)}")
        total = value
    if out.dtype is not acc:
        lines.append(out.place.alloc(cast, out.dtype))
        lines.append(f"ewise {cast} = cast({out.dtype.value}, {total})")
        total = cast
    return Writeback(params, (*lines, out.place.store(out.name, total)))


def _steps(e: Epilogue, acc: DType, out: Output) -> Iterator[tuple[str, Operand | None]]:
    """Formulas over the value so far, `$`, in order, each with what it reads from memory."""
    if e.alpha != 1:
        yield f"$ * {e.alpha!r}", None
    if e.beta != 0:
        old = out.place.load(f"old{out.suffix}", out.dtype, out.name)
        factor = "" if e.beta == 1 else f" * {e.beta!r}"
        yield f"$ + {old.as_(acc)}{factor}", old
    if isinstance(e.bias, DType):
        shift = out.channel.load(f"shift{out.suffix}", e.bias, "bias")
        spread = shift.as_(acc) if out.spread is None else f"expand({shift.as_(acc)}, {out.spread})"
        yield f"$ + {spread}", shift
    if isinstance(e.activation, Activation):
        yield e.activation.of("$"), None
    if isinstance(e.residual, DType):
        skip = out.place.load(f"skip{out.suffix}", e.residual, "residual")
        yield f"$ + {skip.as_(acc)}", skip


def _extra_params(e: Epilogue, out: Output) -> Iterator[str]:
    if isinstance(e.bias, DType):
        yield param("bias", e.bias, out.channels)
    if isinstance(e.residual, DType):
        yield param("residual", e.residual, out.shape)


def _out_param(e: Epilogue, out: Output) -> str:
    direction = "out" if e.beta == 0 else "inout"
    return f"{direction} {param(out.name, out.dtype, out.shape)}"


def _check(e: Epilogue, acc: DType) -> None:
    for field in ("alpha", "beta"):
        value = getattr(e, field)
        if type(value) not in (int, float) or value != value or abs(value) == float("inf"):
            raise ValueError(f"{field}: a finite number, not {value!r}")
        if mistake := number_mistake(value, acc):
            raise ValueError(f"{field}: {mistake}, the accumulator's dtype")
    for field in ("bias", "residual"):
        dtype = getattr(e, field)
        if dtype is not None and dtype.kind is not acc.kind:
            raise ValueError(f"{field}: {dtype.value} is not added to {acc.value}")
    if isinstance(e.activation, Activation):
        e.activation.check(acc)
