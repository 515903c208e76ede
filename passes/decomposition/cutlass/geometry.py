"""The tiles that the CUTLASS 3.x persistent schedulers see, and the grid they launch.

Source: `tile_scheduler_params.h`, `tile_scheduler_detail.hpp`, written from a description of them.
"""

from dataclasses import dataclass
from enum import Enum

from passes.decomposition.arithmetic import ceildiv

SMS_PER_GPC = 18


class Raster(Enum):
    """The direction in which neighbouring blocks lie; HEURISTIC takes the one that suits the
    shape."""

    HEURISTIC = "heuristic"
    ALONG_M = "along-m"
    ALONG_N = "along-n"


@dataclass(frozen=True, slots=True)
class Geometry:
    """Tiles and grid of one launch.

    useful_tiles: those that hold outputs. blocks_m, blocks_n: tiles along m and n, rounded up to
    whole clusters. padded_m, padded_n: further rounded up to whole swizzle blocks. k_tiles: panels
    of a tile, at least one. raster: never HEURISTIC. cluster: blocks along m and n. grid: blocks
    along x, y, z.
    """

    useful_tiles: int
    blocks_m: int
    blocks_n: int
    padded_m: int
    padded_n: int
    batch: int
    k_tiles: int
    log_swizzle: int
    raster: Raster
    cluster: tuple[int, int]
    grid: tuple[int, int, int]

    @property
    def tiles(self) -> int:
        """All tiles that the scheduler hands out, phantoms included."""
        return self.padded_m * self.padded_n * self.batch

    @property
    def phantom_tiles(self) -> int:
        """Tiles that rounding up adds: nothing of them is kept, they take the time of a tile."""
        return self.tiles - self.useful_tiles

    @property
    def cluster_size(self) -> int:
        return self.cluster[0] * self.cluster[1]

    @property
    def wave(self) -> int:
        """Blocks of the grid: it never shrinks to the amount of work."""
        return self.grid[0] * self.grid[1]

    @property
    def cluster_wave(self) -> int:
        """Blocks of the grid that make whole clusters."""
        return self.wave // self.cluster_size * self.cluster_size


def geometry(
    sizes: tuple[int, int, int, int],
    tile: tuple[int, int, int],
    cluster: tuple[int, int],
    sms: int,
    max_swizzle: int,
    raster: Raster,
    max_active_clusters: int | None,
) -> Geometry:
    """The geometry of an m x n x k problem, `batch` times: sizes = (m, n, k, batch).

    ValueError: not one cluster fits `sms` multiprocessors."""
    m, n, k, batch = sizes
    tiles_m, tiles_n = ceildiv(m, tile[0]), ceildiv(n, tile[1])
    blocks_m, blocks_n = _round_up(tiles_m, cluster[0]), _round_up(tiles_n, cluster[1])
    log_swizzle = _log_swizzle(min(blocks_m, blocks_n), max_swizzle)
    padded_m = _round_up(blocks_m, cluster[0] << log_swizzle)
    padded_n = _round_up(blocks_n, cluster[1] << log_swizzle)
    if raster is Raster.HEURISTIC:
        raster = Raster.ALONG_M if padded_n > padded_m else Raster.ALONG_N
    grid = _grid(cluster, sms, raster, max_active_clusters)
    if grid[0] * grid[1] < cluster[0] * cluster[1]:
        raise ValueError(f"cluster: not one of {cluster[0]}x{cluster[1]} blocks fits {sms} SMs")
    return Geometry(
        useful_tiles=tiles_m * tiles_n * batch,
        blocks_m=blocks_m,
        blocks_n=blocks_n,
        padded_m=padded_m,
        padded_n=padded_n,
        batch=batch,
        k_tiles=max(1, ceildiv(k, tile[2])),
        log_swizzle=log_swizzle,
        raster=raster,
        cluster=cluster,
        grid=grid,
    )


def _log_swizzle(blocks: int, max_swizzle: int) -> int:
    if max_swizzle >= 8 and blocks >= 6:
        return 3
    if max_swizzle >= 4 and blocks >= 3:
        return 2
    return 1 if max_swizzle >= 2 and blocks >= 2 else 0


def _grid(
    cluster: tuple[int, int], sms: int, raster: Raster, max_active_clusters: int | None
) -> tuple[int, int, int]:
    along_n = raster is Raster.ALONG_N
    fixed, other = cluster if along_n else cluster[::-1]
    size = fixed * other
    if size == 1:
        free = sms
    elif max_active_clusters and max_active_clusters * size <= sms:
        free = max_active_clusters * other
    else:
        free = _resident_blocks(size, sms) // fixed
    return (fixed, free, 1) if along_n else (free, fixed, 1)


def _resident_blocks(cluster_size: int, sms: int) -> int:
    """An estimate: a cluster lies in one GPC, a GPC has 18 SMs, the last one what is left."""
    full = max(1, sms // SMS_PER_GPC) * _round_down(SMS_PER_GPC, cluster_size)
    rest = _round_down(sms % SMS_PER_GPC, cluster_size) if sms >= SMS_PER_GPC else 0
    return min(sms, full + rest)


def _round_up(value: int, step: int) -> int:
    return ceildiv(value, step) * step


def _round_down(value: int, step: int) -> int:
    return value // step * step
