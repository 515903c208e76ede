"""Which configuration computes a problem fastest on a device, from a cost model in bytes and
cycles. Knows neither torch nor Triton."""

from backends.planner.config import Config, Kind
from backends.planner.problem import Problem

__all__ = ["Config", "Kind", "Problem"]
