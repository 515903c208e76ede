"""Builders: ordinary arguments in, canonical programs out."""

from loopir.build.gemm import Layout, gemm

__all__ = ["Layout", "gemm"]
