"""Writes the host side of an emitted file: `_plan()` checks arguments and computes what a launch of
such arguments does, `launch()` finds or makes the plan, zeroes, and runs the kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

from backends.triton_codegen.headers import Header
from backends.triton_codegen.layout import comma_lines, tuple_text
from backends.triton_codegen.module import KernelInfo
from backends.triton_codegen.plan import LOCALS, PlanWriter
from backends.triton_codegen.runtime_text import RUNTIME_NAMES, runtime_text
from backends.triton_codegen.settings import Settings
from loopir.expr_text import expr_text
from loopir.nodes import Param
from loopir.types import Direction
from loopir.workspaces import Parts

__all__ = ["LOCALS", "RUNTIME_NAMES", "Launcher", "launch_text"]


@dataclass(frozen=True)
class Launcher:
    """The host side of a file; `keywords`: what `launch()` calls a size that it is given or picks;
    `idle_needs_no_workspace`: whether a launch without blocks needs no byte whatever the sizes."""

    source: str
    keywords: Mapping[str, str]
    idle_needs_no_workspace: bool


def launch_text(
    header: Header, parts: Parts, infos: tuple[KernelInfo, ...], settings: Settings
) -> Launcher:
    """The host side of the file, `launch()` last."""
    writer = _LaunchWriter(PlanWriter(header, parts, infos, settings))
    functions = [writer.plan.lines(), *writer.workspace_functions()]
    functions += [writer.run_lines(), writer.lines()]
    text = "\n\n\n".join("\n".join(lines) for lines in functions)
    source = f"{runtime_text(writer.plan.called)}\n\n{text}\n"
    return Launcher(source, writer.sizes.keywords, writer.plan.idle_needs_no_workspace)


class _LaunchWriter:
    def __init__(self, plan: PlanWriter):
        self.plan, self.header, self.parts, self.sizes = plan, plan.header, plan.parts, plan.sizes

    # --- launch

    def lines(self) -> list[str]:
        return [*self._signature(), *self._docstring(), *_indented(self._body())]

    def _signature(self) -> list[str]:
        plan, settings = self.plan, self.plan.settings
        options = [
            *(self.sizes.names[n] for n in self.sizes.given),
            *self._pick_options(),
            *(["workspace=None"] if self.parts.all else []),
            f"num_warps={settings.num_warps}",
            f"num_stages={settings.num_stages}",
        ]
        return comma_lines("def launch(", [*plan.tensors.values(), "*", *options], "):")

    def _pick_options(self) -> list[str]:
        options = [f"{p.option}=None" for p in self.sizes.picked]
        return [*options, "blocks_per_sm=1"] if options else []

    def _docstring(self) -> list[str]:
        names = ", then ".join(f"@{info.symbol}" for info in self.plan.infos)
        return [
            f'    """Run {names} on the current stream of the tensors\' device.',
            "",
            *(f"    {self._described(p)}" for p in self.header.params),
            *self._described_picks(),
            *(_WORKSPACE_TEXT if self.parts.all else []),
            "    ValueError: the argument that does not fit, what was expected and what was given.",
            '    """',
        ]

    def _described(self, p: Param) -> str:
        shape = ", ".join(map(expr_text, p.shape))
        role = "" if p.direction is Direction.IN else f", {p.direction.value}"
        return f"{self.plan.tensors[p.name]}: {self.plan.torch_dtype(p)} [{shape}]{role}"

    def _described_picks(self) -> list[str]:
        return [
            f"    {p.option}: blocks at most; {p.symbol} is the least of it, "
            f"blocks_per_sm times the device's SMs, and {expr_text(p.bound)}."
            for p in self.sizes.picked
        ]

    def _body(self) -> list[str]:
        plan = self.plan
        names = tuple_text([f'"{p.name}"' for p in self.header.params])
        arguments = [*plan.tensors.values(), *plan.options]
        return [
            *comma_lines("options = (", plan.options, ")"),
            f"tensors = {tuple_text([*plan.tensors.values()])}",
            "starts, key, plan = _found(options, tensors)",
            "if plan is None:",
            *comma_lines("plan = _kept(key, _plan(", arguments, "))", "    "),
            "    starts = _starts(tensors)  # raises where a tensor has no memory",
            f"plan.check_disjoint({names}, starts)",
            "if _is_current(plan.device):",
            *comma_lines("_run(", self._run_arguments(), ")", "    "),
            "else:",
            "    with torch.cuda.device(plan.device):",
            *comma_lines("_run(", self._run_arguments(), ")", "        "),
        ]

    def _run_arguments(self) -> list[str]:
        workspace = ["workspace", "starts"] if self.parts.all else []
        return ["plan", *self.plan.tensors.values(), *workspace]

    # --- the kernels of a launch

    def run_lines(self) -> list[str]:
        """`_run()`: what a launch of checked arguments does."""
        arguments = self._run_arguments()
        options = [f"{name}=None" for name in arguments[-2:]] if self.parts.all else []
        arguments = arguments[: len(arguments) - len(options)]
        names = tuple_text([f'"{p.name}"' for p in self.header.params])
        return [
            *comma_lines("def _run(", [*arguments, *options], "):"),
            '    """The kernels, on the current stream of the plan\'s device."""',
            *_indented(self._run(names)),
        ]

    def _run(self, names: str) -> list[str]:
        if not self.parts.all:
            return self._calls()
        views = [self.plan.workspaces[w.name] for w in self.parts.all]
        return [
            "if workspace is None:",
            "    memory = _workspace_of(plan)",
            "else:",
            f"    memory = _given_workspace(workspace, plan, {names}, starts)",
            "with memory.lock:  # other host threads may launch on this stream, in this memory",
            *_indented(self._locked(views)),
        ]

    def _locked(self, views: list[str]) -> list[str]:
        return [
            "try:",
            f"    {tuple_text(views)} = memory.views(plan.parts)",
            *_indented(self._calls()),
            "except BaseException:",
            "    _dropped(memory)",
            "    raise",
        ]

    def _calls(self) -> list[str]:
        lines = []
        for i, (info, zeroed) in enumerate(zip(self.plan.infos, self.header.zeroed, strict=True)):
            lines += [f"_zero({self.plan.buffer(name)})" for name in zeroed]
            lines += comma_lines(f"plan.calls[{i}](", self.plan.buffers(info), ")")
        return lines

    # --- workspaces

    def workspace_functions(self) -> list[list[str]]:
        if not self.parts.all:
            return []
        return [self.plan.parts_lines(), self._bytes(), self._new()]

    def _size_options(self) -> list[str]:
        return [*(self.sizes.names[n] for n in self.sizes.unpicked), *self._pick_options()]

    def _bytes(self) -> list[str]:
        options, body = self._size_options(), self.plan.parts_call("counters, tiles = ", "sms")
        text = []
        if self.sizes.picked:
            options.append("sms=None")
            body = ["if sms is None:", "    sms = _sm_count(_device_index(None))", *body]
            text = ["", "    sms: SMs of the device, None: of the current one."]
        return [
            *comma_lines("def workspace_bytes(", ["*", *options] if options else [], "):"),
            '    """Bytes of the workspace that a launch of these sizes needs.',
            *text,
            '    """',
            *_indented(body),
            "    return _room(counters) + _room(tiles)",
        ]

    def _new(self) -> list[str]:
        options = self._size_options()
        options = ["device", *(["*"] if options else []), *options]
        return [
            *comma_lines("def new_workspace(", options, "):"),
            '    """A Workspace for launches of these sizes or smaller ones; counters are zeroed',
            "    on the current stream of `device`: a number (-1: the CPU), a torch.device, its",
            "    name, or None: the current one.",
            '    """',
            "    device = _device_index(device)",
            *_indented(self.plan.parts_call("counters, tiles = ", "_sm_count(device)")),
            "    with torch.cuda.device(device):",
            "        return _made(device, _room(counters), _room(tiles))",
        ]


_WORKSPACE_TEXT = [
    "    workspace: None: memory that is kept for the current stream, grown where it is too small.",
    "        Else a Workspace of the caller's, or a uint8 tensor of workspace_bytes() bytes whose",
    "        counters are zero, for launches that run one after the other.",
]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
