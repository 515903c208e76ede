"""Writes `_plan()` of an emitted file: the checks of arguments, the sizes that follow from them,
blocks, bytes of workspaces; and `_parts()`, those bytes without tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, starmap

from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.headers import Header
from backends.triton_codegen.layout import comma_lines, tuple_text
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo
from backends.triton_codegen.names import Names
from backends.triton_codegen.runtime_text import RUNTIME_NAMES
from backends.triton_codegen.scalars import Scalars, Side
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.workspace import Parts, part_bytes
from loopir.deps import alias_classes
from loopir.expr_text import expr_text
from loopir.nodes import Param, Workspace
from loopir.symbols import CeilDiv, Expr, FloorDiv, Mod, names_of, operands, sym, try_evaluate
from loopir.types import Direction

#: what `launch()`, `_plan()` and `_parts()` call their own variables
LOCALS = frozenset(
    {
        *("num_warps", "num_stages", "blocks_per_sm", "workspace", "memory", "tensors", "device"),
        *("sms", "options", "starts", "key", "plan", "sizes", "calls", "counters", "tiles"),
        "blocks",
    }
)
_MOST_BLOCKS = 2**31


@dataclass(frozen=True)
class Picked:
    """A symbol that the launcher picks: `at_most(UNITS, TOTAL)`; the caller may lower it by
    `option`."""

    symbol: str
    option: str
    bound: Expr


class PlanWriter:
    """The names that the host side gives to everything, and the lines of its sizes."""

    def __init__(
        self, header: Header, parts: Parts, infos: tuple[KernelInfo, ...], settings: Settings
    ):
        self.header, self.parts, self.infos, self.settings = header, parts, infos, settings
        blocks = [f"blocks_{i}" for i in range(1, len(infos))]
        self.block_names = ["blocks", *blocks]
        names = Names(RUNTIME_NAMES | LOCALS | {i.name for i in infos} | set(blocks))
        self.tensors = {p.name: names.fresh(p.name) for p in header.params}
        self.workspaces = {w.name: names.fresh(w.name) for w in parts.all}
        self.strides = {n: names.fresh(f"{text}_strides") for n, text in self.tensors.items()}
        sizes = {n: names.fresh(n) for n in (*header.symbols, *(b.name for b in header.where))}
        self.picked = tuple(
            Picked(r.name, names.fresh(r.name.lower()), r.expr) for r in header.picks
        )
        self.scalars = Scalars(sizes, header.constants, Side.HOST, lambda _: True)
        self.measured = _measured(header)
        chosen = {p.symbol for p in self.picked}
        self.unpicked = tuple(n for n in header.symbols if n not in chosen)
        self.given = tuple(n for n in self.unpicked if n not in self.measured)
        self.called = {
            *(["_size"] if self.measured else []),
            *(["_sm_count"] if self.picked else []),
            *(["_workspace"] if parts.all else []),
        }

    @property
    def keywords(self) -> Mapping[str, str]:
        given = {n: self.scalars.names[n] for n in self.given}
        return given | {p.symbol: p.option for p in self.picked}

    @property
    def options(self) -> list[str]:
        """What a plan depends on beside the tensors."""
        return [*(self.scalars.names[n] for n in self.given), *self._pick_names(), *_COMPILED]

    def _pick_names(self) -> list[str]:
        options = [p.option for p in self.picked]
        return [*options, "blocks_per_sm"] if options else []

    def torch_dtype(self, buffer: Param | Workspace) -> str:
        return TORCH_NAME[buffer.dtype]

    def buffer(self, name: str) -> str:
        return self.tensors.get(name) or self.workspaces[name]

    def buffers(self, info: KernelInfo) -> list[str]:
        """The tensors of a kernel."""
        return [self.buffer(a.symbol) for a in info.args if a.kind is ArgKind.TENSOR]

    # --- the functions

    def lines(self) -> list[str]:
        arguments = [*self.tensors.values(), *self.options]
        body = [
            "_check_options(num_warps, num_stages)",
            *(self._measurement(n, p, dim) for n, (p, dim) in self.measured.items()),
            *self._sizes(self.given, self._needed),
            *self._checks(),
            *(["sms = _sm_count(device)"] if self.picked else []),
            *self._schedule(self._needed),
            *self._calls(),
            *comma_lines("return _Plan(", self._plan_arguments(), ")"),
        ]
        return [
            *comma_lines("def _plan(", arguments, "):"),
            '    """Checks everything; what a launch of such arguments does."""',
            *(f"    {line}" for line in body),
        ]

    def parts_lines(self) -> list[str]:
        picks = [*self._pick_names(), "sms"] if self.picked else []
        arguments = [*(self.scalars.names[n] for n in self.unpicked), *picks]
        exprs = [p.bound for p in self.picked] + [e for w in self.parts.all for e in w.shape]
        exprs += [i.blocks for i in self.infos] if self.divides_by_pick else []
        needed = self._made_of(exprs)
        body = [
            *self._sizes(self.unpicked, needed),
            *self._schedule(needed),
            "return counters, tiles",
        ]
        return [
            *comma_lines("def _parts(", arguments, "):"),
            '    """Bytes and type of each workspace: of the counters, and of the others."""',
            *(f"    {line}" for line in body),
        ]

    # --- sizes

    def _measurement(self, symbol: str, p: Param, dim: int) -> str:
        args = f'"{p.name}", {self.tensors[p.name]}, {len(p.shape)}, {dim}'
        return f"{self.scalars.names[symbol]} = _size({args})"

    def _sizes(self, given: tuple[str, ...], needed: list[str]) -> list[str]:
        """The sizes that the caller says, then the `where` names among `needed` that no pick
        decides."""
        lines = [f'_at_least(0, "{n}", {self.scalars.names[n]})' for n in given]
        late = self._after_picks()
        return [*lines, *self._bindings([n for n in needed if n not in late])]

    def _bindings(self, names: list[str]) -> list[str]:
        """Constants as one line, then what follows from launch symbols."""
        fixed = {
            self.scalars.names[n]: str(v)
            for n in names
            if (v := self.header.constants.get(n)) is not None
        }
        tail = f" = {', '.join(fixed.values())}"
        head = [", ".join(fixed) + tail] if fixed else []
        rest = [n for n in names if n not in self.header.constants]
        return [*head, *(line for n in rest for line in self._binding(n))]

    def _binding(self, name: str) -> list[str]:
        expr = next(b.expr for b in self.header.where if b.name == name)
        return [*self._divisors(expr), f"{self.scalars.names[name]} = {self.scalars.text(expr)}"]

    def _divisors(self, *exprs: Expr) -> list[str]:
        """A check that each divisor is positive which the launch decides."""
        found = {d for e in exprs for d in _divisors(e)}
        open_ones = [d for d in found if try_evaluate(d, self.header.constants) is None]
        texts = sorted((expr_text(d), self.scalars.text(d)) for d in open_ones)
        return [f'_at_least(1, "{text}", {value})' for text, value in texts]

    @cached_property
    def _needed(self) -> list[str]:
        """`where` names that shapes, arguments, bounds, block counts and workspaces use, with what
        those are made of."""
        args = [a.symbol for i in self.infos for a in i.args if a.kind in _SCALAR]
        exprs = [*(i.blocks for i in self.infos), *(p.bound for p in self.picked), *map(sym, args)]
        return self._made_of([*exprs, *(e for b in self._sized() for e in b.shape)])

    def _sized(self) -> tuple[Param | Workspace, ...]:
        return (*self.header.params, *self.parts.all)

    def _made_of(self, exprs: list[Expr]) -> list[str]:
        """The `where` names in `exprs`, and those that they are made of, in order."""
        wanted = self.header.reach({n for e in exprs for n in names_of(e)})
        return [b.name for b in self.header.where if b.name in wanted]

    def _after_picks(self) -> set[str]:
        """`where` names that depend on a picked symbol."""
        late = {p.symbol for p in self.picked}
        for b in self.header.where:
            if names_of(b.expr) & late:
                late.add(b.name)
        return late

    # --- checks

    def _checks(self) -> list[str]:
        params = self.header.params
        pairs = tuple_text([f'("{p.name}", {self.tensors[p.name]})' for p in params])
        outputs = [f'"{p.name}"' for p in params if p.direction is not Direction.IN]
        return [
            *(line for p in params for line in self._check(p)),
            f"tensors = {pairs}",
            "device = _device(tensors)",
            f"sizes = _extents(tensors, {tuple_text(outputs)})",
        ]

    def _check(self, p: Param) -> list[str]:
        args = [
            f'"{p.name}"',
            self.tensors[p.name],
            f"torch.{TORCH_NAME[p.dtype]}",
            tuple_text([self.scalars.text(e) for e in p.shape]),
            f'"[{", ".join(map(expr_text, p.shape))}]"',
            str(p.contiguous),
        ]
        strided = (a for i in self.infos for a in i.args if a.kind is ArgKind.STRIDE)
        result = f"{self.strides[p.name]} = " if p.name in {a.symbol for a in strided} else ""
        return comma_lines(f"{result}_check(", args, ")")

    def _disjoint(self) -> str:
        """Pairs of tensors, by position, that may not share a byte: the later one first."""
        shared = alias_classes(self.header.kernel)
        pairs = combinations(enumerate(self.header.params), 2)
        apart = [
            f"({j}, {i})"
            for (i, a), (j, b) in pairs
            if b.name not in shared[a.name] and not a.direction is b.direction is Direction.IN
        ]
        return tuple_text(apart) if apart else "()"

    # --- what follows from the sizes: blocks, workspaces, calls

    def _schedule(self, needed: list[str]) -> list[str]:
        late, first = self._after_picks(), self._block_names()
        return [
            *self._picks(),
            *self._bindings([n for n in needed if n in late and n in first]),
            *(self._block_lines() if needed is self._needed or self.divides_by_pick else []),
            *self._part_lines([n for n in needed if n in late and n not in first]),
        ]

    def _block_lines(self) -> list[str]:
        each = zip(self.block_names, self.infos, strict=True)
        counts = [f"{name} = {self.scalars.text(info.blocks)}" for name, info in each]
        return [*self._divisors(*(i.blocks for i in self.infos)), *counts]

    def _picks(self) -> list[str]:
        lines = []
        for p in self.picked:
            name = self.scalars.names[p.symbol]
            most = '_at_least(1, "blocks_per_sm", blocks_per_sm) * sms'
            lines += [
                f"{name} = min({most}, {self.scalars.text(p.bound)})",
                f"if {p.option} is not None:",
                f'    {name} = min({name}, _at_least(1, "{p.option}", {p.option}))',
            ]
        return lines

    def _block_names(self) -> set[str]:
        """Names that the numbers of blocks are made of."""
        return self.header.reach({n for info in self.infos for n in names_of(info.blocks)})

    @cached_property
    def divides_by_pick(self) -> bool:
        """Whether sizes that no block count needs divide by a pick, which is zero where there is
        nothing to do."""
        late = self._after_picks() - self._block_names()
        exprs = [b.expr for b in self.header.where if b.name in late & {*self._needed}]
        exprs += [e for w in self.parts.all for e in w.shape]
        return any(names_of(d) & self._after_picks() for e in exprs for d in _divisors(e))

    def _part_lines(self, rest: list[str]) -> list[str]:
        lines = self._bindings(rest)
        if self.parts.all:
            lines += self._divisors(*(e for w in self.parts.all for e in w.shape))
            lines += self._part_tuple("counters", self.parts.counters)
            lines += self._part_tuple("tiles", self.parts.tiles)
        if not self.divides_by_pick:
            return lines
        nothing = [] if not self.parts.all else [f"counters, tiles = {self._nothing()}"]
        return [*nothing, *self._under_blocks(lines)]

    def _nothing(self) -> str:
        sides = ([f"(0, torch.{self.torch_dtype(w)})" for w in side] for side in self.parts.sides)
        return ", ".join(tuple_text(side) if side else "()" for side in sides)

    def _under_blocks(self, lines: list[str]) -> list[str]:
        some = " or ".join(f"{name} > 0" for name in self.block_names)
        return [f"if {some}:", *(f"    {line}" for line in lines)]

    def _part_tuple(self, name: str, workspaces: tuple[Workspace, ...]) -> list[str]:
        items = [f"({self._bytes(w)}, torch.{self.torch_dtype(w)})" for w in workspaces]
        return comma_lines(f"{name} = (", items, ",)" if len(items) == 1 else ")")

    def _bytes(self, workspace: Workspace) -> str:
        size = part_bytes(workspace)
        if (value := try_evaluate(size, self.header.constants)) is not None:
            return str(value)
        return f'_at_least(0, "{workspace.name}", {self.scalars.text(size)})'

    def _calls(self) -> list[str]:
        fusion = f"enable_fp_fusion={self.settings.fp_fusion}"
        each = list(zip(self.infos, self.block_names, strict=True))
        limits = [line for info, name in each for line in self._block_limit(info, name)]
        options = f"options = dict({', '.join(f'{n}={n}' for n in _COMPILED)}, {fusion})"
        lines = chain.from_iterable(starmap(self._call, each))
        calls = ["calls = (", *lines, ")"]
        if not self.divides_by_pick:
            return [*limits, options, *calls]
        idle = tuple_text([f"_Call({info.name}, 0, (), options)" for info in self.infos])
        return [*limits, options, f"calls = {idle}", *self._under_blocks(calls)]

    def _call(self, info: KernelInfo, blocks: str) -> list[str]:
        scalars = [self._argument(a) for a in info.args if a.kind is not ArgKind.TENSOR]
        tail = ",), options)," if len(scalars) == 1 else "), options),"
        return comma_lines(f"_Call({info.name}, {blocks}, (", scalars, tail, "    ")

    def _block_limit(self, info: KernelInfo, name: str) -> list[str]:
        count = try_evaluate(info.blocks, self.header.constants)
        if count is not None and count < _MOST_BLOCKS:
            return []
        return [
            f"if {name} >= {_MOST_BLOCKS}:",
            f'    _fail("{name}", "fewer than {_MOST_BLOCKS:,} output tiles", {name})',
        ]

    def _argument(self, arg: KernelArg) -> str:
        if arg.kind is ArgKind.STRIDE:
            return f"{self.strides[arg.symbol]}[{arg.dim}]"
        return self.scalars.names[arg.symbol]

    def _plan_arguments(self) -> list[str]:
        parts = ["(counters, tiles)"] if self.parts.all else []
        return ["device", "sizes", self._disjoint(), "calls", *parts]


_COMPILED = ("num_warps", "num_stages")
_SCALAR = (ArgKind.SIZE, ArgKind.CONSTANT)


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
