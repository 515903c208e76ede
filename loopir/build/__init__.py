"""Builders: ordinary arguments in; a canonical program (`gemm`, `batched_gemm`, `gemv`) or an
untiled nest (`..._nest`) out."""

from loopir.build.arguments import Layout
from loopir.build.contraction import contraction_nest
from loopir.build.conv import ConvLayout, conv_nest
from loopir.build.dual_gemm import dual_gemm_nest
from loopir.build.epilogue import Activation, Epilogue
from loopir.build.gemm import batched_gemm, gemm
from loopir.build.gemv import gemv_nest
from loopir.build.gemv_tiles import gemv
from loopir.build.matmul import batched_gemm_nest, gemm_nest
from loopir.build.reduction import reduction_nest, sum_and_max_nest

__all__ = [
    "Activation",
    "ConvLayout",
    "Epilogue",
    "Layout",
    "batched_gemm",
    "batched_gemm_nest",
    "contraction_nest",
    "conv_nest",
    "dual_gemm_nest",
    "gemm",
    "gemm_nest",
    "gemv",
    "gemv_nest",
    "reduction_nest",
    "sum_and_max_nest",
]
