"""How much there is to interpret, from the index arithmetic of a program alone."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod

from loopir.interp.arguments import Arrays, launch_values
from loopir.interp.block import Block
from loopir.interp.errors import InterpError
from loopir.interp.grid import blocks
from loopir.interp.memory import Memory
from loopir.nodes import Arrive, Dot, ElementRead, Let, Program, Set, Stmt

#: what interpreting a statement costs besides its elements, in elements
STATEMENT = 10_000


def work(program: Program, arrays: Arrays, sizes: Mapping[str, int] | None, most: int) -> int:
    """Multiply-adds of a `dot`, elements of the tiles that other statements handle, and `STATEMENT`
    a statement, in a run of `program`.

    A lower bound: an element read counts as 0, and no block arrives last. Counting stops soon after
    `most`, and where the run itself would raise an InterpError. LaunchError: a size has no value.
    """
    tally = _Tally(most)
    with suppress(_Enough, InterpError):
        for i, kernel in enumerate(program.kernels):
            values = launch_values(kernel, arrays, sizes or {})
            for block in blocks(kernel, ("kernels", i), values, Memory({})):
                _count(block, tally)
    return tally.total


class _Enough(Exception):
    """There is more than was asked about."""


@dataclass
class _Tally:
    most: int
    total: int = 0

    def add(self, n: int) -> None:
        self.total += n
        if self.total > self.most:
            raise _Enough


class _Counting(Block):
    """A block that knows its scalars, and counts where the other would compute."""

    tally: _Tally

    def _simple(self, stmt: Stmt) -> None:
        self.tally.add(STATEMENT)
        match stmt:
            case Let(name, ElementRead()) | Set(name, ElementRead()) | Arrive(name):
                self.scalars[name] = 0
            case Let() | Set():
                super()._simple(stmt)
            case Dot(acc, a):
                self.tally.add(prod(self.types[acc].shape) * self.types[a].shape[-1])
            case _ if (tile := getattr(stmt, "tile", None)) is not None:
                self.tally.add(prod(self.types[tile].shape))


def _count(block: Block, tally: _Tally) -> None:
    counting = _Counting(
        block.body, block.path, block.scalars, block.types, block.memory, block.view
    )
    counting.tally = tally
    for _ in counting.steps():
        pass
