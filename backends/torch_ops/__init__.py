"""Operators of torch in the namespace `loopir`, backed by the planner's kernels, and an importer
that puts them into graphs."""

from backends.torch_ops.compile_backend import CompileBackend
from backends.torch_ops.functions import conv2d, linear, matmul
from backends.torch_ops.importer import replace
from backends.torch_ops.interpreted import interpreted
from backends.torch_ops.report import Reason, Refused, Report, Taken

__all__ = [
    "CompileBackend",
    "Reason",
    "Refused",
    "Report",
    "Taken",
    "conv2d",
    "interpreted",
    "linear",
    "matmul",
    "replace",
]
