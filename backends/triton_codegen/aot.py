"""Compiles a kernel ahead of time, on any machine: no GPU, no driver."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from backends.triton_codegen.cache.cached import cached
from backends.triton_codegen.cache.entry import Built, Identity
from backends.triton_codegen.cache.toolchain import toolchain
from backends.triton_codegen.dtypes import SIGNATURE_NAME
from backends.triton_codegen.load import load
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo, Module
from backends.triton_codegen.resources import (
    assembler_key,
    disassemble,
    is_current,
    is_tritons_own,
    measure,
)
from backends.triton_codegen.targets import Target
from loopir.errors import CodegenError
from loopir.nodes import Kernel, Store
from loopir.scope import constants
from loopir.symbols import try_evaluate
from loopir.types import Via
from loopir.walk import walk_program

_DESCRIBABLE = "no empty dimension, start and strides at multiples of 16 bytes"
_STORES = (
    ", or store less at a time (epilogue-pieces in front of descriptors) or by pointers "
    "(descriptors{stores=false})"
)
_DIVISIBLE = [["tt.divisibility", 16]]
_environment = Lock()  # which Triton's folder is part of
_STAGES = {"cuda": ("ptx", "cubin"), "hip": ("amdgcn", "hsaco")}


@dataclass(frozen=True)
class AotKernel:
    """A kernel compiled for one target; of a program of several, the first, and `later` the others
    in the order of their launch.

    `binary`: cubin or hsaco; `assembly`: PTX or amdgcn; `metadata`: what a loader needs (name,
    shared, num_warps, ...); `registers` a thread; `spill_bytes` a thread, stores and loads;
    `shared_bytes` a block; `warnings` of the assembler; `assumptions`: what must hold of the
    arguments at every launch; `workspace`: the bytes that a launch needs beside its tensors, as
    text over the sizes that are open; `fallback`: of a kernel that moves tiles through tensor
    descriptors, the same by pointers, for launches whose tensors break the assumptions.
    """

    info: KernelInfo
    target: Target
    binary: bytes = field(repr=False)
    assembly: str = field(repr=False)
    metadata: Mapping[str, Any]
    registers: int
    spill_bytes: int
    shared_bytes: int
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    workspace: str = "0 bytes"
    later: tuple["AotKernel", ...] = ()
    fallback: "AotKernel | None" = None

    @property
    def kernels(self) -> tuple["AotKernel", ...]:
        """The program's kernels, in the order of their launch."""
        return (self, *self.later)

    @cached_property
    def sass(self) -> str:
        """The machine code as text: SASS on NVIDIA, the amdgcn itself on AMD."""
        return disassemble(self.binary) if self.target.backend == "cuda" else self.assembly


def compile_ahead(module: Module, target: Target) -> AotKernel:
    """The kernels of `module` for `target`, with the module's settings: the first, and the others
    in its `later`.

    CodegenError: Triton or the assembler refuses the kernel (with its message), or it needs more
    shared memory than a block can have (needed, available, what to change).
    """
    check_compiles()
    first, *later = (_compiled_kernel(module, i, target) for i in range(len(module.kernels)))
    return replace(first, later=tuple(later))


def _compiled_kernel(module: Module, index: int, target: Target) -> AotKernel:
    info, kernel = module.kernels[index], module.program.kernels[index]
    aligned = aligned_arguments(info, kernel)
    by_pointers = compile_function(module, info, aligned, target)
    if info.described is None or not target.has_descriptors:
        return by_pointers
    aligned = aligned_arguments(info.described, kernel)
    described = compile_function(module, info.described, aligned, target)
    return replace(described, fallback=by_pointers)


def compile_function(
    module: Module, info: KernelInfo, aligned: tuple[KernelArg, ...], target: Target
) -> AotKernel:
    """One function of `module`, which may rely on the arguments `aligned` being multiples of 16;
    CodegenError, as of `compile_ahead`."""
    asked = module, info, aligned, target
    built = cached(lambda: _identity(*asked), lambda: _built(*asked))
    metadata = {**built.metadata, "target": _gpu(target)}
    return AotKernel(
        info,
        target,
        built.binary,
        built.assembly,
        metadata,
        built.registers,
        built.spill_bytes,
        metadata["shared"],
        built.warnings,
        _assumptions(info, aligned),
        module.workspace_text,
    )


def _identity(
    module: Module, info: KernelInfo, aligned: tuple[KernelArg, ...], target: Target
) -> Identity:
    """All that `_built` depends on."""
    return {
        "kernel": info.name,
        "source": sha256(module.source.encode()).hexdigest(),
        "signature": [[a.name, _signature(a), a.value, a in aligned] for a in info.args],
        "settings": asdict(module.settings),
        "target": target.text,
        "shared_bytes": target.shared_bytes,
        "toolchain": toolchain(target, _options(module)),
    }


def _built(
    module: Module, info: KernelInfo, aligned: tuple[KernelArg, ...], target: Target
) -> Built:
    compiled = _current(module, info, aligned, target)
    metadata = compiled.metadata._asdict()
    del metadata["target"]
    _check_shared(info, metadata["shared"], target, module)
    assembly, binary = _STAGES[target.backend]
    options = metadata.get("ptx_options") or ""
    found = measure(target, compiled.asm[assembly], module.settings.fp_fusion, options)
    return Built(
        compiled.asm[binary],
        compiled.asm[assembly],
        (binary, assembly),
        metadata,
        found.registers,
        found.spill_bytes,
        found.warnings,
    )


