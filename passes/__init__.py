"""Passes over the loop-nest IR, and what explains them: `passes.explain(program)`."""

from passes.explain import explain

__all__ = ["explain"]
