"""What one panel of a tile costs a multiprocessor: its products, and what a block does between
them."""

from dataclasses import dataclass, replace

from backends.planner.blocks import GROUP_ROWS, computes_in_groups, pieces, stage_bytes
from backends.planner.config import Config, Extent
from backends.planner.device import Device
from backends.planner.norm import norm
from backends.planner.passes_of import descriptors, overlaps_tiles
from backends.planner.problem import Problem

_SHARED_BYTES = 128  # that an SM reads from shared memory in a cycle
_WRITTEN = 0.5  # cycles of those reads that a write of as many bytes takes
_SMALL_SHARE = 0.5  # of the full rate, for products of fewer rows (mma)
_ROW_BYTES = 128  # of K, that one product of a warp group covers
_BOTH = 10  # the norm of what products and shared memory take


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


def products_cycles(config: Config, problem: Problem, device: Device) -> float:
    """Of one panel, on the tensor cores of an SM that has nothing else to wait for."""
    tile, element = tiling(config), problem.dtype.bytes
    shapes = [(r, c) for r in pieces(tile.rows) for c in pieces(tile.columns)]
    multiplied = sum(2 * r * c * tile.depth for r, c in shapes)
    cycles = multiplied / device.flops_per_cycle[problem.dtype.value]
    if not computes_in_groups(config):
        return cycles / _SMALL_SHARE + device.panel_cycles
    read = sum(_read_bytes(r, c) for r, c in shapes) * tile.depth * element
    shared = (read + _WRITTEN * stage_bytes(config, problem)) / _SHARED_BYTES
    return norm((cycles, shared), _BOTH) + device.panel_cycles


def _read_bytes(rows: int, columns: int) -> int:
    """Elements of K that products read: every group of 64 rows reads both operands for itself."""
    return rows // GROUP_ROWS * (GROUP_ROWS + columns)


def issue_cycles(config: Config, problem: Problem, device: Device) -> float:
    """Of one panel, between its products and the next: what a block that is alone on its SM leaves
    the tensor cores idle."""
    tile = tiling(config)
    wide = tile.depth * problem.dtype.bytes / _ROW_BYTES
    groups = config.num_warps // 4
    rounds = max(1.0, sum(pieces(tile.rows)) / (GROUP_ROWS * max(1, groups)))
    parts = len(pieces(tile.rows)) * len(pieces(tile.columns))
    return (
        (device.pair_issue_cycles if groups > 1 else device.issue_cycles)
        + device.piece_cycles * (parts - 1)
        + device.rows_cycles * (rounds - 1) * wide
        + device.fused_cycles * overlaps_tiles(config)
    )


def products_us(config: Config, problem: Problem, device: Device) -> float:
    """`products_cycles` in us."""
    return products_cycles(config, problem, device) / device.clock_ghz / 1e3