def check_compiles() -> None:
    """CodegenError: Triton interprets in this process, and compiles nothing."""
    from triton import knobs

    if knobs.compilation.store_binary_only:
        raise CodegenError(
            "TRITON_STORE_BINARY_ONLY is set, so Triton drops the assembly; unset it"
        )
    if knobs.runtime.interpret:
        raise CodegenError(
            "TRITON_INTERPRET is set, and with it Triton compiles nothing; unset it (the target "
            "interpret needs no such variable)"
        )


def aligned_arguments(info: KernelInfo, kernel: Kernel) -> tuple[KernelArg, ...]:
    """Arguments compiled as multiples of 16: the starts of tensors, and strides in bytes, unless
    they belong to a tensor whose rows have a known length that is none."""
    sizes, params = constants(kernel), {p.name: p for p in kernel.params}

    def is_aligned(arg: KernelArg) -> bool:
        if arg.kind is not ArgKind.STRIDE:
            return arg.kind is ArgKind.TENSOR
        p = params[arg.symbol]
        row = None if p.contiguous is None else try_evaluate(p.shape[p.contiguous], sizes)
        return row is None or row * p.dtype.bytes % 16 == 0

    return tuple(filter(is_aligned, info.args))


def _assumptions(info: KernelInfo, aligned: tuple[KernelArg, ...]) -> tuple[str, ...]:
    tensors = ", ".join(a.name for a in aligned if a.kind is ArgKind.TENSOR)
    strides = ", ".join(a.name for a in aligned if a.kind is ArgKind.STRIDE)
    described = dict.fromkeys(a.symbol for a in info.args if a.kind is ArgKind.DESCRIPTOR)
    return (
        *([f"{', '.join(described)}: {_DESCRIBABLE}"] if described else []),
        *([f"{tensors}: start at a multiple of 16 bytes"] if tensors else []),
        *([f"{strides}: multiples of 16 bytes"] if strides else []),
        "strides, in bytes, and sizes are passed as 64-bit integers",
    )


def _current(
    module: Module, info: KernelInfo, aligned: tuple[KernelArg, ...], target: Target
) -> Any:
    """By the assembler of this moment. Triton keeps kernels by the version of the one that it asked
    first in the process: those of any but its own get a folder of their own, and so does what finds
    the kernel of another among Triton's."""
    from triton import knobs

    asked = module, info, aligned, target
    if is_tritons_own(target):
        compiled = _compiled(*asked)
        if is_current(target, compiled.asm[_STAGES[target.backend][0]]):
            return compiled
    with _environment, knobs.cache.scope():
        name = sha256(assembler_key(target).encode()).hexdigest()[:16]
        knobs.cache.dir = str(Path(knobs.cache.dir) / f"assembler-{name}")
        return _compiled(*asked)


def _compiled(
    module: Module, info: KernelInfo, aligned: tuple[KernelArg, ...], target: Target
) -> Any:
    import triton
    from triton.compiler import ASTSource

    if module.settings.launch_pdl and len(module.kernels) > 1 and not target.has_descriptors:
        raise CodegenError(f"{target.text}: launch_pdl needs cuda:90 or newer")
    namespace = load(module.source)
    function = getattr(namespace, info.name)
    signature = {a.name: _signature(a) for a in info.args}
    constants = {(i,): a.value for i, a in enumerate(info.args) if a.kind is ArgKind.CONSTANT}
    attributes = {(i,): _DIVISIBLE for i, a in enumerate(info.args) if a in aligned}
    source = ASTSource(function, signature, constants, attributes)
    options, policies = _options(module), nullcontext()
    if info.evict_first:
        options |= namespace._key_of_policies()
        policies = namespace._Policies(info.name, info.evict_first)
    try:
        with policies:
            return triton.compile(source, target=_gpu(target), options=options)
    except Exception as error:  # Triton raises many classes, RuntimeError among them
        raise CodegenError(f"{target.text}: Triton cannot compile @{info.name}: {error}") from error


def _options(module: Module) -> dict[str, Any]:
    settings = module.settings
    return {
        "num_warps": settings.num_warps,
        "num_stages": settings.num_stages,
        "enable_fp_fusion": settings.fp_fusion,
    }


def _gpu(target: Target) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget(target.backend, target.arch, target.warp_size)


def _signature(arg: KernelArg) -> str:
    match arg.kind:
        case ArgKind.TENSOR:
            assert arg.dtype is not None
            return f"*{SIGNATURE_NAME[arg.dtype]}"
        case ArgKind.DESCRIPTOR:
            assert arg.dtype is not None
            return f"tensordesc<{SIGNATURE_NAME[arg.dtype]}[{', '.join(map(str, arg.box))}]>"
        case ArgKind.CONSTANT:
            return "constexpr"
    return "i64"


def _check_shared(info: KernelInfo, needed: int, target: Target, module: Module) -> None:
    if needed > target.shared_bytes:
        name, available = f"@{info.symbol}", target.shared_bytes
        raise CodegenError(shared_memory_text(target.text, name, needed, available, module))


def shared_memory_text(target: str, name: str, needed: int, available: int, module: Module) -> str:
    """The message of a kernel that is over the limit."""
    stages = module.settings.num_stages
    advice = f"lower num_stages (now {stages}) or " if stages > 1 else ""
    stores = _STORES if _stores_boxes(module) else ""
    return (
        f"{target}: {name} needs {needed:,} bytes of shared memory, a block "
        f"can have {available:,}; {advice}take a smaller tile{stores}"
    )


def _stores_boxes(module: Module) -> bool:
    """Whether some tile is staged in shared memory to be stored through a descriptor."""
    statements = (s for _, s in walk_program(module.program))
    return any(isinstance(s, Store) and s.via is Via.DESCRIPTOR for s in statements)
