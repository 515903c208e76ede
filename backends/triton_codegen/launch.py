"""Writes the `launch()` of an emitted file: checks, sizes, zeroing, the number of blocks, the
launch itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.layout import comma_lines, tuple_text
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo
from backends.triton_codegen.names import Names
from backends.triton_codegen.runtime_text import RUNTIME_NAMES, runtime_text
from backends.triton_codegen.scalars import Scalars, Side
from backends.triton_codegen.settings import Settings
from loopir.deps import alias_classes
from loopir.expr_text import expr_text
from loopir.nodes import AtMost, Kernel, Param, Zeroed
from loopir.scope import constants, launch_symbols
from loopir.symbols import CeilDiv, Expr, FloorDiv, Mod, names_of, operands, sym, try_evaluate
from loopir.types import Direction

__all__ = ["LOCALS", "RUNTIME_NAMES", "launch_text"]

#: what `launch()` calls its own variables
LOCALS = frozenset(
    {
        "num_warps",
        "num_stages",
        "blocks_per_sm",
        "tensors",
        "device",
        "blocks",
        "key",
        "args",
        "options",
    }
)
_MOST_BLOCKS = 2**31


@dataclass(frozen=True)
class Launcher:
    """The host side of a file; `keywords`: what `launch()` calls a size that it is given or
    picks."""

    source: str
    keywords: Mapping[str, str]


def launch_text(kernel: Kernel, info: KernelInfo, settings: Settings) -> Launcher:
    """The host side of the file, `launch()` last."""
    writer = _LaunchWriter(kernel, info, settings)
    lines = "".join(f"{line}\n" for line in writer.lines())
    given = {n: writer.scalars.names[n] for n in writer.given}
    picked = {p.symbol: p.option for p in writer.picked}
    return Launcher(f"{runtime_text(writer.called)}\n\n{lines}", given | picked)


@dataclass(frozen=True)
class _Picked:
    """A symbol that the launcher picks: `at_most(UNITS, TOTAL)`; the caller may lower it by
    `option`."""

    symbol: str
    option: str
    bound: Expr


class _LaunchWriter:
    def __init__(self, kernel: Kernel, info: KernelInfo, settings: Settings):
        self.kernel, self.info, self.settings = kernel, info, settings
        names = Names(RUNTIME_NAMES | LOCALS | {info.name})
        self.tensors = {p.name: names.fresh(p.name) for p in kernel.params}
        self.strides = {
            p.name: names.fresh(f"{self.tensors[p.name]}_strides") for p in kernel.params
        }
        unbound = launch_symbols(kernel)
        sizes = {n: names.fresh(n) for n in (*unbound, *(b.name for b in kernel.where))}
        self.picked = tuple(
            _Picked(r.name, names.fresh(r.name.lower()), r.expr)
            for r in kernel.requires
            if isinstance(r, AtMost) and r.name in unbound
        )
        self.scalars = Scalars(sizes, constants(kernel), Side.HOST, lambda _: True)
        self.measured = _measured(kernel)
        chosen = {p.symbol for p in self.picked}
        self.given = tuple(n for n in unbound if n not in self.measured and n not in chosen)
        self.called = {
            *(["_size"] if self.measured else []),
            *(["_sm_count"] if self.picked else []),
        }

    def lines(self) -> list[str]:
        body = [
            "_check_options(num_warps, num_stages)",
            *self._sizes(),
            *self._checks(),
            *self._picks(),
            *self._launches(),
        ]
        return [*self._signature(), *self._docstring(), *(f"    {line}" for line in body)]

    def _signature(self) -> list[str]:
        s = self.settings
        options = [
            *(self.scalars.names[n] for n in self.given),
            *(f"{p.option}=None" for p in self.picked),
            *(["blocks_per_sm=1"] if self.picked else []),
            f"num_warps={s.num_warps}",
            f"num_stages={s.num_stages}",
        ]
        return comma_lines("def launch(", [*self.tensors.values(), "*", *options], "):")

    def _docstring(self) -> list[str]:
        yields = [f"    {self._described(p)}" for p in self.kernel.params]
        picks = [
            f"    {p.option}: blocks at most; {p.symbol} is the least of it, "
            f"blocks_per_sm times the device's SMs, and {expr_text(p.bound)}."
            for p in self.picked
        ]
        head = f'    """Run @{self.kernel.name} on the current stream of the tensors\' device.'
        tail = (
            "    ValueError: the argument that does not fit, what was expected and what was given."
        )
        return [head, "", *yields, *picks, tail, '    """']

    def _described(self, p: Param) -> str:
        shape = ", ".join(map(expr_text, p.shape))
        role = "" if p.direction is Direction.IN else f", {p.direction.value}"
        return f"{self.tensors[p.name]}: {TORCH_NAME[p.dtype]} [{shape}]{role}"

    # --- sizes

    def _sizes(self) -> list[str]:
        """Launch symbols from the tensors' shapes, then the `where` names that anything below
        needs."""
        lines = [self._measurement(n, p, dim) for n, (p, dim) in self.measured.items()]
        lines += [f'_at_least(0, "{n}", {self.scalars.names[n]})' for n in self.given]
        late = self._after_picks()
        return [*lines, *self._bindings([n for n in self._needed() if n not in late])]

    def _measurement(self, symbol: str, p: Param, dim: int) -> str:
        args = f'"{p.name}", {self.tensors[p.name]}, {len(p.shape)}, {dim}'
        return f"{self.scalars.names[symbol]} = _size({args})"

    def _bindings(self, names: list[str]) -> list[str]:
        """Constants as one line, then what follows from launch symbols."""
        fixed = {
            self.scalars.names[n]: str(v)
            for n in names
            if (v := self.scalars.constants.get(n)) is not None
        }
        tail = f" = {', '.join(fixed.values())}"
        head = [", ".join(fixed) + tail] if fixed else []
        rest = [n for n in names if n not in self.scalars.constants]
        return [*head, *(line for n in rest for line in self._binding(n))]

    def _binding(self, name: str) -> list[str]:
        expr = next(b.expr for b in self.kernel.where if b.name == name)
        return [*self._divisors(expr), f"{self.scalars.names[name]} = {self.scalars.text(expr)}"]

    def _divisors(self, expr: Expr) -> list[str]:
        """A check that each divisor is positive which the launch decides."""
        found = {operands(d)[1] for d in expr.atoms(FloorDiv, Mod, CeilDiv)}
        open_ones = [d for d in found if try_evaluate(d, self.scalars.constants) is None]
        texts = sorted((expr_text(d), self.scalars.text(d)) for d in open_ones)
        return [f'_at_least(1, "{text}", {value})' for text, value in texts]

    def _needed(self) -> list[str]:
        """`where` names that shapes, arguments, bounds and the block count use, with what those are
        made of."""
        wanted = {a.symbol for a in self.info.args if a.kind in (ArgKind.SIZE, ArgKind.CONSTANT)}
        exprs = [self.info.blocks, *(p.bound for p in self.picked)]
        exprs += [e for p in self.kernel.params for e in p.shape]
        wanted |= {n for e in exprs for n in names_of(e)}
        for b in reversed(self.kernel.where):
            if b.name in wanted and b.name not in self.scalars.constants:
                wanted |= names_of(b.expr)
        return [b.name for b in self.kernel.where if b.name in wanted]

    def _after_picks(self) -> set[str]:
        """`where` names that depend on a picked symbol."""
        late = {p.symbol for p in self.picked}
        for b in self.kernel.where:
            if names_of(b.expr) & late:
                late.add(b.name)
        return late

    # --- checks

    def _checks(self) -> list[str]:
        params = self.kernel.params
        pairs = tuple_text([f'("{p.name}", {self.tensors[p.name]})' for p in params])
        outputs = [f'"{p.name}"' for p in params if p.direction is not Direction.IN]
        shared = alias_classes(self.kernel)
        both = [(a.name, b.name) for a, b in combinations(params, 2) if b.name in shared[a.name]]
        aliases = [f'("{a}", "{b}")' for a, b in both]
        return [
            *(line for p in params for line in self._check(p)),
            f"tensors = {pairs}",
            "device = _device(tensors)",
            f"_storage(tensors, {tuple_text(outputs)}, {tuple_text(aliases)})",
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
        has_strides = any(a.kind is ArgKind.STRIDE and a.symbol == p.name for a in self.info.args)
        result = f"{self.strides[p.name]} = " if has_strides else ""
        return comma_lines(f"{result}_check(", args, ")")

    # --- the launch

    def _picks(self) -> list[str]:
        lines = []
        for p in self.picked:
            name = self.scalars.names[p.symbol]
            most = '_at_least(1, "blocks_per_sm", blocks_per_sm) * _sm_count(device)'
            lines += [
                f"{name} = min({most}, {self.scalars.text(p.bound)})",
                f"if {p.option} is not None:",
                f'    {name} = min({name}, _at_least(1, "{p.option}", {p.option}))',
            ]
        return [*lines, *self._bindings([n for n in self._late() if n in self._block_names()])]

    def _late(self) -> list[str]:
        """Needed `where` names that follow from what the launcher picks."""
        late = self._after_picks()
        return [n for n in self._needed() if n in late]

    def _block_names(self) -> set[str]:
        """Late names that the number of blocks is made of; the others may divide by it, which may
        be zero."""
        wanted = set(names_of(self.info.blocks))
        for b in reversed(self.kernel.where):
            wanted |= names_of(b.expr) if b.name in wanted else set()
        return wanted

    def _launches(self) -> list[str]:
        zeroed = [r.buffer for r in self.kernel.requires if isinstance(r, Zeroed)]
        zero = [f"{self.tensors[b]}.detach().zero_()" for b in zeroed]
        arguments = [self._argument(a) for a in self.info.args]
        late = [n for n in self._late() if n not in self._block_names()]
        return [
            *self._divisors(self.info.blocks),
            f"blocks = {self.scalars.text(self.info.blocks)}",
            *self._block_limit(),
            "with torch.cuda.device(device):  # on the CPU (-1) this does nothing",
            *(f"    {line}" for line in zero),
            "    if blocks > 0:",
            *(f"        {line}" for line in self._bindings(late)),
            *comma_lines("key = (", self._key(), ")", " " * 8),
            *comma_lines("args = [", arguments, "]", " " * 8),
            *comma_lines("options = dict(", self._options(), ")", " " * 8),
            f"        _run({self.info.name}, key, blocks, args, options)",
        ]

    def _key(self) -> list[str]:
        """What Triton specialises for: the integers, and which addresses are multiples of 16."""
        integers = (ArgKind.STRIDE, ArgKind.SIZE)
        return [
            "device",
            "num_warps",
            "num_stages",
            *(f"{t}.data_ptr() % 16" for t in self.tensors.values()),
            *(self._argument(a) for a in self.info.args if a.kind in integers),
        ]

    def _block_limit(self) -> list[str]:
        count = try_evaluate(self.info.blocks, self.scalars.constants)
        if count is not None and count < _MOST_BLOCKS:
            return []
        return [
            f"if blocks >= {_MOST_BLOCKS}:",
            f'    _fail("blocks", "fewer than {_MOST_BLOCKS:,} output tiles", blocks)',
        ]

    def _options(self) -> list[str]:
        return [
            "num_warps=num_warps",
            "num_stages=num_stages",
            f"enable_fp_fusion={self.settings.fp_fusion}",
        ]

    def _argument(self, arg: KernelArg) -> str:
        match arg.kind:
            case ArgKind.TENSOR:
                return self.tensors[arg.symbol]
            case ArgKind.STRIDE:
                return f"{self.strides[arg.symbol]}[{arg.dim}]"
        return self.scalars.names[arg.symbol]


def _measured(kernel: Kernel) -> dict[str, tuple[Param, int]]:
    """Launch symbols that stand alone as a dimension of a parameter: where to read each."""
    found: dict[str, tuple[Param, int]] = {}
    unbound = {sym(n) for n in launch_symbols(kernel)}
    for param in kernel.params:
        for dim, size in enumerate(param.shape):
            if size in unbound:
                found.setdefault(str(size), (param, dim))
    return found
