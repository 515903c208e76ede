"""The decision of the CUTLASS 3.x Stream-K scheduler: which tiles are split, among how many blocks.

Source: `PersistentTileSchedulerSm90StreamKParams` in `tile_scheduler_params.h` (its heuristic, its
numbers of Stream-K tiles, units and groups), written from a description of it.
"""

from passes.decomposition.arithmetic import check_size
from passes.decomposition.cutlass.checks import check_options, check_problem, check_shape
from passes.decomposition.cutlass.geometry import Geometry, Raster, geometry
from passes.decomposition.cutlass.groups import MIN_K_TILES
from passes.decomposition.cutlass.modes import Mode, Reason
from passes.decomposition.cutlass.plan import CutlassPlan

MAX_GROUPS = 8
BARRIER_BYTES = 4
WORKSPACE_ALIGNMENT = 128


def cutlass_rule(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    *,
    sms: int,
    tile: tuple[int, int, int] = (128, 128, 64),
    cluster: tuple[int, int] = (1, 1),
    max_swizzle: int = 1,
    raster: Raster = Raster.HEURISTIC,
    mode: Mode = Mode.HEURISTIC,
    splits: int = 1,
    max_active_clusters: int | None = None,
    k_alignment: int = 1,
    accumulator_bytes: int = 4,
    warp_groups: int = 2,
) -> CutlassPlan:
    """What CUTLASS 3.x does with an m x n x k matrix product, `batch` times, on `sms` SMs.

    tile: elements along m, n, k. cluster: blocks along m, n. max_swizzle: 1, 2, 4 or 8; others act
    as the next lower. splits: above one only with the modes HEURISTIC and SPLIT_K.
    max_active_clusters: of the device, if known. k_alignment: k tiles to which a split must start
    aligned. accumulator_bytes, warp_groups (of the MMA, a tile): for the workspace. A size of zero
    is no error: there is no tile, or one k tile of nothing.

    ValueError names the argument that is impossible."""
    check_problem(m, n, k, batch, tile, sms)
    check_shape("cluster", cluster, 2)
    check_options(raster, mode, splits, max_active_clusters)
    check_size("max_swizzle", max_swizzle, 1)
    check_size("k_alignment", k_alignment, 1)
    check_size("accumulator_bytes", accumulator_bytes, 1)
    check_size("warp_groups", warp_groups, 1)
    g = geometry((m, n, k, batch), tile, cluster, sms, max_swizzle, raster, max_active_clusters)
    sk_tiles, why_whole = stream_k_tiles(g.tiles, g.wave, g.k_tiles, g.cluster_size, mode)
    sk_units = stream_k_units(g.cluster_wave, g.k_tiles, sk_tiles, g.cluster_size)
    chosen, factor, reason = _select(mode, splits, sms, k_alignment, g, sk_tiles, sk_units)
    groups = _groups(g, sk_tiles, sk_units) if chosen is Mode.STREAM_K else 1
    share, big = _share(chosen, factor, groups, g, sk_tiles, sk_units)
    partials = {Mode.SPLIT_K: g.tiles, Mode.STREAM_K: sk_tiles}.get(chosen, 0)
    return CutlassPlan(
        geometry=g,
        mode=chosen,
        reason=why_whole if why_whole and chosen is Mode.DATA_PARALLEL else reason,
        splits=factor,
        sk_tiles=sk_tiles,
        sk_units=sk_units,
        groups=groups,
        big_groups=sk_tiles // g.cluster_size % groups,
        k_tiles_per_unit=share,
        big_units=big,
        reduction_bytes=_round_up(partials * tile[0] * tile[1] * accumulator_bytes),
        barrier_bytes=_round_up(partials * warp_groups * BARRIER_BYTES),
    )


def stream_k_tiles(
    tiles: int, wave: int, k_tiles: int, cluster_size: int, mode: Mode
) -> tuple[int, Reason | None]:
    """How many tiles are split among the units, and if none, why."""
    if mode in (Mode.DATA_PARALLEL, Mode.SPLIT_K):
        return 0, Reason.ASKED
    if tiles % wave == 0:
        return 0, Reason.FULL_WAVES
    if k_tiles <= MIN_K_TILES:
        return 0, Reason.SHORT_K
    full = tiles // wave
    if mode is Mode.HEURISTIC and 2 * (tiles - full * wave) >= wave:
        return 0, Reason.TAIL_HALF_FULL
    split = tiles - max(0, full - 1) * wave
    return split // cluster_size * cluster_size, None


def stream_k_units(cluster_wave: int, k_tiles: int, sk_tiles: int, cluster_size: int) -> int:
    """How many blocks share them: no unit has fewer than eight k tiles on average. Zero only
    without a tile: nine k tiles of one cluster are enough for a cluster of units."""
    enough_work = k_tiles * sk_tiles // MIN_K_TILES // cluster_size * cluster_size
    return min(cluster_wave, enough_work)


def _select(
    mode: Mode, splits: int, sms: int, k_alignment: int, g: Geometry, sk_tiles: int, sk_units: int
) -> tuple[Mode, int, Reason]:
    if mode is Mode.SPLIT_K or (mode is Mode.HEURISTIC and splits > 1):
        factor = min(splits, sms, g.k_tiles)
        if k_alignment > 1 and g.k_tiles // factor == 1:
            factor = max(1, g.k_tiles // k_alignment)
        return Mode.SPLIT_K, factor, Reason.ASKED
    return decide(mode, sk_tiles, sk_units)


def decide(mode: Mode, sk_tiles: int, sk_units: int) -> tuple[Mode, int, Reason]:
    """The mode, the splits and the reason, where no split-K was asked for."""
    if sk_tiles == 0:
        return Mode.DATA_PARALLEL, 1, Reason.ASKED
    if mode is Mode.STREAM_K:
        return Mode.STREAM_K, 1, Reason.ASKED
    if sk_tiles < sk_units and sk_units % sk_tiles == 0:
        return Mode.SPLIT_K, sk_units // sk_tiles, Reason.EVEN_SPLIT
    return Mode.STREAM_K, 1, Reason.TAIL


def _groups(g: Geometry, sk_tiles: int, sk_units: int) -> int:
    along_m = g.raster is Raster.ALONG_M
    """One group is not looked for: it would always be ideal, and a larger number never be taken
    that shares the units evenly but not the tiles."""
    across = g.padded_m // g.cluster[0] if along_m else g.padded_n // g.cluster[1]
    tiles, units = sk_tiles // g.cluster_size, sk_units // g.cluster_size
    valid = [
        groups
        for groups in range(min(MAX_GROUPS, across), 1, -1)
        if units % groups == 0
        and tiles // groups * g.cluster_size * g.k_tiles // (sk_units // groups) >= MIN_K_TILES
    ]
    ideal = (groups for groups in valid if tiles % groups == 0)
    return next(ideal, None) or next(iter(valid), 1)


def _share(
    mode: Mode, splits: int, groups: int, g: Geometry, sk_tiles: int, sk_units: int
) -> tuple[int, int]:
    if mode is not Mode.STREAM_K:
        return divmod(g.k_tiles, splits)
    tiles = sk_tiles // g.cluster_size // groups
    return divmod(tiles * g.k_tiles, sk_units // g.cluster_size // groups)


def _round_up(size: int) -> int:
    return -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
