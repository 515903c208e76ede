"""Stream-K: criteria -> decomposition -> rewrite."""

from passes.stream_k.options import Merge
from passes.stream_k.stream_k import StreamKPass

__all__ = ["Merge", "StreamKPass"]
