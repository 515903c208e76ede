"""The sizes on the host side of an emitted file: what each is called, where it comes from, and the
lines that check and compute it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from backends.triton_codegen.headers import Header
from backends.triton_codegen.names import Names
from backends.triton_codegen.scalars import Scalars, Side
from loopir.expr_text import expr_text
from loopir.nodes import Param
from loopir.symbols import CeilDiv, Expr, FloorDiv, Mod, names_of, operands, sym, try_evaluate


@dataclass(frozen=True)
class Picked:
    """A symbol that the launcher picks: `at_most(UNITS, TOTAL)`; the caller may lower it by
    `option`."""

    symbol: str
    option: str
    bound: Expr


class HostSizes:
    """Launch symbols and `where` names: `measured` on a tensor, `given` by the caller, `picked` by
    the launcher, or computed from those."""

    def __init__(self, header: Header, names: Names):
        self.header = header
        self.names = {n: names.fresh(n) for n in (*header.symbols, *(b.name for b in header.where))}
        self.picked = tuple(
            Picked(r.name, names.fresh(r.name.lower()), r.expr) for r in header.picks
        )
        self.scalars = Scalars(self.names, header.constants, Side.HOST, lambda _: True)
        self.measured = _measured(header)
        chosen = {p.symbol for p in self.picked}
        self.unpicked = tuple(n for n in header.symbols if n not in chosen)
        self.given = tuple(n for n in self.unpicked if n not in self.measured)

    @property
    def keywords(self) -> Mapping[str, str]:
        given = {n: self.names[n] for n in self.given}
        return given | {p.symbol: p.option for p in self.picked}

    @property
    def pick_options(self) -> list[str]:
        """What decides the picks, beside the sizes and the device."""
        options = [p.option for p in self.picked]
        return [*options, "blocks_per_sm"] if options else []

    def text(self, expr: Expr) -> str:
        return self.scalars.text(expr)

    # --- which names

    def made_of(self, exprs: Iterable[Expr]) -> list[str]:
        """The `where` names in `exprs`, and those that they are made of, in order."""
        wanted = self.header.reach({n for e in exprs for n in names_of(e)})
        return [b.name for b in self.header.where if b.name in wanted]

    @cached_property
    def after_picks(self) -> frozenset[str]:
        """Picked symbols, and the `where` names that depend on one."""
        late = {p.symbol for p in self.picked}
        for b in self.header.where:
            if names_of(b.expr) & late:
                late.add(b.name)
        return frozenset(late)

    def divides_by_pick(self, names: Iterable[str], exprs: Iterable[Expr] = ()) -> bool:
        """Whether one of the `where` names, or of `exprs`, divides by a pick, which is zero where
        there is nothing to do."""
        wanted = {*names}
        whole = [*exprs, *(b.expr for b in self.header.where if b.name in wanted)]
        return any(names_of(d) & self.after_picks for e in whole for d in _divisors(e))

    # --- lines

    def measurements(self, tensors: Mapping[str, str]) -> list[str]:
        """Sizes read off tensors, which have these names."""
        return [
            f'{self.names[n]} = _size("{p.name}", {tensors[p.name]}, {len(p.shape)}, {dim})'
            for n, (p, dim) in self.measured.items()
        ]

    def checks(self, symbols: tuple[str, ...]) -> list[str]:
        return [f'_at_least(0, "{n}", {self.names[n]})' for n in symbols]

    def picks(self) -> list[str]:
        lines = []
        for p in self.picked:
            name = self.names[p.symbol]
            most = '_at_least(1, "blocks_per_sm", blocks_per_sm) * sms'
            lines += [
                f"{name} = min({most}, {self.text(p.bound)})",
                f"if {p.option} is not None:",
                f'    {name} = min({name}, _at_least(1, "{p.option}", {p.option}))',
            ]
        return lines

    def early(self, names: list[str]) -> list[str]:
        """Those of the `where` names that no pick decides."""
        return self.bindings([n for n in names if n not in self.after_picks])

    def bindings(self, names: list[str]) -> list[str]:
        """Constants as one line, then what follows from launch symbols."""
        fixed = {
            self.names[n]: str(v) for n in names if (v := self.header.constants.get(n)) is not None
        }
        head = [f"{', '.join(fixed)} = {', '.join(fixed.values())}"] if fixed else []
        rest = [n for n in names if n not in self.header.constants]
        return [*head, *(line for n in rest for line in self._binding(n))]

    def _binding(self, name: str) -> list[str]:
        expr = next(b.expr for b in self.header.where if b.name == name)
        return [*self.divisors(expr), f"{self.names[name]} = {self.text(expr)}"]

    def divisors(self, *exprs: Expr) -> list[str]:
        """A check that each divisor is positive which the launch decides."""
        found = {d for e in exprs for d in _divisors(e)}
        open_ones = [d for d in found if try_evaluate(d, self.header.constants) is None]
        texts = sorted((expr_text(d), self.text(d)) for d in open_ones)
        return [f'_at_least(1, "{text}", {value})' for text, value in texts]


def _divisors(expr: Expr) -> set[Expr]:
    return {operands(d)[1] for d in expr.atoms(FloorDiv, Mod, CeilDiv)}


def _measured(header: Header) -> dict[str, tuple[Param, int]]:
    """Launch symbols that stand alone as a dimension of a parameter: where to read each."""
    found: dict[str, tuple[Param, int]] = {}
    unbound = {sym(n) for n in header.symbols}
    for param in header.params:
        for dim, size in enumerate(param.shape):
            if size in unbound:
                found.setdefault(str(size), (param, dim))
    return found
