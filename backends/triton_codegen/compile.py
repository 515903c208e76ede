"""One entry for the three ways to compile: Triton's interpreter, at the first launch, ahead of
time."""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal, TypeAlias, overload

from backends.triton_codegen.aot import AotKernel, compile_ahead, shared_memory_text
from backends.triton_codegen.emit import emit
from backends.triton_codegen.load import load
from backends.triton_codegen.module import Module
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.targets import INTERPRET, JIT, Mode, Target, parse_target
from loopir.errors import CodegenError
from loopir.nodes import Program

AheadTarget: TypeAlias = Literal[
    "cuda:80",
    "cuda:86",
    "cuda:89",
    "cuda:90",
    "cuda:100",
    "cuda:120",
    "hip:gfx942",
    "hip:gfx950",
]


@dataclass(frozen=True)
class CompiledKernel:
    """A program's kernels as a function: `kernel(A, B, C, **options)` is `launch()` of the emitted
    file, which `namespace` holds with all its other names."""

    module: Module
    target: Target
    namespace: ModuleType

    @property
    def source(self) -> str:
        return self.module.source

    def workspace_bytes(self, **sizes: Any) -> int:
        """Bytes of the workspace that a launch needs: `workspace_bytes()` of the emitted file, 0 of
        a program that has none."""
        function = getattr(self.namespace, "workspace_bytes", None)
        return function(**sizes) if function else 0

    def new_workspace(self, device: Any, **sizes: Any) -> Any:
        """A workspace that the caller owns, for `kernel(..., workspace=it)`: `new_workspace()` of
        the emitted file. `device`: a number, -1 for the CPU, a torch.device or its name, None for
        the current one. CodegenError: the program has no workspace. ValueError: no such device."""
        if not self.module.program.workspaces:
            raise CodegenError(f"{self.module.names}: no workspace is needed")
        return self.namespace.new_workspace(device, **sizes)

    def release_workspaces(self) -> None:
        """Let go of the memory that launches keep: `release_workspaces()` of the emitted file."""
        if self.module.program.workspaces:
            self.namespace.release_workspaces()

    def __call__(self, *tensors: Any, **options: Any) -> None:
        """Launch on the current stream of the tensors' device, or run on the CPU if the target is
        the interpreter.

        ValueError: an argument that does not fit. CodegenError: the device cannot hold the kernel,
        or Triton refuses it at this first launch.
        """
        if "workspace" in options and not self.module.program.workspaces:
            options = self._without_workspace(**options)
        if self.target.mode is Mode.INTERPRET:
            self._interpret(tensors, options)
        else:
            self._launch(tensors, options)

    def _without_workspace(self, workspace: Any, **options: Any) -> dict[str, Any]:
        if workspace is not None:
            given, names = type(workspace).__name__, self.module.names
            raise ValueError(f"workspace: expected None, since {names} needs none, got {given}")
        return options

    def _interpret(self, tensors: tuple[Any, ...], options: dict[str, Any]) -> None:
        from backends.triton_codegen.interpret import interpreting

        with interpreting(vars(self.namespace)):
            self._launch(tensors, options)

    def _launch(self, tensors: tuple[Any, ...], options: dict[str, Any]) -> None:
        try:
            self.namespace.launch(*tensors, **options)
        except Exception as error:
            reason = _reason(error, self.target, self.module)
            if reason is None:
                raise
            raise CodegenError(reason) from error


def _reason(error: Exception, target: Target, module: Module) -> str | None:
    """What to say of an error of Triton's; None of any other."""
    from triton.errors import TritonError
    from triton.runtime.errors import OutOfResources

    name = module.one_of_names
    if isinstance(error, OutOfResources) and error.name == "shared memory":
        return shared_memory_text(target.text, name, error.required, error.limit, module)
    if isinstance(error, TritonError):
        return f"{target.text}: Triton cannot run {name}: {error}"
    return None


@overload
def compile(
    program: Program | Module,
    target: Literal["interpret", "jit"] | None = None,
    *,
    settings: Settings | None = None,
    pipeline: str = "",
    **changes: Any,
) -> CompiledKernel: ...
@overload
def compile(
    program: Program | Module,
    target: AheadTarget,
    *,
    settings: Settings | None = None,
    pipeline: str = "",
    **changes: Any,
) -> AotKernel: ...
@overload
def compile(
    program: Program | Module,
    target: str,
    *,
    settings: Settings | None = None,
    pipeline: str = "",
    **changes: Any,
) -> CompiledKernel | AotKernel: ...
def compile(
    program: Program | Module,
    target: str | None = None,
    *,
    settings: Settings | None = None,
    pipeline: str = "",
    **changes: Any,
) -> CompiledKernel | AotKernel:
    """`program`, or a module that `emit` made of it, for `target`.

    target: "interpret" (CPU tensors), "jit" (a GPU in this machine), or ahead of time "cuda:90",
    "hip:gfx942" and so on; None takes the GPU if there is one, else the interpreter. `changes` are
    fields of Settings, as `num_stages=2`. CodegenError: an unknown target or setting, or a kernel
    that the target cannot do.
    """
    goal = _default_target() if target is None else parse_target(target)
    module = _module(program, settings, changes, pipeline)
    if goal.mode is Mode.AHEAD:
        return compile_ahead(module, goal)
    return CompiledKernel(module, goal, load(module.source))


def _default_target() -> Target:
    import torch

    return JIT if torch.cuda.is_available() else INTERPRET


def _module(
    program: Program | Module, settings: Settings | None, changes: dict[str, Any], pipeline: str
) -> Module:
    if isinstance(program, Module):
        if settings is None and not changes:
            return program
        settings, program = settings or program.settings, program.program
    try:
        chosen = replace(settings or Settings(), **changes)
    except (TypeError, ValueError) as error:
        raise CodegenError(f"settings: {error}") from error
    return emit(program, chosen, pipeline)
