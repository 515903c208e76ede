"""The variants of a kernel: compiled for a target, with the conditions under which each may run
and the arguments that it takes."""

from dataclasses import dataclass, field
from typing import Any

from backends.triton_codegen.aot import AotKernel, aligned_arguments, compile_function
from backends.triton_codegen.bundle import trees
from backends.triton_codegen.bundle.loading.model import (
    MOST,
    Argument,
    Condition,
    Constant,
    Descriptor,
    Expression,
)
from backends.triton_codegen.descriptors import MOST_INDEX
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo, Module
from backends.triton_codegen.targets import Target
from loopir.boxes import ROW_BYTES
from loopir.errors import CodegenError
from loopir.nodes import Kernel

_ALIGNED = 16
_MOST_PITCH = 2**40 - 1
#: how Triton's element types are called by the driver, where that differs
_DATA_TYPES = {8: 10, 9: 8, 10: 9}
_L2_128_BYTES = 2


@dataclass(frozen=True)
class Compiled:
    """A variant: what was compiled, when it may be launched, what it is given. Plain data, so that
    another process can have made it."""

    name: str
    symbol: str
    binary: bytes = field(repr=False)
    assembly: str = field(repr=False)
    threads: int
    shared_bytes: int
    registers: int
    spill_bytes: int
    constants: tuple[Constant, ...]
    conditions: tuple[Condition, ...]
    descriptors: tuple[Descriptor, ...]
    arguments: tuple[Argument, ...]


def compiled_variants(module: Module, index: int, target: Target) -> list[Compiled]:
    """Of kernel `index`, the best one first; the last suits every launch. CodegenError: the target
    cannot do one of them, or it needs what a loader does not give."""
    info, kernel = module.kernels[index], module.program.kernels[index]
    hinted = aligned_arguments(info, kernel)
    unhinted = tuple(a for a in hinted if not _condition(a, kernel))
    plain = _compiled("plain", module, info, unhinted, kernel, target)
    found = []
    if info.described and target.has_descriptors:
        described = aligned_arguments(info.described, kernel)
        found.append(_compiled("descriptors", module, info.described, described, kernel, target))
    aligned = _compiled("aligned", module, info, hinted, kernel, target)
    if aligned.binary != plain.binary:  # some kernels have no use for alignment
        found.append(aligned)
    return [*found, plain]


def _compiled(
    name: str,
    module: Module,
    info: KernelInfo,
    aligned: tuple[KernelArg, ...],
    kernel: Kernel,
    target: Target,
) -> Compiled:
    found = compile_function(module, info, aligned, target)
    _check_launchable(found)
    conditions = dict.fromkeys(c for a in info.args for c in _describable(a, kernel))
    conditions |= dict.fromkeys(c for a in aligned for c in _condition(a, kernel))
    metas = iter(found.metadata.get("tensordesc_meta") or ())
    descriptors, arguments = [], []
    for arg in info.args:
        if arg.kind is ArgKind.DESCRIPTOR:
            arguments += _described_arguments(arg, len(descriptors))
            descriptors.append(_descriptor(arg, next(metas)))
        elif arg.kind is not ArgKind.CONSTANT:
            arguments.append(_argument(arg, kernel))
    arguments += [_scratch("global_scratch"), _scratch("profile_scratch")]
    return Compiled(
        name,
        found.metadata["name"],
        found.binary,
        found.assembly,
        found.metadata["num_warps"] * target.warp_size,
        found.shared_bytes,
        found.registers,
        found.spill_bytes,
        tuple(Constant(a.name, a.value or 0) for a in info.args if a.kind is ArgKind.CONSTANT),
        tuple(conditions),
        tuple(descriptors),
        tuple(arguments),
    )


