"""Text of element-wise expressions and number literals; parentheses keep the tree as it is."""

import math

from loopir.expr_text import expr_text
from loopir.nodes import Apply, AxisReduce, Cast, Ewise_, Expand, Literal, Mask, Part, TileRef
from loopir.types import ReduceOp

_SUM, _PRODUCT, _NEGATION, _ATOM = range(4)
_INFIX = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT)}
AXIS_REDUCTIONS = {
    ReduceOp.ADD: "sum",
    ReduceOp.MUL: "prod",
    ReduceOp.MAX: "amax",
    ReduceOp.MIN: "amin",
    ReduceOp.AND: "reduce_and",
    ReduceOp.OR: "reduce_or",
}


def ewise_text(expr: Ewise_) -> str:
    """An element-wise expression as text."""
    match expr:
        case TileRef(name):
            return name
        case Literal():
            return literal_text(expr)
        case Cast(dtype, arg):
            return f"cast({dtype.value}, {ewise_text(arg)})"
        case Expand(arg, axis):
            return f"expand({ewise_text(arg)}, {axis})"
        case AxisReduce(op, arg, axis):
            return f"{AXIS_REDUCTIONS.get(op, f'<{op.value}>')}({ewise_text(arg)}, {axis})"
        case Mask(arg, axis, start, limit, otherwise):
            place = f"{axis}, {expr_text(start)}, {expr_text(limit)}"
            return f"mask({ewise_text(arg)}, {place}, {literal_text(otherwise)})"
        case Part(arg, axis, index, count):
            return f"part({ewise_text(arg)}, {axis}, {index}, {count})"
        case Apply(fn, args):
            return _apply_text(fn, args)


def _apply_text(fn: str, args: tuple[Ewise_, ...]) -> str:
    if fn == "neg" and len(args) == 1:
        return _negated_text(args[0])
    if fn not in _INFIX or len(args) != 2:
        return f"{fn}({', '.join(map(ewise_text, args))})"
    sign, level = _INFIX[fn]
    return f"{_operand_text(args[0], level)} {sign} {_operand_text(args[1], level + 1)}"


def _negated_text(arg: Ewise_) -> str:
    text = _operand_text(arg, _NEGATION)
    would_read_as_literal = isinstance(arg, Literal) and not text.startswith("-")
    return f"-({text})" if would_read_as_literal else f"-{text}"


def _operand_text(expr: Ewise_, tightness: int) -> str:
    text = ewise_text(expr)
    return text if _tightness(expr) >= tightness else f"({text})"


def _tightness(expr: Ewise_) -> int:
    match expr:
        case Apply(fn, (_, _)) if fn in _INFIX:
            return _INFIX[fn][1]
        case Apply("neg", _):
            return _NEGATION
    return _ATOM


def literal_text(number: Literal) -> str:
    """An int in digits; a float as the shortest text that reads back as it, with a `.` or `e`."""
    if isinstance(number.value, float):
        return "<nan>" if math.isnan(number.value) else repr(number.value)
    return str(int(number.value))
