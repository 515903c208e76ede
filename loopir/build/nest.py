"""Untiled nests, put together as text: a parallel band, a reduce over one loop or several, scalar
loads, an epilogue."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopir.nodes import Program
from loopir.parser import parse
from loopir.types import DType, ReduceOp, Space


@dataclass(frozen=True)
class Operand:
    """A tile, of one element unless its shape says more, and the text of the access that it is
    loaded from."""

    tile: str
    dtype: DType
    source: str
    shape: str = ""
    space: Space = Space.LOCAL

    @property
    def alloc(self) -> str:
        return alloc(self.tile, self.dtype, self.shape, self.space)

    @property
    def load(self) -> str:
        return f"load {self.tile}, {self.source}"

    def as_(self, dtype: DType) -> str:
        """The text of its value in `dtype`."""
        return self.tile if self.dtype is dtype else f"cast({dtype.value}, {self.tile})"


@dataclass(frozen=True)
class Accumulated:
    """An accumulator, its operator, and the text of what each iteration puts in."""

    tile: str
    op: ReduceOp
    dtype: DType
    term: str

    @property
    def update(self) -> str:
        sign = {ReduceOp.ADD: "+", ReduceOp.MUL: "*"}.get(self.op)
        if sign:
            return f"ewise {self.tile} = {self.tile} {sign} {self.term}"
        return f"ewise {self.tile} = {self.op.value}({self.tile}, {self.term})"


@dataclass(frozen=True)
class Nest:
    """`band` and `summed` give the extent of each loop, outermost first; a size None in `where` is
    left open. `epilogue` has the statements behind the reduce."""

    name: str
    params: tuple[str, ...]
    where: Mapping[str, int | str | None]
    band: Mapping[str, str]
    summed: Mapping[str, str]
    operands: tuple[Operand, ...]
    accumulators: tuple[Accumulated, ...]
    epilogue: tuple[str, ...]

    def program(self) -> Program:
        return parse("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"kernel @{self.name}({', '.join(self.params)})"
        bound = {name: value for name, value in self.where.items() if value is not None}
        if bound:
            yield f"where {', '.join(f'{name} = {value}' for name, value in bound.items())}"
        yield "{"
        yield from (f"parallel {iv} in 0 .. {extent} {{" for iv, extent in self.band.items())
        yield from (alloc(acc.tile, acc.dtype) for acc in self.accumulators)
        yield from (operand.alloc for operand in self.operands)
        for acc in self.accumulators:
            yield f"fill {acc.tile}, {acc.op.identity(acc.dtype)}"
        yield from self._reduce()
        yield from self.epilogue
        yield from "}" * (len(self.band) + 1)

    def _reduce(self) -> Iterator[str]:
        yield f"reduce ({', '.join(f'{a.tile}: {a.op.value}' for a in self.accumulators)}) {{"
        yield from (f"for {iv} in 0 .. {extent} {{" for iv, extent in self.summed.items())
        yield from (operand.load for operand in self.operands)
        yield from (acc.update for acc in self.accumulators)
        yield from "}" * (len(self.summed) + 1)


def param(name: str, dtype: DType, shape: str, contiguous: int | None = None) -> str:
    """The text of a parameter whose dimension `contiguous`, or the last one, has stride one."""
    layout = "" if contiguous is None else f" contiguous({contiguous})"
    return f"{name}: {dtype.value}[{shape}]{layout}"


def alloc(tile: str, dtype: DType, shape: str = "", space: Space = Space.LOCAL) -> str:
    """A tile, of one element unless its shape says more."""
    return f"alloc {tile}: {space.value} {dtype.value}[{shape}]"
