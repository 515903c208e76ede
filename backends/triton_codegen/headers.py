"""The headers of a program's kernels as one: what one `launch()` takes, checks and computes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

from loopir.errors import CodegenError
from loopir.nodes import Alias, AtMost, Binding, Kernel, Param, Program, Requirement, Zeroed
from loopir.printer import excerpt
from loopir.scope import constants, launch_symbols
from loopir.symbols import names_of
from loopir.types import Direction
from loopir.walk import Path, symbol_names


@dataclass(frozen=True)
class Header:
    """What the kernels of a program say of their arguments, each name once. `symbols`: those that
    nothing binds, sorted; `zeroed`: buffers that the launcher zeroes, before each kernel."""

    params: tuple[Param, ...]
    where: tuple[Binding, ...]
    aliases: tuple[Alias, ...]
    picks: tuple[AtMost, ...]
    symbols: tuple[str, ...]
    zeroed: tuple[tuple[str, ...], ...]

    @cached_property
    def kernel(self) -> Kernel:
        """A kernel with this header and no statements."""
        return Kernel("all", self.params, (), self.where, self.aliases)

    @cached_property
    def constants(self) -> Mapping[str, int]:
        return constants(self.kernel)

    def reach(self, names: set[str]) -> set[str]:
        """`names`, and the names that those of them which are known at launch only are made of."""
        reached = set(names)
        for b in reversed(self.where):
            if b.name in reached and b.name not in self.constants:
                reached |= names_of(b.expr)
        return reached


def joined(program: Program) -> Header:
    """The header of all kernels of a verified program. CodegenError: two kernels give one name two
    meanings, or a workspace has a size that the first kernel's header does not make."""
    join = _Join(program)
    for i in range(len(program.kernels)):
        join.add(i)
    join.check_workspaces()
    symbols = tuple(sorted(join.symbols))
    return Header(
        tuple(join.params.values()),
        tuple(join.where.values()),
        tuple(dict.fromkeys(a for k in program.kernels for a in k.aliases)),
        tuple(p for p in join.picks.values() if p.name in symbols),
        symbols,
        tuple(tuple(_zeroed(k.requires)) for k in program.kernels),
    )


def _zeroed(requires: tuple[Requirement, ...]) -> Iterator[str]:
    return (need.buffer for need in requires if isinstance(need, Zeroed))


class _Join:
    def __init__(self, program: Program):
        self.program = program
        self.params: dict[str, Param] = {}
        self.where: dict[str, Binding] = {}
        self.picks: dict[str, AtMost] = {}
        self.symbols: set[str] = set()

    def add(self, index: int) -> None:
        kernel = self.program.kernels[index]
        for i, binding in enumerate(kernel.where):
            self._add_binding(binding, ("kernels", index, "where", i))
        for name in launch_symbols(kernel):
            self._add_symbol(name, index)
        for i, param in enumerate(kernel.params):
            self._add_param(param, ("kernels", index, "params", i))
        for i, need in enumerate(kernel.requires):
            if isinstance(need, AtMost) and self.picks.setdefault(need.name, need) != need:
                path = ("kernels", index, "requires", i)
                self._refuse(path, f"another kernel bounds {need.name} otherwise", need.name)

    def _add_binding(self, binding: Binding, path: Path) -> None:
        first = self.where.setdefault(binding.name, binding)
        if binding.name in self.symbols or first.expr != binding.expr:
            self._refuse(
                path, f"{binding.name} has another meaning in another kernel", binding.name
            )

    def _add_symbol(self, name: str, index: int) -> None:
        if name in self.where:
            text = f"{name} is open in this kernel and bound in another"
            self._refuse(("kernels", index), text, self.program.kernels[index].name)
        self.symbols.add(name)

    def _add_param(self, param: Param, path: Path) -> None:
        first = self.params.setdefault(param.name, param)
        direction = _direction(first.direction, param.direction)
        if replace(first, direction=param.direction) != param:
            self._refuse(path, f"{param.name} is declared otherwise in another kernel", param.name)
        self.params[param.name] = replace(first, direction=direction)

    def check_workspaces(self) -> None:
        first = self.program.kernels[0]
        known = {b.name for b in first.where} | set(launch_symbols(first))
        for i, workspace in enumerate(self.program.workspaces):
            for name in sorted(symbol_names(workspace) - known):
                text = f"{name} is no name of the first kernel's header"
                self._refuse(("workspaces", i), text, name)

    def _refuse(self, path: Path, text: str, focus: str) -> NoReturn:
        place = excerpt(self.program, path, focus)
        raise CodegenError(f"{text}; a launcher needs one meaning for each name\n{place}")


def _direction(first: Direction, later: Direction) -> Direction:
    """Of a parameter of two kernels: what an earlier one wrote, a later one may read."""
    if first is Direction.IN and later is not Direction.IN:
        return Direction.INOUT
    return first
