"""Pure arithmetic of decompositions: bounds, segments, exact cover, waves. Knows no IR beyond index
expressions."""

from passes.decomposition.bounds import Bounds, symbolic_owner, symbolic_range
from passes.decomposition.cover import check_exact_cover
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.figures import ScheduleSummary, summary
from passes.decomposition.quantization import Waves, waves
from passes.decomposition.schedule import Schedule, Segment
from passes.decomposition.stream_k import StreamK

__all__ = [
    "Bounds",
    "DataParallel",
    "Schedule",
    "ScheduleSummary",
    "Segment",
    "StreamK",
    "Waves",
    "check_exact_cover",
    "summary",
    "symbolic_owner",
    "symbolic_range",
    "waves",
]
