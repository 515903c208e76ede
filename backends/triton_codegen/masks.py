"""Which elements a `mask` of an element-wise expression keeps, as Triton text."""

from dataclasses import dataclass

from backends.triton_codegen.access import numbers
from backends.triton_codegen.scalars import Scalars
from loopir.bounds import Env
from loopir.nodes import Mask, TileAxis
from loopir.ranges import axis_is_in_bounds
from loopir.symbols import to_expr
from loopir.tile_types import Shape


@dataclass(frozen=True)
class Masks:
    """Renders masks where a statement stands; `env`: what ranges knows there."""

    scalars: Scalars
    env: Env

    def kept(self, mask: Mask, shape: Shape) -> str:
        """The condition on the elements of a value of `shape`; empty if it holds for all."""
        size = shape[mask.axis]
        axis = TileAxis("p", mask.start, to_expr(size), mask.limit)
        if axis_is_in_bounds(axis, self.env):
            return ""
        positions = numbers(mask.start, str(size), self.scalars, mask.axis, len(shape))
        return f"{positions} < {self.scalars.text(mask.limit)}"
