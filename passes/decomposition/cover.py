"""The check that a decomposition computes every panel of every tile exactly once, and numbers its
slots rightly."""

from collections.abc import Collection

from passes.decomposition.schedule import Schedule, Segment


def check_exact_cover(schedule: Schedule) -> None:
    """ValueError at the first fault: an empty unit, a segment out of range, a (tile, panel) that is
    missing or doubled, a slot that is not the ordinal in k order, a wrong contributor count, a
    workspace slot used twice or out of range."""
    parts: dict[int, list[Segment]] = {}
    for unit in range(schedule.units):
        for segment in _checked_segments(schedule, unit):
            parts.setdefault(segment.tile, []).append(segment)
    if schedule.panels > 0:
        for tile in range(schedule.tiles):
            _check_tile(schedule, tile, sorted(parts.get(tile, ()), key=lambda s: (s.k0, s.slot)))
    _check_slots(schedule, parts.values())


def _checked_segments(schedule: Schedule, unit: int) -> tuple[Segment, ...]:
    segments = schedule.segments(unit)
    if not segments:
        raise ValueError(f"unit {unit} is empty")
    for s in segments:
        if s.unit != unit:
            raise ValueError(f"unit {unit} lists a segment of unit {s.unit}: {s}")
        if not (0 <= s.tile < schedule.tiles and 0 <= s.k0 < s.k1 <= schedule.panels):
            raise ValueError(f"segment out of range or empty: {s}")
    return segments


def _check_tile(schedule: Schedule, tile: int, parts: list[Segment]) -> None:
    done = 0
    for s in parts:
        if s.k0 != done:
            fault = "missing" if s.k0 > done else "doubled"
            raise ValueError(f"tile {tile}, panel {min(s.k0, done)} is {fault}")
        done = s.k1
    if done != schedule.panels:
        raise ValueError(f"tile {tile}, panel {done} is missing")
    for ordinal, s in enumerate(parts):
        if s.slot != ordinal:
            raise ValueError(f"tile {tile}: slot {s.slot} in place of {ordinal}: {s}")
        if s.contributors != len(parts):
            raise ValueError(
                f"tile {tile} has {len(parts)} contributors, not {s.contributors}: {s}"
            )
    if schedule.contributors(tile) != len(parts):
        raise ValueError(
            f"tile {tile} has {len(parts)} contributors, not {schedule.contributors(tile)}"
        )


def _check_slots(schedule: Schedule, tiles: Collection[list[Segment]]) -> None:
    taken: dict[int, Segment] = {}
    for parts in tiles:
        for s in parts if len(parts) > 1 else ():
            slot = schedule.slot_base(s.tile) + s.slot
            if slot in taken:
                raise ValueError(f"workspace slot {slot} is used twice: {taken[slot]} and {s}")
            if slot >= schedule.slots:
                raise ValueError(f"workspace slot {slot} of {schedule.slots}: {s}")
            taken[slot] = s
    split = tuple(sorted(p[0].tile for p in tiles if len(p) > 1))
    if schedule.split_tiles() != split:
        raise ValueError(f"split tiles are {split}, not {schedule.split_tiles()}")
