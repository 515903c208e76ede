"""Which cases of a slow test run where time is short: a third, and every value of every axis."""

from collections.abc import Mapping
from itertools import islice
from typing import Any
from zlib import crc32

FEW, PART = 8, 3


def kept(cases: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The names of the cases to run, of one test function: all of FEW or fewer; else one in PART at
    least, the first by checksum of the name, and one for each value of each axis.

    `cases`: arguments by the name of the case. An axis is an argument whose values come twice or
    more on average, as the rows and columns of a product do.
    """
    if len(cases) <= FEW:
        return frozenset(cases)
    values = {name: _values(arguments) for name, arguments in cases.items()}
    axes = _axes(list(values.values()))
    order = sorted(cases, key=lambda name: (crc32(name.encode()), name))
    found, seen = dict[str, None](), set[tuple[str, str]]()
    for name in order:
        new = {v for v in values[name] if v[0] in axes} - seen
        if new:
            found[name] = None
            seen |= new
    rest = (name for name in order if name not in found)
    missing = max(0, -(-len(cases) // PART) - len(found))
    return frozenset([*found, *islice(rest, missing)])


def _values(arguments: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((argument, repr(value)) for argument, value in arguments.items())


def _axes(values: list[frozenset[tuple[str, str]]]) -> set[str]:
    different = [argument for argument, _ in frozenset().union(*values)]
    return {a for a in different if 2 * different.count(a) <= len(values)}
