"""What a configuration asks of a device: panels and tiles of the busiest multiprocessor, partial
tiles, blocks that run at a time. Counted, not timed."""

from dataclasses import dataclass, replace

from backends.planner.blocks import residents
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.passes_of import stream_k_of
from backends.planner.problem import Problem
from passes.decomposition import Schedule
from passes.stream_k import Decomposition, Merge, StreamKPass
from passes.stream_k.options import is_split_k, merge_of
from passes.stream_k.planning import schedule_of


@dataclass(frozen=True)
class Work:
    """Counts of one launch.

    tiles, panels: of the product, and of one tile. active: SMs that have a block. resident: blocks
    that an SM has at a time. panels_of_sm, tiles_of_sm: what the busiest SM computes and what it
    finishes; even: panels that each SM computes at least; chain: panels one behind the other on the
    busiest. rounds: blocks one behind the other.
    contributors: of the tile that has most. slots: partial tiles that are stored; slots_of_sm: by
    the busiest SM. is_skewed: SMs are at different places of K at a time.
    """

    tiles: int
    panels: int
    active: int
    resident: int
    panels_of_sm: int
    tiles_of_sm: int
    even: int
    chain: int
    rounds: int
    contributors: int = 1
    slots: int = 0
    slots_of_sm: int = 0
    merge: Merge | None = None
    is_skewed: bool = False


def work_of(config: Config, problem: Problem, device: Device) -> Work:
    """The counts of `config` on `problem`. LoopIRError: its pipeline has no meaning."""
    across = _ceildiv(problem.m, config.bm) * _ceildiv(problem.n, config.bn)
    tiles, panels = problem.batch * across, max(1, _ceildiv(problem.k, config.bk))
    resident = residents(config, problem, device)
    walk = stream_k_of(config)
    if walk is None:
        return _blocks(tiles, panels, tiles, panels, resident, device.sms)
    schedule = schedule_of(walk, tiles, panels)
    if schedule is None:
        raise ValueError(f"{config}: the planner wants its units said")
    if is_split_k(walk):
        splits = max(map(schedule.contributors, range(1)), default=1) if tiles else 1
        return _split(walk, tiles, panels, splits, resident, device.sms)
    if walk.decomposition is Decomposition.DATA_PARALLEL:
        return _persistent(tiles, panels, schedule.units, resident, device.sms)
    return _walked(walk, schedule, device.sms)


def _blocks(tiles: int, panels: int, blocks: int, share: int, resident: int, sms: int) -> Work:
    """Blocks of one tile or of one slice, which a free SM takes in order."""
    each, rounds = _ceildiv(blocks, sms), _ceildiv(blocks, sms * resident)
    return Work(
        tiles=tiles,
        panels=panels,
        active=min(blocks, sms),
        resident=min(resident, each),
        panels_of_sm=each * share,
        tiles_of_sm=each,
        even=blocks // sms * share,
        chain=rounds * share,
        rounds=rounds,
    )


def _split(
    walk: StreamKPass, tiles: int, panels: int, splits: int, resident: int, sms: int
) -> Work:
    work = _blocks(tiles, panels, tiles * splits, _ceildiv(panels, splits), resident, sms)
    if splits == 1:
        return work
    return replace(
        work,
        tiles_of_sm=0,
        contributors=splits,
        slots=tiles * splits,
        slots_of_sm=work.tiles_of_sm,
        merge=merge_of(walk),
    )


def _persistent(tiles: int, panels: int, units: int, resident: int, sms: int) -> Work:
    """Unit u takes tiles u, u + units, ...; units u, u + SMs, ... share an SM, or wait for it."""
    places = range(0, units, sms)
    of_sm = sum(_ceildiv(tiles - first, units) for first in places)
    least = sum(tiles // units for _ in range(sms - 1, units, sms)) if units else 0
    rounds = _ceildiv(tiles, units) * _ceildiv(len(places), resident) if units else 0
    return Work(
        tiles=tiles,
        panels=panels,
        active=min(units, sms),
        resident=max(1, min(resident, len(places))),
        panels_of_sm=of_sm * panels,
        tiles_of_sm=of_sm,
        even=least * panels,
        chain=rounds * panels,
        rounds=rounds,
    )


def _walked(walk: StreamKPass, schedule: Schedule, sms: int) -> Work:
    """Units that walk segments, one an SM."""
    each = [schedule.segments(unit) for unit in range(schedule.units)]
    loads = [sum(s.k1 - s.k0 for s in segments) for segments in each]
    parts = [sum(s.contributors > 1 for s in segments) for segments in each]
    whole = [len(segments) - part for segments, part in zip(each, parts, strict=True)]
    split = schedule.split_tiles()
    per_sm = _ceildiv(schedule.units, sms)
    return Work(
        tiles=schedule.tiles,
        panels=schedule.panels,
        active=min(schedule.units, sms),
        resident=max(1, per_sm),
        panels_of_sm=max(loads, default=0) * per_sm,
        tiles_of_sm=max(whole, default=0) * per_sm,
        even=min(loads, default=0) * (schedule.units // sms),
        chain=max(loads, default=0),
        rounds=1,
        contributors=max(map(schedule.contributors, split), default=1),
        slots=sum(parts),
        slots_of_sm=max(parts, default=0) * per_sm,
        merge=merge_of(walk) if split else None,
        is_skewed=walk.decomposition in _SKEWED,
    )


_SKEWED = (Decomposition.AUTO, Decomposition.STREAM_K, Decomposition.HYBRID)


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)
