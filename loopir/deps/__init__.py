"""What depends on what in a kernel: a graph that is derived, never stored."""

from loopir.deps.accesses import alias_classes, exchanged, scalar_values
from loopir.deps.dot import to_dot
from loopir.deps.edges import Kind
from loopir.deps.graph import dependences

__all__ = ["Kind", "alias_classes", "dependences", "exchanged", "scalar_values", "to_dot"]
