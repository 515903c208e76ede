"""What an import took and what it left alone, and why."""

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a call was left alone."""

    DEVICE = "device"
    DTYPE = "dtype"
    DYNAMIC_SHAPES = "dynamic shapes"
    GROUPS = "groups"
    LAYOUT = "layout"
    RANK = "rank"
    SCALE = "scale"
    SHAPE = "shape"
    TRANSPOSED = "transposed"
    FORM = "form"


@dataclass(frozen=True)
class Refused:
    """A call that stays: the name of its node, what it calls, the reason, and more of it in
    words."""

    node: str
    target: str
    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.node}: {self.target} left alone: {self.reason.value}: {self.detail}"


@dataclass(frozen=True)
class Taken:
    """A call that `loopir::op` stands for now, with the activation behind it, if it was one's
    only user."""

    node: str
    target: str
    op: str
    activation: str

    def __str__(self) -> str:
        folded = "" if self.activation == "none" else f" with {self.activation}"
        return f"{self.node}: {self.target} -> loopir::{self.op}{folded}"


@dataclass(frozen=True)
class Report:
    """Of all products and convolutions of a graph, in its order."""

    entries: tuple[Taken | Refused, ...]

    @property
    def taken(self) -> tuple[Taken, ...]:
        return tuple(e for e in self.entries if isinstance(e, Taken))

    @property
    def refused(self) -> tuple[Refused, ...]:
        return tuple(e for e in self.entries if isinstance(e, Refused))

    def text(self) -> str:
        """One line for each, and a sum."""
        counts = f"{len(self.taken)} taken, {len(self.refused)} left alone"
        return "\n".join((*map(str, self.entries), counts))
