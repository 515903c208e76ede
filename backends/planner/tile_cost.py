"""What the products of one panel of a tile cost a multiprocessor."""

from dataclasses import dataclass, replace

from backends.planner.blocks import GROUP_ROWS, pieces
from backends.planner.config import Config, Extent
from backends.planner.device import Device
from backends.planner.passes_of import descriptors
from backends.planner.problem import Problem

_SHARED_BYTES = 128  # that an SM reads from shared memory in a cycle
_SMALL_SHARE = 0.5  # of the full rate, for products of fewer rows (mma)


@dataclass(frozen=True)
class Tiling:
    """A kernel as the constants of a device know it: `name`, the tile as it computes, and how its
    panels move."""

    rows: Extent
    columns: Extent
    depth: int
    config: Config

    @property
    def name(self) -> str:
        """`128x256x64 w8 s3 descriptors`: all that the time of a panel depends on."""
        head = str(replace(self.config, pipeline="", launch_pdl=False)).removeprefix("gemm ")
        return f"{head} descriptors" if descriptors(self.config) else head


def tiling(config: Config) -> Tiling:
    bm, bn, bk = config.tile
    rows, columns = (bn, bm) if config.swapped else (bm, bn)
    return Tiling(rows, columns, bk, config)


def products_us(config: Config, problem: Problem, device: Device) -> float:
    """Of one panel, on the tensor cores of one SM."""
    tile, element = tiling(config), problem.dtype.bytes
    flops = device.flops_per_cycle[problem.dtype.value]
    cycles = sum(
        _product_cycles(rows, columns, tile.depth, flops, element)
        for rows in pieces(tile.rows)
        for columns in pieces(tile.columns)
    )
    return (cycles + device.panel_cycles) / device.clock_ghz / 1e3


def _product_cycles(rows: int, columns: int, depth: int, flops: float, element: int) -> float:
    """The tensor cores' time, or that of reading both operands from shared memory, which every
    group of 64 rows does for itself."""
    cycles = 2 * rows * columns * depth / flops
    if rows < GROUP_ROWS:
        return cycles / _SMALL_SHARE
    groups = rows // GROUP_ROWS
    read = groups * (GROUP_ROWS + columns) * depth * element / _SHARED_BYTES
    return max(cycles, read)
