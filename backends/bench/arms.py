"""What is timed against what: an arm computes the product of a shape in one way."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from backends.planner.choose import plan
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.family import family
from backends.planner.model import predict
from backends.planner.problem import Problem
from backends.planner.work import stream_k_of
from passes.stream_k import Decomposition


class Group(Enum):
    """Whom an arm stands for; ratios are taken against the fastest arm of a group."""

    OURS = "ours"
    BLAS = "blas"
    INDUCTOR = "inductor"
    DATA_PARALLEL = "data-parallel"
    SWEEP = "sweep"


class Library(Enum):
    """What multiplies without being told how: torch in three ways, and our own public call."""

    CUBLAS = "cublas"
    CUBLASLT = "cublaslt"
    INDUCTOR = "inductor"
    MATMUL = "matmul"

    @property
    def group(self) -> Group:
        return {Library.INDUCTOR: Group.INDUCTOR, Library.MATMUL: Group.OURS}.get(self, Group.BLAS)


@dataclass(frozen=True)
class Arm:
    """`name`: unique among the arms of a shape. Either a generated kernel of `config`, or a call
    of `library`."""

    name: str
    group: Group
    config: Config | None = None
    library: Library | None = None


PLANNER, CONFIG = "planner", "config:"
DATA_PARALLEL = "data-parallel"
BASELINES = (
    *(library.value for library in Library if library is not Library.MATMUL),
    DATA_PARALLEL,
)
DEFAULT_BASELINES = (Library.CUBLAS.value, Library.CUBLASLT.value)
NAMES = (PLANNER, Library.MATMUL.value, *BASELINES)
_WHOLE_TILES = 6  # data-parallel kernels of a shape, of which the best stands for all


@dataclass(frozen=True)
class Wanted:
    """Which arms each shape has. `names`: of NAMES; `candidates`: how many of the planner's are
    swept."""

    names: tuple[str, ...] = DEFAULT_BASELINES
    configs: tuple[Config, ...] = ()
    sweep: tuple[Config, ...] = ()
    candidates: int = 0

    def of(self, problem: Problem, device: Device) -> tuple[Arm, ...]:
        """The arms of a problem, planned for `device`; one that is named twice is there once."""
        arms = [arm for name in self.names for arm in _named(name, problem, device)]
        arms += [configured(config) for config in self.configs]
        swept = (*self.sweep, *_best(problem, device)[: self.candidates])
        arms += [configured(config, Group.SWEEP) for config in swept]
        return tuple({arm.name: arm for arm in reversed(arms)}.values())[::-1]


def configured(config: Config, group: Group = Group.OURS) -> Arm:
    """The arm of a configuration, named by its text."""
    return Arm(str(config), group, config)


def library(name: str) -> Arm:
    """ValueError: there is none of that name."""
    found = Library(name)
    return Arm(name, found.group, library=found)


def _named(name: str, problem: Problem, device: Device) -> Iterator[Arm]:
    if name == PLANNER:
        yield Arm(PLANNER, Group.OURS, _best(problem, device)[0])
    elif name == DATA_PARALLEL:
        for config in _whole(problem, device)[:_WHOLE_TILES]:
            yield Arm(f"dp: {config}", Group.DATA_PARALLEL, config)
    else:
        yield library(name)


def _best(problem: Problem, device: Device) -> list[Config]:
    """The planner's candidates, the fastest by prediction first."""
    return [ranked.config for ranked in plan(problem, device).ranked]


def _whole(problem: Problem, device: Device) -> list[Config]:
    """Those of the planner's family that split no tile, in the same order."""
    found = filter(_is_data_parallel, family(problem, device))
    return sorted(found, key=lambda config: predict(config, problem, device).time)


def _is_data_parallel(config: Config) -> bool:
    walk = stream_k_of(config)
    return walk is None or walk.decomposition is Decomposition.DATA_PARALLEL
