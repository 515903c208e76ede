"""Triton as a backend: programs of the IR to Triton source, and that source to kernels that run.

Emitting needs neither torch nor triton; they are imported by what compiles or runs.
"""

from typing import TYPE_CHECKING, Any

from backends.triton_codegen.aot import AotKernel
from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.emit import emit
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo, Module
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.targets import TARGETS, Target, parse_target

if TYPE_CHECKING:
    from backends.triton_codegen.ops.matmul import matmul

__all__ = [
    "TARGETS",
    "AotKernel",
    "ArgKind",
    "CompiledKernel",
    "KernelArg",
    "KernelInfo",
    "Module",
    "Settings",
    "Target",
    "compile",
    "emit",
    "matmul",
    "parse_target",
]


def __getattr__(name: str) -> Any:
    """`matmul`, which imports torch, when it is asked for."""
    if name != "matmul":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from backends.triton_codegen.ops.matmul import matmul

    return matmul
