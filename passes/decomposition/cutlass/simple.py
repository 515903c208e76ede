"""The same decision without clusters, groups and cut adjustment: what the makespan tables call the
rule."""

from dataclasses import dataclass

from passes.decomposition.arithmetic import check_size
from passes.decomposition.bounds import Bounds
from passes.decomposition.cutlass.groups import MIN_K_TILES
from passes.decomposition.cutlass.modes import Mode, Reason
from passes.decomposition.cutlass.rule import decide, stream_k_tiles, stream_k_units
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.hybrid import Hybrid
from passes.decomposition.split_k import SplitK


@dataclass(frozen=True, slots=True)
class SimplePlan:
    """A decision; sk_tiles, sk_units: zero with DATA_PARALLEL. splits: above one with SPLIT_K
    only."""

    tiles: int
    panels: int
    sms: int
    mode: Mode
    reason: Reason
    splits: int
    sk_tiles: int
    sk_units: int

    def schedule(self) -> DataParallel | SplitK | Hybrid:
        """What the plan does: Stream-K tiles first, then whole waves."""
        match self.mode:
            case Mode.SPLIT_K:
                return SplitK(self.tiles, self.panels, self.splits)
            case Mode.STREAM_K:
                return Hybrid(
                    self.tiles,
                    self.panels,
                    self.sms,
                    bounds=Bounds.BIG_UNITS,
                    min_panels=MIN_K_TILES,
                )
            case _:
                return DataParallel(self.tiles, self.panels, self.sms)


def simple_rule(tiles: int, panels: int, sms: int) -> SimplePlan:
    """The decision for `tiles` tiles of `panels` k tiles on `sms` SMs: clusters of one block, one
    group of units. ValueError names an argument that is impossible."""
    check_size("tiles", tiles, 0)
    check_size("panels", panels, 1)
    check_size("sms", sms, 1)
    sk_tiles, why_whole = stream_k_tiles(tiles, sms, panels, 1, Mode.HEURISTIC)
    sk_units = stream_k_units(sms, panels, sk_tiles, 1)
    mode, splits, reason = decide(Mode.HEURISTIC, sk_tiles, sk_units)
    reason = why_whole or reason
    return SimplePlan(tiles, panels, sms, mode, reason, splits, sk_tiles, sk_units)
