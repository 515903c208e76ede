"""What the Stream-K scheduler of CUTLASS 3.x would do with a problem."""

from passes.decomposition.cutlass.geometry import Geometry, Raster
from passes.decomposition.cutlass.modes import Mode, Reason
from passes.decomposition.cutlass.plan import CutlassPlan
from passes.decomposition.cutlass.rule import cutlass_rule
from passes.decomposition.cutlass.schedule import CutlassSchedule
from passes.decomposition.cutlass.simple import SimplePlan, simple_rule

__all__ = [
    "CutlassPlan",
    "CutlassSchedule",
    "Geometry",
    "Mode",
    "Raster",
    "Reason",
    "SimplePlan",
    "cutlass_rule",
    "simple_rule",
]