def _check_launchable(found: AotKernel) -> None:
    """CodegenError: it needs memory or a way to launch that loaders do not have."""
    metadata = found.metadata
    needs = [
        *(["scratch memory"] if metadata.get("global_scratch_size") else []),
        *(["profile memory"] if metadata.get("profile_scratch_size") else []),
        *(["clusters"] if metadata.get("num_ctas", 1) != 1 else []),
        *(["a cooperative launch"] if metadata.get("launch_cooperative_grid") else []),
    ]
    if needs:
        text = f"{found.target.text}: @{found.info.symbol} needs {', '.join(needs)}"
        raise CodegenError(f"{text}, which the loaders of a bundle do not give")


# --- conditions


def _condition(arg: KernelArg, kernel: Kernel) -> list[Condition]:
    """What makes a multiple of 16 of an argument; nothing of a workspace, which always is one."""
    if arg.symbol not in {p.name for p in kernel.params}:
        return []
    if arg.kind is ArgKind.TENSOR:
        return [_multiple(trees.address(arg.symbol))]
    return [_multiple(_stride_bytes(arg))]


def _multiple(expression: Expression) -> Condition:
    return Condition(expression, 0, MOST, _ALIGNED)


def _describable(arg: KernelArg, kernel: Kernel) -> list[Condition]:
    """What the hardware asks of a tensor whose boxes it copies."""
    if arg.kind is not ArgKind.DESCRIPTOR:
        return []
    name, (*outer, inner) = arg.symbol, arg.order
    assert arg.dtype is not None
    return [
        Condition(trees.address(name), 0, MOST, ROW_BYTES),
        *(Condition(trees.extent(name, d), 1, MOST_INDEX, 1) for d in sorted((*outer, inner))),
        *(
            Condition(trees.stride(name, d, arg.dtype.bytes), 1, _MOST_PITCH, ROW_BYTES)
            for d in sorted(outer)
        ),
    ]


# --- arguments


def _argument(arg: KernelArg, kernel: Kernel) -> Argument:
    match arg.kind:
        case ArgKind.TENSOR:
            is_parameter = any(p.name == arg.symbol for p in kernel.params)
            kind = "parameter" if is_parameter else "workspace"
            return Argument(arg.name, kind, "pointer", trees.address(arg.symbol), None)
        case ArgKind.STRIDE:
            return Argument(arg.name, "stride", "i64", _stride_bytes(arg), None)
    return Argument(arg.name, "size", "i64", Expression(arg.symbol, arg.symbol), None)


def _stride_bytes(arg: KernelArg) -> Expression:
    assert arg.dtype is not None
    assert arg.dim is not None
    return trees.stride(arg.symbol, arg.dim, arg.dtype.bytes)


def _described_arguments(arg: KernelArg, index: int) -> list[Argument]:
    """The map, the shape, the strides in elements: what Triton makes of one descriptor."""
    name, (*outer, inner) = arg.symbol, arg.order
    shape = [trees.extent(name, d) for d in arg.order]
    strides = [*(trees.stride(name, d) for d in outer), trees.number(1)]
    return [
        Argument(arg.name, "descriptor", "tensor_map", None, index),
        *(
            Argument(f"{arg.name}_size_{d}", "extent", "i32", e, None)
            for d, e in zip(arg.order, shape, strict=True)
        ),
        *(
            Argument(f"{arg.name}_stride_{d}", "stride", "i64", e, None)
            for d, e in zip((*outer, inner), strides, strict=True)
        ),
    ]


def _scratch(kind: Any) -> Argument:
    return Argument(kind, kind, "pointer", trees.number(0), None)


def _descriptor(arg: KernelArg, meta: dict[str, Any]) -> Descriptor:
    """As Triton's own host code encodes it (`fill_tma_descriptor`)."""
    rank, elements = len(arg.order), int(meta["elem_type"])
    assert not meta["fp4_padded"]
    return Descriptor(
        arg.symbol,
        _DATA_TYPES.get(elements, elements),
        meta["elem_size"],
        tuple(reversed(arg.order)),
        tuple(reversed(meta["block_size"])),
        (1,) * rank,
        0,
        meta["swizzle"],
        _L2_128_BYTES,
        0,
    )
