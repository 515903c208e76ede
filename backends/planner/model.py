"""The predicted time of a configuration, by what it goes into."""

from dataclasses import dataclass, fields
from enum import Enum

from backends.planner.blocks import vector_residents
from backends.planner.config import Config, Kind
from backends.planner.device import Device
from backends.planner.finish import epilogue_us, fold_us
from backends.planner.norm import norm
from backends.planner.panels import BLEND, Overlapping, dram_tbps, first_panel_us, phases
from backends.planner.problem import Problem
from backends.planner.work import Work, work_of

_LOADED = 1.2  # latency of a GEMV while all of DRAM's rate is used
_VECTOR = 3  # the norm by which a GEMV's reads and latency add up


class Term(Enum):
    """A part of a predicted time; the value is the text form."""

    PRODUCTS = "products"
    LATENCY = "latency of loads"
    L2 = "out of L2"
    LINK = "into the SMs"
    DRAM = "DRAM"
    POWER = "power"
    LAUNCH = "launch and first panel"
    EPILOGUE = "epilogues"
    FOLD = "fold"


@dataclass(frozen=True)
class Prediction:
    """Microseconds. The first six overlap: together they take `panels`; the others do not."""

    products: float
    latency: float
    l2: float
    link: float
    dram: float
    power: float
    launch: float
    epilogue: float
    fold: float
    panels: float

    @property
    def time(self) -> float:
        return self.launch + self.panels + self.epilogue + self.fold

    @property
    def binds(self) -> Term:
        """The largest part."""
        return max(self.parts, key=lambda term: self.parts[term])

    @property
    def parts(self) -> dict[Term, float]:
        return {term: getattr(self, term.name.lower()) for term in Term}


def predict(
    config: Config, problem: Problem, device: Device, work: Work | None = None
) -> Prediction:
    """The time of one launch, operands out of DRAM. `work`: what `work_of` counts, where it is
    known. LoopIRError, ValueError: the configuration has no meaning, or none for this problem."""
    if config.kind is Kind.GEMV:
        return _gemv(config, problem, device)
    work = work or work_of(config, problem, device)
    each = phases(config, problem, device, work)
    sustained = problem.flops / device.sustained_tflops[problem.dtype.value] / 1e6
    power = max(0.0, sustained - device.burst_us)
    return Prediction(
        **{f.name: sum(getattr(phase, f.name) for phase in each) for f in fields(Overlapping)},
        power=power,
        launch=device.launch_us + device.start_us + first_panel_us(work, each),
        epilogue=epilogue_us(config, problem, device, work),
        fold=fold_us(config, problem, device, work),
        panels=norm((power, sum(phase.together for phase in each)), BLEND),
    )


def _gemv(config: Config, problem: Problem, device: Device) -> Prediction:
    """A read of the matrix. A block loads its next part when the one before is multiplied."""
    blocks = -(-max(problem.m, problem.n) // max(config.bm, config.bn))
    loads = blocks * -(-problem.k // config.bk)
    at_a_time = device.sms * max(1, vector_residents(config, problem))
    dram = problem.least_bytes / (dram_tbps(config, device) * 1e6)
    latency = max(loads / at_a_time, loads / blocks) * device.latency_us * _LOADED
    return Prediction(
        products=0,
        latency=latency,
        l2=0,
        link=0,
        dram=dram,
        power=0,
        launch=device.launch_us + device.latency_us,
        epilogue=device.epilogue_us,
        fold=0,
        panels=norm((dram, latency), _VECTOR),
    )
