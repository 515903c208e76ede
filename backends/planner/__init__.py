"""Which configuration computes a problem fastest on a device, from a cost model in bytes and
cycles. Knows neither torch nor Triton."""

from backends.planner.choose import Plan, Ranked, candidates, choose, explain, plan
from backends.planner.config import Config, Kind
from backends.planner.device import Device, read_device, shipped
from backends.planner.family import family
from backends.planner.model import Prediction, Term, predict
from backends.planner.problem import Problem

__all__ = [
    "Config",
    "Device",
    "Kind",
    "Plan",
    "Prediction",
    "Problem",
    "Ranked",
    "Term",
    "candidates",
    "choose",
    "explain",
    "family",
    "plan",
    "predict",
    "read_device",
    "shipped",
]
