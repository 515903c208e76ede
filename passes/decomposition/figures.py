"""What a decomposition amounts to, in the figures that `loopir-opt --explain` prints."""

from collections import Counter
from dataclasses import dataclass

from passes.decomposition.quantization import Waves, waves
from passes.decomposition.schedule import Schedule


@dataclass(frozen=True)
class ScheduleSummary:
    """Figures of one schedule.

    contributors: pairs (contributors, tiles that have so many), ascending. data_parallel: the waves
    that one block a tile would take. load_ratio: the largest share over the mean share of a unit,
    1.0 being ideal.
    """

    tiles: int
    panels: int
    total: int
    units: int
    panels_per_unit_min: int
    panels_per_unit_max: int
    split_tiles: int
    contributors: tuple[tuple[int, int], ...]
    data_parallel: Waves
    load_ratio: float

    @property
    def contributors_max(self) -> int:
        return max((count for count, _ in self.contributors), default=0)


def summary(schedule: Schedule, sms: int | None = None, blocks_per_sm: int = 1) -> ScheduleSummary:
    """The figures of `schedule`. `sms`: multiprocessors of the device, for the data-parallel waves;
    one a unit if not said. ValueError: `sms` or `blocks_per_sm` below one."""
    places = max(1, schedule.units) if sms is None else sms
    loads = [sum(s.k1 - s.k0 for s in schedule.segments(u)) for u in range(schedule.units)]
    total = schedule.tiles * schedule.panels
    split = schedule.split_tiles()
    histogram = Counter(map(schedule.contributors, split))
    if whole := (schedule.tiles if schedule.panels else 0) - len(split):
        histogram[1] = whole
    return ScheduleSummary(
        tiles=schedule.tiles,
        panels=schedule.panels,
        total=total,
        units=schedule.units,
        panels_per_unit_min=min(loads, default=0),
        panels_per_unit_max=max(loads, default=0),
        split_tiles=len(split),
        contributors=tuple(sorted(histogram.items())),
        data_parallel=waves(schedule.tiles, places, blocks_per_sm),
        load_ratio=max(loads) * schedule.units / total if loads else 1.0,
    )
