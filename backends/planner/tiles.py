"""The tiles that the planner looks at, with the warps and stages that suit each."""

from dataclasses import dataclass, replace

from backends.planner.config import Config, Extent
from backends.planner.problem import Problem

_ROW_BYTES = 128  # of K that a narrow panel takes: a row of swizzled shared memory


@dataclass(frozen=True)
class Shape:
    """A tile and how it is compiled; `widths`: panels of so many times 128 bytes of K."""

    rows: Extent
    columns: Extent
    widths: int
    warps: int
    stages: int

    def config(self, problem: Problem, swapped: bool = False) -> Config:
        depth = self.widths * _ROW_BYTES // problem.dtype.bytes
        tile = (self.rows, self.columns, depth)
        return Config(tile, num_warps=self.warps, num_stages=self.stages, swapped=swapped)

    @property
    def turned(self) -> "Shape":
        """With rows and columns in each other's place."""
        return replace(self, rows=self.columns, columns=self.rows)


#: tiles whose products take the time; the largest piece last, whose products hide the next loads
LARGE = (
    Shape(128, 256, 1, 8, 3),
    Shape((64, 128), 256, 1, 8, 4),
    Shape((64, 128), 256, 1, 8, 3),
    Shape(128, 256, 1, 8, 4),
    Shape(128, (128, 128), 1, 8, 4),
    Shape(256, 128, 1, 8, 3),
    Shape(128, (64, 128), 1, 4, 4),
    Shape((64, 128), 128, 1, 4, 4),
    Shape(128, (32, 128), 1, 4, 4),
    Shape(128, (16, 128), 1, 4, 4),
    Shape(128, (16, 128), 1, 4, 3),
    Shape(128, 128, 1, 4, 3),
    Shape(128, 128, 1, 4, 4),
    Shape(128, 128, 1, 8, 4),
    Shape(64, 256, 1, 4, 4),
    Shape(64, (16, 128), 1, 4, 4),
    Shape(64, (16, 64), 1, 4, 5),
)
#: tiles for fewer elements of C, or longer sums
SMALL = (
    Shape(128, 64, 1, 4, 4),
    Shape(64, 128, 1, 4, 4),
    Shape(64, 64, 1, 4, 5),
    Shape(128, 128, 2, 8, 3),
    Shape(128, 64, 2, 4, 4),
    Shape(64, 128, 2, 4, 4),
    Shape(64, 64, 2, 4, 4),
    Shape(64, 64, 2, 4, 5),
    Shape(128, 32, 2, 4, 4),
    Shape(128, 32, 2, 4, 5),
    Shape(64, 32, 2, 4, 4),
    Shape(64, 32, 2, 4, 5),
)
#: tiles of few rows, computed transposed, so that their long side is that of the tensor cores
NARROW = (
    Shape(16, 64, 4, 4, 5),
    Shape(16, 64, 4, 4, 4),
    Shape(16, 64, 2, 4, 6),
    Shape(16, 128, 2, 4, 4),
    Shape(32, 64, 4, 4, 4),
    Shape(32, 64, 2, 4, 6),
    Shape(32, 64, 2, 4, 4),
    Shape(32, 128, 2, 4, 4),
    Shape(64, 64, 2, 4, 4),
    Shape(64, 128, 2, 4, 3),
)
#: tiles of few rows whose loads go by pointers, many at a time
SKINNY = (
    Shape(16, 16, 2, 2, 8),
    Shape(16, 32, 2, 4, 10),
    Shape(16, 32, 2, 4, 6),
    Shape(16, 32, 4, 4, 5),
    Shape(16, 64, 2, 4, 6),
    Shape(32, 32, 2, 4, 6),
    Shape(32, 64, 2, 4, 5),
    Shape(64, 32, 1, 4, 8),
    Shape(64, 32, 2, 4, 6),
)
#: tiles of all rows, where there are few, that stream a matrix past them by descriptors
STREAMING = (
    Shape(16, 16, 4, 2, 4),
    Shape(16, 32, 4, 4, 4),
    Shape(16, 32, 4, 4, 5),
    Shape(16, 32, 2, 4, 6),
    Shape(16, 64, 2, 4, 4),
    Shape(32, 32, 2, 4, 6),
    Shape(32, 64, 2, 4, 6),
    Shape(64, 32, 4, 4, 4),
    Shape(64, 32, 2, 4, 8),
    Shape(64, 64, 2, 4, 6),
    Shape(128, 32, 2, 4, 5),
    Shape(128, 64, 1, 4, 8),
)
#: tiles of what tensor cores do not multiply, with warps and stages; larger ones spill
SCALAR = (
    ((128, 64, 16), 8, 4),
    ((64, 64, 16), 8, 4),
    ((64, 64, 16), 4, 4),
    ((32, 32, 16), 4, 5),
    ((16, 64, 16), 4, 4),
    ((64, 16, 16), 4, 4),
)
#: parts of the matrix that a block of a GEMV loads at a time: columns, and of K, with warps
VECTORS = (
    (4, 2048, 8),
    (4, 2048, 4),
    (4, 4096, 8),
    (2, 2048, 2),
    (8, 1024, 4),
    (8, 512, 2),
    (16, 256, 4),
)
