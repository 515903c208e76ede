"""Triton as a backend: programs of the IR to Triton source, and that source to kernels that run.

Emitting needs neither torch nor triton; they are imported by what compiles or runs.
"""

from backends.triton_codegen.aot import AotKernel
from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.emit import emit
from backends.triton_codegen.module import ArgKind, KernelArg, KernelInfo, Module
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.targets import TARGETS, Target, parse_target

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
    "parse_target",
]
