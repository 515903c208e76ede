"""A plan as text."""

from typing import TYPE_CHECKING

from passes.decomposition.cutlass.modes import Mode

if TYPE_CHECKING:
    from passes.decomposition.cutlass.plan import CutlassPlan


def explain(plan: "CutlassPlan") -> str:
    """The figures of `plan`, one line each, from the tiles to the workspace."""
    rows = {
        "tiles": _tiles(plan),
        "grid": _grid(plan),
        "rule": f"{plan.mode.value}: {plan.reason.value}",
        "share": _share(plan),
        "balance": f"busiest block {plan.busiest} k tiles, ideal {plan.ideal}",
        "peers": _peers(plan),
        "workspace": f"{plan.reduction_bytes} bytes of partial tiles, "
        f"{plan.barrier_bytes} bytes of barriers, zero at the launch",
    }
    return "\n".join(f"{name:<10}{text}" for name, text in rows.items())


def _tiles(plan: "CutlassPlan") -> str:
    g = plan.geometry
    shape = f"{g.padded_m} x {g.padded_n} x {g.batch} = {g.tiles}"
    phantoms = f", {g.phantom_tiles} of them phantoms" if g.phantom_tiles else ""
    return f"{shape}{phantoms}; {g.k_tiles} k tiles each"


def _grid(plan: "CutlassPlan") -> str:
    g = plan.geometry
    x, y, z = g.grid
    full, tail = divmod(g.tiles, g.wave)
    return (
        f"{x} x {y} x {z} = {g.wave} blocks in clusters of {g.cluster[0]}x{g.cluster[1]}, "
        f"{g.raster.value}, swizzle {1 << g.log_swizzle}; {full} full waves, tail {tail}"
    )


def _share(plan: "CutlassPlan") -> str:
    own = f"{plan.k_tiles_per_unit} k tiles"
    match plan.mode:
        case Mode.STREAM_K:
            groups = f" in {plan.groups} groups" if plan.groups > 1 else ""
            big = plan.big_units * plan.geometry.cluster_size
            extra = f", {big}{' a group' if groups else ''} one more" if big else ""
            return (
                f"{plan.sk_tiles} tiles over {plan.sk_units} units{groups}, {own} a unit{extra}, "
                f"cuts moved to leave 8 or more; then {plan.whole_tiles} whole tiles"
            )
        case Mode.SPLIT_K:
            extra = f", {plan.big_units} of them one more" if plan.big_units else ""
            return f"{plan.splits} splits a tile, {own} a split{extra}"
        case _:
            return "whole tiles"


def _peers(plan: "CutlassPlan") -> str:
    return ", ".join(f"{tiles} tiles of {count}" for count, tiles in plan.peers())
