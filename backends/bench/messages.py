"""What the bench and its worker processes say to each other; every arm goes by its name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from backends.bench.arms import Arm
from backends.bench.stopwatch import Part
from backends.planner.device import Device
from backends.planner.problem import Problem


@dataclass(frozen=True)
class Job:
    """Time `arms` on a problem in interleaved rounds; 0 rounds: compile and run each once.

    pack: products a sample. seconds: what the rounds may take. hang_seconds: the longest silence of
    a launch or a check. kernels: by arm, what an earlier job's Built had of the same problem.
    """

    problem: Problem
    arms: tuple[Arm, ...]
    rounds: int
    pack: int = 1
    seed: int = 0
    seconds: float = math.inf
    hang_seconds: float = 8.0
    kernels: Mapping[str, bytes] = field(default_factory=dict, repr=False)


class Ending(Enum):
    """Why an arm has no times."""

    REFUSED = "refused"
    WRONG = "wrong"
    HUNG = "hung"
    CRASHED = "crashed"


class Sample(NamedTuple):
    """Device time of one product, and the host's time to launch it, both in us."""

    us: float
    host_us: float


@dataclass(frozen=True)
class Facts:
    """What a worker measures with: a device, as the planner knows it, and versions by name."""

    device: Device
    versions: dict[str, str]


@dataclass(frozen=True)
class At:
    """What the worker does next; it is silent for `limit` seconds at most."""

    arm: str | None
    doing: str
    limit: float


@dataclass(frozen=True)
class Built:
    """`kernel`: what another worker builds the arm from in less time; empty where there is no such
    thing, or it was given."""

    arm: str
    workspace_bytes: int
    kernel: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Checked:
    """`error`: the largest one over the allowed one."""

    arm: str
    error: float


@dataclass(frozen=True)
class Failed:
    """This arm is out, the others go on."""

    arm: str
    ending: Ending
    text: str


@dataclass(frozen=True)
class Round:
    samples: dict[str, Sample]


@dataclass(frozen=True)
class Died:
    """The worker cannot go on: something went wrong at its last `At`."""

    text: str


@dataclass(frozen=True)
class Done:
    """`seconds`: what the job took."""

    seconds: Mapping[Part, float]


Message: TypeAlias = Facts | At | Built | Checked | Failed | Round | Died | Done
