"""Passes that move or repeat accesses run before `descriptors`: what is a box of a tensor then may
be none behind them."""

from collections.abc import Iterable, Iterator

from loopir.nodes import Load, Store
from loopir.types import Via
from loopir.walk import Placed
from passes.base import Refusal


def descriptors_last(statements: Iterable[Placed], code: str) -> Iterator[Refusal]:
    """A refusal at the first access that goes by a descriptor, if one does."""
    rule, hint = "no access goes by a descriptor yet", "run descriptors last"
    for path, stmt in statements:
        if isinstance(stmt, Load | Store) and stmt.via is Via.DESCRIPTOR:
            yield Refusal(code, rule, path, "a descriptor", hint, Via.DESCRIPTOR.value)
            return
