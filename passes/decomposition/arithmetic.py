"""Integer division, minimum and maximum for ints and index expressions alike, so that a formula is
written once.

With ints only the result is an int, else an expression. `Num` is either; a name of its own, since
`Any` alone would not say so.
"""

from typing import Any, TypeAlias

from loopir import symbols

Num: TypeAlias = Any


def floordiv(a: Num, b: Num) -> Num:
    return a // b if _are_ints(a, b) else symbols.floordiv(a, b)


def ceildiv(a: Num, b: Num) -> Num:
    return -(-a // b) if _are_ints(a, b) else symbols.ceildiv(a, b)


def mod(a: Num, b: Num) -> Num:
    return a % b if _are_ints(a, b) else symbols.mod(a, b)


def least(a: Num, b: Num) -> Num:
    return min(a, b) if _are_ints(a, b) else symbols.imin(a, b)


def most(a: Num, b: Num) -> Num:
    return max(a, b) if _are_ints(a, b) else symbols.imax(a, b)


def _are_ints(a: Num, b: Num) -> bool:
    return isinstance(a, int) and isinstance(b, int)


def check_size(name: str, value: object, at_least: int) -> None:
    """ValueError that names the argument, unless `value` is an int (no bool) >= `at_least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name}: an int >= {at_least}, not {value!r}")


def check_kind(name: str, value: object, kind: type) -> None:
    """ValueError that names the argument, unless `value` is of the enum `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: a {kind.__name__}, not {value!r}")
