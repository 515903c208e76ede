"""The checks of the arguments of the rule. ValueError names the argument that is impossible."""

from passes.decomposition.arithmetic import check_kind, check_size
from passes.decomposition.cutlass.geometry import Raster
from passes.decomposition.cutlass.modes import Mode


def check_problem(m: int, n: int, k: int, batch: int, tile: tuple[int, int, int], sms: int) -> None:
    """An extent below zero; a tile or machine size below one."""
    for name, size in (("m", m), ("n", n), ("k", k), ("batch", batch)):
        check_size(name, size, 0)
    check_shape("tile", tile, 3)
    check_size("sms", sms, 1)


def check_shape(name: str, shape: tuple[int, ...], rank: int) -> None:
    """Not `rank` sizes of at least one."""
    if len(shape) != rank:
        raise ValueError(f"{name}: {rank} sizes, not {shape!r}")
    for size in shape:
        check_size(name, size, 1)


def check_options(raster: Raster, mode: Mode, splits: int, max_active_clusters: int | None) -> None:
    """Something of another kind, or several splits with a mode that has none."""
    check_kind("raster", raster, Raster)
    check_kind("mode", mode, Mode)
    check_size("splits", splits, 1)
    if splits > 1 and mode not in (Mode.HEURISTIC, Mode.SPLIT_K):
        raise ValueError(f"splits: one with mode {mode.value}, not {splits}")
    if max_active_clusters is not None:
        check_size("max_active_clusters", max_active_clusters, 1)
