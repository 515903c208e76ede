"""Element-wise expressions over tiles as Triton text. The verifier has checked their types.

max and min propagate NaN (`tl.PropagateNan.ALL`), as numpy's maximum does; casts to a narrower
float round to nearest even, said explicitly; f32 division and square root are the correctly
rounded ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from backends.triton_codegen.dtypes import full_text, number_text, triton_dtype
from backends.triton_codegen.masks import Masks
from loopir.nodes import Apply, AxisReduce, Cast, Ewise_, Expand, Literal, Mask, Part, TileRef
from loopir.tile_types import Shape, ewise_dtype, ewise_shape
from loopir.types import DType, ReduceOp

_NAN = "propagate_nan=tl.PropagateNan.ALL"
_OR, _AND, _SUM, _PRODUCT, _UNARY, _ATOM = range(6)
_INFIX = {
    "or": ("|", _OR),
    "and": ("&", _AND),
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
}
_AXIS_FUNCTIONS = {ReduceOp.ADD: "tl.sum", ReduceOp.MAX: "tl.max", ReduceOp.MIN: "tl.min"}
_NAN_FUNCTIONS = {ReduceOp.MAX: "nan_amax", ReduceOp.MIN: "nan_amin"}
_COMBINED = {ReduceOp.MUL: "multiplied", ReduceOp.AND: "both", ReduceOp.OR: "either"}
_CALLS = {
    "max": "tl.maximum",
    "min": "tl.minimum",
    "abs": "tl.abs",
    "exp": "tl.exp",
    "log": "tl.log",
    "sqrt": "tl.sqrt",
    "rsqrt": "tl.rsqrt",
    "erf": "tl.erf",
    "tanh": "tanh",
}
_FP8 = frozenset({DType.F8E4M3, DType.F8E5M2})
_ROUNDED = {"div": "tl.div_rn", "sqrt": "tl.sqrt_rn"}  # Triton has them for f32 alone


@dataclass(frozen=True)
class Tile:
    """A tile as the emitted text sees it: Python name, element type, sizes, and the text of its
    shape."""

    name: str
    dtype: DType
    shape: Shape
    shape_text: str


class Unsupported(Exception):
    """An expression that Triton has no way to say; the text says what to write instead."""


class _Text(NamedTuple):
    """Rendered text; `level` is the binding strength of its outermost operator."""

    text: str
    level: int

    def within(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True)
class TileExpressions:
    """Renders `Ewise` expressions over `tiles`; `helpers` collects the functions of the file that
    they call."""

    tiles: Mapping[str, Tile]
    masks: Masks
    helpers: set[str] = field(default_factory=set)

    def assigned(self, expr: Ewise_, target: Tile) -> str:
        """The right-hand side of `target = expr`, of the target's type and shape."""
        if isinstance(expr, Literal):
            return full_text(target.shape_text, expr.value, target.dtype)
        text = self._render(expr, target.dtype).text
        if self._shape(expr) != target.shape:
            return f"tl.broadcast_to({text}, {target.shape_text})"
        return (
            self._called("own", text) if any(text == t.name for t in self.tiles.values()) else text
        )

    def _shape(self, expr: Ewise_) -> Shape:
        shape = ewise_shape(expr, self.tiles)  # pyright: ignore[reportArgumentType]
        assert shape is not None
        return shape

    def _dtype(self, expr: Ewise_) -> DType | None:
        return ewise_dtype(expr, self.tiles)  # pyright: ignore[reportArgumentType]

    def _called(self, helper: str, args: str) -> str:
        self.helpers.add(helper)
        return f"{helper}({args})"

    def _render(self, expr: Ewise_, expected: DType) -> _Text:
        """`expr`; numbers take the dtype `expected`, or that of what they meet."""
        dtype = self._dtype(expr) or expected
        match expr:
            case TileRef(name):
                return _Text(self.tiles[name].name, _ATOM)
            case Literal(number):
                text = number_text(number, dtype)
                return _Text(text, _UNARY if text.startswith("-") else _ATOM)
            case Cast(_, arg):
                return self._cast(dtype, arg)
            case Expand(arg, axis):
                value = self._operand(arg, dtype, typed=True)
                return _Text(f"tl.expand_dims({value.text}, {axis})", _ATOM)
            case AxisReduce(op, arg, axis):
                return _Text(
                    self._along_axis(op, self._render(arg, dtype).text, axis, dtype), _ATOM
                )
            case Mask(arg, otherwise=number):
                return self._masked(expr, self._render(arg, dtype), number, dtype)
            case Part(arg):
                return self._part(expr, self._render(arg, dtype))
            case Apply(fn, args):
                return self._applied(fn, args, dtype)

    def _cast(self, dtype: DType, arg: Ewise_) -> _Text:
        if isinstance(arg, Literal):
            return _Text(full_text("()", arg.value, dtype), _ATOM)
        source = self._dtype(arg) or DType.F32
        value = self._render(arg, source)
        if source is dtype:
            return value
        if source is DType.F64 and dtype in _FP8:
            raise Unsupported(
                f"Triton has no cast from {source.value} to {dtype.value}; cast to f32 in between"
            )
        text = value.text
        if source is not DType.F32 and not {source, dtype}.isdisjoint(_FP8):
            text, source = f"tl.cast({text}, tl.float32)", DType.F32  # exact, or beyond fp8 anyway
        if source.is_float and dtype.is_int:
            return _Text(self._to_int(text, source, dtype), _ATOM)
        narrows = source.is_float and dtype.is_float and dtype.bits < source.bits
        rounding = ', fp_downcast_rounding="rtne"' if narrows else ""
        text = text if source is dtype else f"tl.cast({text}, {triton_dtype(dtype)}{rounding})"
        return _Text(text, _ATOM)

    def _to_int(self, text: str, source: DType, dtype: DType) -> str:
        wide = text if source.computes else f"tl.cast({text}, tl.float32)"
        high = 2 ** (dtype.bits - 1)
        return self._called("to_int", f"{wide}, {triton_dtype(dtype)}, {-high}, {high - 1}")

    def _along_axis(self, op: ReduceOp, text: str, axis: int, dtype: DType) -> str:
        if op in _COMBINED:
            self.helpers.add(_COMBINED[op])
            return f"tl.reduce({text}, {axis}, {_COMBINED[op]})"
        if dtype.is_float and op in _NAN_FUNCTIONS:
            return self._called(_NAN_FUNCTIONS[op], f"{text}, {axis}")
        call = f"{_AXIS_FUNCTIONS[op]}({text}, {axis})"
        widens = dtype.is_int and dtype.bits < 32  # Triton sums small integers in 32 bits
        return f"tl.cast({call}, {triton_dtype(dtype)})" if widens else call

    def _masked(self, mask: Mask, value: _Text, number: Literal, dtype: DType) -> _Text:
        kept = self.masks.kept(mask, self._shape(mask))
        if not kept:
            return value
        other = self._operand(number, dtype, typed=dtype is not DType.F32)
        return _Text(f"tl.where({kept}, {value.text}, {other.text})", _ATOM)

    def _part(self, part: Part, value: _Text) -> _Text:
        """Half by half: `tl.split` takes the two along a last axis apart."""
        sizes, axis, count, text = [*self._shape(part.arg)], part.axis, part.count, value.text
        while count > 1:
            count //= 2
            sizes[axis] //= 2
            text = _half(text, sizes, axis, part.index // count % 2)
        return value if part.count == 1 else _Text(text, _ATOM)

    def _applied(self, fn: str, args: tuple[Ewise_, ...], dtype: DType) -> _Text:
        # among numbers alone Python would compute, in doubles and in integers that never wrap
        alone = all(isinstance(a, Literal) for a in args)
        typed = alone or (fn not in _INFIX and dtype is not DType.F32)
        values = [self._operand(a, dtype, typed) for a in args]
        if fn in _ROUNDED and dtype is DType.F32:
            return _Text(f"{_ROUNDED[fn]}({', '.join(v.text for v in values)})", _ATOM)
        if fn in _INFIX:
            sign, level = _INFIX[fn]
            left, right = values
            return _Text(f"{left.within(level)} {sign} {right.within(level + 1)}", level)
        if fn == "neg":
            return _Text(f"-{values[0].within(_ATOM)}", _UNARY)
        if fn == "sigmoid":
            return _Text(f"1.0 / (1.0 + tl.exp(-{values[0].within(_ATOM)}))", _PRODUCT)
        return _Text(self._call(fn, [v.text for v in values], dtype), _ATOM)

    def _call(self, fn: str, operands: list[str], dtype: DType) -> str:
        if fn == "tanh":
            self.helpers.add(fn)
        nan = [_NAN] if fn in ("max", "min") and dtype.is_float else []
        return f"{_CALLS[fn]}({', '.join([*operands, *nan])})"

    def _operand(self, arg: Ewise_, dtype: DType, typed: bool) -> _Text:
        """With `typed` a number is a value of `dtype`: bare, as a function's argument, it counts as
        32 bits and would change the result's type."""
        if typed and isinstance(arg, Literal):
            return _Text(full_text("()", arg.value, dtype), _ATOM)
        return self._render(arg, dtype)


def _half(text: str, sizes: list[int], axis: int, which: int) -> str:
    """One half along `axis` of a value; `sizes`: of the half."""
    pair = (*sizes[:axis], 2, *sizes[axis:])
    order = (*(d for d in range(len(pair)) if d != axis), axis)
    return f"tl.split(tl.permute(tl.reshape({text}, {pair}), {order}))[{which}]"
