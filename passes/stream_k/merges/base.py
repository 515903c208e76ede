"""What every merge answers; and the merge of a schedule that splits no tile."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from loopir.nodes import Binding, Body, Kernel, Requirement, Workspace
from passes.stream_k.merges.produced import split_body
from passes.stream_k.nest import Nest
from passes.stream_k.walk import Extent, Segment


@dataclass(frozen=True)
class Meeting:
    """How the units that compute parts of one tile meet, and what that adds to the program: nothing
    but the segments, unless a merge says so."""

    nest: Nest

    @property
    def bindings(self) -> tuple[Binding, ...]:
        return ()

    def workspaces(self) -> tuple[Workspace, ...]:
        return ()

    def requirements(self) -> tuple[Requirement, ...]:
        return ()

    def kernels(self, first: Kernel) -> tuple[Kernel, ...]:
        """The kernels that run behind the first."""
        return ()

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        """What a unit does with its part of a tile, whose axes are decoded. `used`: names in use
        there."""
        raise NotImplementedError


class Alone(Meeting):
    """Every tile has one unit, and its body is as it was."""

    def segment(self, segment: Segment, used: Collection[str]) -> Body:
        path = self.nest.inner(self.nest.reduce_path)
        return split_body(self.nest.body, path, replace(segment, extent=Extent.WHOLE), (), ())
