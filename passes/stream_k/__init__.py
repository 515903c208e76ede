"""Stream-K: criteria -> decomposition -> rewrite."""

from passes.stream_k.options import Decomposition, Merge, Part
from passes.stream_k.stream_k import StreamKPass

__all__ = ["Decomposition", "Merge", "Part", "StreamKPass"]
