"""Writes `_plan()` of an emitted file: the checks of arguments, the sizes that follow from them,
blocks; and `_parts()`, the bytes of workspaces, which needs no tensors."""

from functools import cached_property
from itertools import chain, combinations, starmap

from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.headers import Header
from backends.triton_codegen.host_sizes import HostSizes
from backends.triton_codegen.layout import comma_lines, tuple_lines, tuple_text
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo
from backends.triton_codegen.names import Names
from backends.triton_codegen.runtime_text import RUNTIME_NAMES
from backends.triton_codegen.settings import Settings
from loopir.deps import alias_classes
from loopir.expr_text import expr_text
from loopir.nodes import Param, Workspace
from loopir.symbols import Expr, names_of, sym, try_evaluate
from loopir.types import Direction
from loopir.workspaces import Parts, part_bytes

#: what `launch()`, `_plan()` and `_parts()` call their own variables
LOCALS = frozenset(
    {
        *("num_warps", "num_stages", "blocks_per_sm", "workspace", "memory", "tensors", "device"),
        *("sms", "options", "starts", "key", "plan", "sizes", "calls", "counters", "tiles"),
        *("blocks", "boxes", "parts", "later"),
    }
)
_MOST_BLOCKS = 2**31


class PlanWriter:
    """The names that the host side gives to everything, and the lines of its two functions of
    sizes."""

    def __init__(
        self, header: Header, parts: Parts, infos: tuple[KernelInfo, ...], settings: Settings
    ):
        self.header, self.parts, self.infos, self.settings = header, parts, infos, settings
        numbers = range(1, len(infos))
        self.block_names = ["blocks", *(f"blocks_{i}" for i in numbers)]
        self.box_names = ["boxes", *(f"boxes_{i}" for i in numbers)]
        functions = {i.name for i in self._functions}
        names = Names(RUNTIME_NAMES.union(LOCALS, functions, self.block_names, self.box_names))
        self.tensors = {p.name: names.fresh(p.name) for p in header.params}
        self.workspaces = {w.name: names.fresh(w.name) for w in parts.all}
        self.strides = {n: names.fresh(f"{text}_strides") for n, text in self.tensors.items()}
        self.sizes = HostSizes(header, names)
        self.called = {
            *(["_size"] if self.sizes.measured else []),
            *(["_sm_count"] if self.sizes.picked else []),
            *(["_workspace"] if parts.all else []),
            *(["_descriptors"] if any(i.described for i in infos) else []),
            *(["_policies"] if any(i.described and i.described.evict_first for i in infos) else []),
        }

    @property
    def options(self) -> list[str]:
        """What a plan depends on beside the tensors."""
        given = [self.sizes.names[n] for n in self.sizes.given]
        return [*given, *self.sizes.pick_options, *_COMPILED]

    def torch_dtype(self, buffer: Param | Workspace) -> str:
        return TORCH_NAME[buffer.dtype]

    def buffer(self, name: str) -> str:
        return self.tensors.get(name) or self.workspaces[name]

    def buffers(self, info: KernelInfo) -> list[str]:
        """The tensors of a kernel."""
        return [self.buffer(a.symbol) for a in info.args if a.kind is ArgKind.TENSOR]

    # --- the functions

    def lines(self) -> list[str]:
        sizes = self.sizes
        first, rest = self._late(self._needed)
        body = [
            "_check_options(num_warps, num_stages)",
            *sizes.measurements(self.tensors),
            *sizes.checks(sizes.given),
            *sizes.early(self._needed),
            *self._checks(),
            *(["sms = _sm_count(device)"] if sizes.picked else []),
            *sizes.picks(),
            *sizes.bindings(first),
            *self._block_lines(),
            *self._calls(rest),
            *(self.parts_call("parts = ", "sms") if self.parts.all else []),
            *comma_lines("return _Plan(", self._plan_arguments(), ")"),
        ]
        return [
            *comma_lines("def _plan(", [*self.tensors.values(), *self.options], "):"),
            '    """Checks everything; what a launch of such arguments does."""',
            *_indented(body),
        ]

    def parts_lines(self) -> list[str]:
        sizes = self.sizes
        first, rest = self._late(self._needed_of_parts)
        body = [
            *sizes.checks(sizes.unpicked),
            *sizes.early(self._needed_of_parts),
            *sizes.picks(),
            *sizes.bindings(first),
            *self._part_lines(rest),
            "return counters, tiles",
        ]
        return [
            *comma_lines("def _parts(", self._part_arguments("sms"), "):"),
            '    """Bytes and type of each workspace: of the counters, and of the others."""',
            *_indented(body),
        ]

    def parts_call(self, head: str, sms: str) -> list[str]:
        """`head` and a call of `_parts()`; `sms`: what says the number of SMs."""
        return comma_lines(f"{head}_parts(", self._part_arguments(sms), ")")

    def _part_arguments(self, sms: str) -> list[str]:
        unpicked = [self.sizes.names[n] for n in self.sizes.unpicked]
        return [*unpicked, *self.sizes.pick_options, *([sms] if self.sizes.picked else [])]

    @property
    def _functions(self) -> list[KernelInfo]:
        """Every function of the file that is a kernel."""
        return [i for info in self.infos for i in (info, info.described) if i]

    # --- which sizes

    @cached_property
    def _needed(self) -> list[str]:
        """`where` names that shapes, arguments, bounds and block counts use, with what those are
        made of."""
        args = [a.symbol for i in self._functions for a in i.args if a.kind in _SCALAR]
        exprs = [*self._block_counts(), *self._bounds(), *map(sym, args)]
        return self.sizes.made_of([*exprs, *(e for p in self.header.params for e in p.shape)])

    @cached_property
    def _needed_of_parts(self) -> list[str]:
        counts = self._block_counts() if self.idle_needs_no_workspace else []
        return self.sizes.made_of([*self._bounds(), *self._extents(), *counts])

    def _block_counts(self) -> list[Expr]:
        return [info.blocks for info in self.infos]

    def _bounds(self) -> list[Expr]:
        return [p.bound for p in self.sizes.picked]

    def _extents(self) -> list[Expr]:
        return [e for w in self.parts.all for e in w.shape]

    def _late(self, names: list[str]) -> tuple[list[str], list[str]]:
        """The names that a pick decides: those that block counts are made of, and the others."""
        late = [n for n in names if n in self.sizes.after_picks]
        first = self.header.reach({n for e in self._block_counts() for n in names_of(e)})
        return [n for n in late if n in first], [n for n in late if n not in first]

    @cached_property
    def idle_needs_no_workspace(self) -> bool:
        """Whether the bytes are computed only where a kernel has a block: some divide by a pick."""
        _, rest = self._late(self.sizes.made_of(self._extents()))
        return self.sizes.divides_by_pick(rest, self._extents())

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
            tuple_text([self.sizes.text(e) for e in p.shape]),
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

    # --- what follows from the sizes: blocks, calls, workspaces

    def _block_lines(self) -> list[str]:
        each = zip(self.block_names, self._block_counts(), strict=True)
        counts = [f"{name} = {self.sizes.text(count)}" for name, count in each]
        return [*self.sizes.divisors(*self._block_counts()), *counts]

    def _under_blocks(self, lines: list[str]) -> list[str]:
        some = " or ".join(f"{name} > 0" for name in self.block_names)
        return [f"if {some}:", *_indented(lines)]

    def _calls(self, rest: list[str]) -> list[str]:
        fusion = f"enable_fp_fusion={self.settings.fp_fusion}"
        each = list(zip(self.infos, self.block_names, self.box_names, strict=True))
        limits = [line for info, name, _ in each for line in self._block_limit(info, name)]
        limits += [line for info, _, name in each for line in self._box_lines(info, name)]
        options = f"options = dict({', '.join(f'{n}={n}' for n in _COMPILED)}, {fusion})"
        later = ["later = dict(options, launch_pdl=True)"] if self._overlaps else []
        lines = chain.from_iterable(starmap(self._call, each))
        calls = [*self.sizes.bindings(rest), "calls = (", *lines, ")"]
        if not self.sizes.divides_by_pick(rest):
            return [*limits, options, *later, *calls]
        idle = tuple_text([f"_Call({info.name}, 0, (), options)" for info in self.infos])
        return [*limits, options, *later, f"calls = {idle}", *self._under_blocks(calls)]

    @property
    def _overlaps(self) -> bool:
        """Whether kernels behind the first are launched while the one before runs."""
        return self.settings.launch_pdl and len(self.infos) > 1

    def _call(self, info: KernelInfo, blocks: str, boxes: str) -> list[str]:
        call = f"_Call({info.name}, {blocks}, ("
        if info.described is None:
            return _indented(self._call_lines(call, info, ","))
        pointers = tuple_text(self._places(info, ArgKind.TENSOR))
        name, marked = info.described.name, info.described.evict_first
        call_of = f"_EvictFirstCall({name}, {marked}" if marked else f"_DescribedCall({name}"
        head = f"{call_of}, {pointers}, {boxes}, {blocks}, ("
        params = tuple_text([t for t in self.buffers(info) if t in self.tensors.values()])
        lines = [
            *self._call_lines(head, info.described),
            f"if _can_describe(device, {params}, {boxes})",
            *self._call_lines(f"else {call}", info, ","),
        ]
        return _indented(lines)

    def _call_lines(self, head: str, info: KernelInfo, tail: str = "") -> list[str]:
        scalars = [self._argument(a) for a in info.args if a.kind in _PLANNED]
        is_later = self._overlaps and info not in (self.infos[0], self.infos[0].described)
        options = "later" if is_later else "options"
        end = f",), {options})" if len(scalars) == 1 else f"), {options})"
        return comma_lines(head, scalars, f"{end}{tail}", "")

    def _box_lines(self, info: KernelInfo, name: str) -> list[str]:
        """Of each descriptor: the place of its tensor, how its dimensions stand, the box."""
        if info.described is None:
            return []
        args = [a for a in info.described.args if a.kind is ArgKind.DESCRIPTOR]
        places = self._places(info, ArgKind.DESCRIPTOR)
        boxes = [f"({i}, {a.order}, {a.box})" for i, a in zip(places, args, strict=True)]
        return tuple_lines(f"{name} = ", boxes)

    def _places(self, info: KernelInfo, kind: ArgKind) -> list[str]:
        """Where the tensors of the other function's arguments stand among those of the launch."""
        assert info.described is not None
        order = [a.symbol for a in info.args if a.kind is ArgKind.TENSOR]
        return [str(order.index(a.symbol)) for a in info.described.args if a.kind is kind]

    def _block_limit(self, info: KernelInfo, name: str) -> list[str]:
        count = try_evaluate(info.blocks, self.header.constants)
        if count is not None and count < _MOST_BLOCKS:
            return []
        return [
            f"if {name} >= {_MOST_BLOCKS}:",
            f'    _fail("@{info.symbol}", "fewer than {_MOST_BLOCKS:,} blocks", {name})',
        ]

    def _argument(self, arg: KernelArg) -> str:
        if arg.kind is ArgKind.STRIDE:
            assert arg.dtype is not None
            factor = "" if arg.dtype.bytes == 1 else f"{arg.dtype.bytes} * "
            return f"{factor}{self.strides[arg.symbol]}[{arg.dim}]"
        return self.sizes.names[arg.symbol]

    def _plan_arguments(self) -> list[str]:
        parts = ["parts"] if self.parts.all else []
        return ["device", "sizes", self._disjoint(), "calls", *parts]

    def _part_lines(self, rest: list[str]) -> list[str]:
        lines = [
            *self.sizes.bindings(rest),
            *self.sizes.divisors(*self._extents()),
            *self._part_tuple("counters", self.parts.counters),
            *self._part_tuple("tiles", self.parts.tiles),
        ]
        if not self.idle_needs_no_workspace:
            return lines
        nothing = f"counters, tiles = {self._nothing()}"
        return [*self._block_lines(), nothing, *self._under_blocks(lines)]

    def _nothing(self) -> str:
        sides = ([f"(0, torch.{self.torch_dtype(w)})" for w in side] for side in self.parts.sides)
        return ", ".join(tuple_text(side) if side else "()" for side in sides)

    def _part_tuple(self, name: str, workspaces: tuple[Workspace, ...]) -> list[str]:
        items = [f"({self._bytes(w)}, torch.{self.torch_dtype(w)})" for w in workspaces]
        return tuple_lines(f"{name} = ", items)

    def _bytes(self, workspace: Workspace) -> str:
        size = part_bytes(workspace)
        if (value := try_evaluate(size, self.header.constants)) is not None:
            return str(value)
        return f'_at_least(0, "{workspace.name}", {self.sizes.text(size)})'


_COMPILED = ("num_warps", "num_stages")
_SCALAR = (ArgKind.SIZE, ArgKind.CONSTANT)
_PLANNED = (ArgKind.STRIDE, *_SCALAR)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
