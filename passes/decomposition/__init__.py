"""Pure arithmetic of decompositions: schedules as segments and as closed forms, exact cover, waves,
makespans. Knows no IR beyond index expressions."""

from passes.decomposition.bounds import Bounds, owner, unit_range, useful_splits
from passes.decomposition.choose import Candidate, Choice, choose
from passes.decomposition.closed_form import (
    ClosedForm,
    Direction,
    SlotOrder,
    SplitKForm,
    StreamKForm,
    WholeTilesForm,
)
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel, Prediction, predict
from passes.decomposition.cover import check_exact_cover
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.figures import ScheduleSummary, summary
from passes.decomposition.guide_rule import GuideAdvice, guide_rule
from passes.decomposition.hybrid import Hybrid, HybridKind
from passes.decomposition.k_aligned import KAligned
from passes.decomposition.k_aligned_form import KAlignedForm
from passes.decomposition.permuted import Permuted
from passes.decomposition.quantization import Waves, waves
from passes.decomposition.schedule import Schedule, Segment
from passes.decomposition.simulation import Fold, simulate
from passes.decomposition.split_k import SplitK
from passes.decomposition.stream_k import StreamK
from passes.decomposition.timeline import Event, EventKind, Timeline, UnitCost

__all__ = [
    "UNIT_COST_MODEL",
    "Bounds",
    "Candidate",
    "Choice",
    "ClosedForm",
    "CostModel",
    "DataParallel",
    "Direction",
    "Event",
    "EventKind",
    "Fold",
    "GuideAdvice",
    "Hybrid",
    "HybridKind",
    "KAligned",
    "KAlignedForm",
    "Permuted",
    "Prediction",
    "Schedule",
    "ScheduleSummary",
    "Segment",
    "SlotOrder",
    "SplitK",
    "SplitKForm",
    "StreamK",
    "StreamKForm",
    "Timeline",
    "UnitCost",
    "Waves",
    "WholeTilesForm",
    "check_exact_cover",
    "choose",
    "guide_rule",
    "owner",
    "predict",
    "simulate",
    "summary",
    "unit_range",
    "useful_splits",
    "waves",
]
