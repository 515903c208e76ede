"""Sums whose value tells their terms, as a number tells its digits."""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import TypeAlias

import sympy

from loopir.nodes import Access, GridAxis, TileAxis
from loopir.symbols import Expr, FloorDiv, Mod, ceildiv, names_of, operands, substitute, sym

Constant: TypeAlias = Callable[[Expr], int | None]

#: how many values a variable has that can be any number
ANY: Expr = sympy.oo

_ZERO, _ONE = sympy.Integer(0), sympy.Integer(1)


@dataclass(frozen=True)
class Digit:
    """A term `step * value` of a sum; `value` is one of `count` numbers in a row, or any number."""

    value: Expr
    step: Expr
    count: Expr | None


def terms(total: Expr, moving: Set[str]) -> dict[Expr, Expr]:
    """The terms of a sum that name something `moving`: value -> step, `2 * n` as n -> 2."""
    summands = (s.expand(deep=False) for s in sympy.Add.make_args(total))
    found: dict[Expr, Expr] = {}
    for term in sympy.Add.make_args(sympy.Add(*summands)):
        factors = sympy.Mul.make_args(term)
        value = sympy.Mul(*(f for f in factors if names_of(f) & moving))
        step = sympy.Mul(*(f for f in factors if not names_of(f) & moving))
        found |= {} if value == 1 else {value: found.get(value, _ZERO) + step}
    return found


def ascending(found: Iterable[Digit], constant: Constant) -> tuple[Digit, ...]:
    """Digits, the least first, if each steps beyond all that the smaller ones add; else none. Only
    the last one may be any number."""
    rest, ordered = list(found), []
    reach: Expr | None = _ONE
    while rest:
        fitting = [d for d in rest if reach is not None and _is_beyond(d.step, reach, constant)]
        if not fitting or reach is None:
            return ()
        least = min(
            fitting, key=lambda d: (_size(d.step, constant), _size(d.count or ANY, constant))
        )
        rest.remove(least)
        ordered.append(least)
        reach = None if least.count is None else _reach(reach, least, least.count, constant)
    return tuple(ordered)


def _reach(reach: Expr, digit: Digit, count: Expr, constant: Constant) -> Expr:
    return sympy.expand(reach + _magnitude(digit.step, constant) * (count - 1))


def _is_beyond(step: Expr, reach: Expr, constant: Constant) -> bool:
    distance = constant(sympy.expand(_magnitude(step, constant) - reach))
    return distance is not None and distance >= 0


def _magnitude(step: Expr, constant: Constant) -> Expr:
    known = constant(step)
    if known is not None:
        return sympy.Integer(abs(known))
    return -step if step.could_extract_minus_sign() else step


def _size(step: Expr, constant: Constant) -> float:
    known = constant(step)
    return float("inf") if known is None else abs(known)


@dataclass(frozen=True)
class Ends:
    """Of a value in an index of an access: the number that it stays below, all of its values being
    0 or more; None if it may be negative, or any number."""

    access: Access
    variables: tuple[GridAxis, ...]
    constant: Constant

    def __call__(self, value: Expr) -> Expr | None:
        match value:
            case Mod():
                return operands(value)[1]
            case FloorDiv():
                numerator, width = operands(value)
                end = self(numerator)
                return None if end is None else ceil_quotient(end, width, self.constant)
        axis = next((a for a in self.access.axes if sym(a.name) == value), None)
        if axis is not None:
            return self._axis_end(axis)
        return next((v.extent for v in self._counted if sym(v.iv) == value), None)

    @property
    def _counted(self) -> tuple[GridAxis, ...]:
        return tuple(v for v in self.variables if v.extent != ANY)

    def _axis_end(self, axis: TileAxis) -> Expr | None:
        starts = {sym(v.iv): v.extent - 1 for v in self._counted}
        steps = terms(axis.start, {v.iv for v in self.variables})
        first = self.constant(substitute(axis.start, {str(v): _ZERO for v in starts}))
        rises = all((self.constant(step) or -1) > 0 for step in steps.values())
        if first is None or first < 0 or not rises or not steps.keys() <= starts.keys():
            return None
        end = axis.size + substitute(axis.start, {str(v): last for v, last in starts.items()})
        known = [n for n in map(self.constant, (end, axis.limit or end)) if n is not None]
        if not self.access.masked or axis.limit is None:
            return sympy.Integer(known[0]) if known else None
        return sympy.Integer(min(known)) if len(known) == 2 else axis.limit


def ceil_quotient(end: Expr, width: Expr, constant: Constant) -> Expr:
    """`ceildiv(end, width)`, as a number or without the division where it is exact."""
    rounded_up = ceildiv(end, width)
    known, share = constant(rounded_up), sympy.expand(end / width)
    if known is not None:
        return sympy.Integer(known)
    return share if share.is_integer else rounded_up
