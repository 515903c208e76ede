"""What a configuration asks of a device: panels and tiles of the busiest multiprocessor, partial
tiles, blocks that run at a time. Counted, not timed."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from backends.planner.blocks import residents
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.passes_of import stream_k_of
from backends.planner.problem import Problem
from passes.decomposition import ClosedForm, Schedule, WholeTilesForm
from passes.decomposition.arithmetic import ceildiv
from passes.decomposition.schedule import FormSchedule
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
    across = ceildiv(problem.m, config.bm) * ceildiv(problem.n, config.bn)
    tiles, panels = problem.batch * across, max(1, ceildiv(problem.k, config.bk))
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
    assert isinstance(schedule, FormSchedule)
    return _walked(walk, schedule, schedule.forms, device.sms)


def _blocks(tiles: int, panels: int, blocks: int, share: int, resident: int, sms: int) -> Work:
    """Blocks of one tile or of one slice, which a free SM takes in order."""
    each, rounds = ceildiv(blocks, sms), ceildiv(blocks, sms * resident)
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
    work = _blocks(tiles, panels, tiles * splits, ceildiv(panels, splits), resident, sms)
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
    each, more = divmod(tiles, units) if units else (0, 0)
    places = ceildiv(units, sms)
    of_sm = each * places + ceildiv(more, sms)
    return Work(
        tiles=tiles,
        panels=panels,
        active=min(units, sms),
        resident=max(1, min(resident, places)),
        panels_of_sm=of_sm * panels,
        tiles_of_sm=of_sm,
        even=units // sms * each * panels,
        chain=(each + (more > 0)) * ceildiv(places, resident) * panels,
        rounds=(each + (more > 0)) * ceildiv(places, resident),
    )


# --- walks


@dataclass(frozen=True)
class _Share:
    """Of a unit: panels, tiles that it computes whole, parts of others."""

    load: int = 0
    whole: int = 0
    parts: int = 0

    def __add__(self, other: "_Share") -> "_Share":
        return _Share(self.load + other.load, self.whole + other.whole, self.parts + other.parts)


def _walked(walk: StreamKPass, schedule: Schedule, forms: tuple[ClosedForm, ...], sms: int) -> Work:
    """Units that walk segments, one an SM; counted without walking, since tiles may be many."""
    units = schedule.units
    shares = [_share(forms, unit) for unit in range(units)]
    most = _Share(*(max((getattr(s, f.name) for s in shares), default=0) for f in fields(_Share)))
    split = schedule.split_tiles()
    per_sm = ceildiv(units, sms)
    return Work(
        tiles=schedule.tiles,
        panels=schedule.panels,
        active=min(units, sms),
        resident=max(1, per_sm),
        panels_of_sm=most.load * per_sm,
        tiles_of_sm=most.whole * per_sm,
        even=min((s.load for s in shares), default=0) * (units // sms),
        chain=most.load,
        rounds=1,
        contributors=max(map(schedule.contributors, split), default=1),
        slots=sum(s.parts for s in shares),
        slots_of_sm=most.parts * per_sm,
        merge=merge_of(walk) if split else None,
        is_skewed=walk.decomposition in _SKEWED,
    )


def _share(forms: Iterable[ClosedForm], unit: int) -> _Share:
    return sum((_share_of(form, unit) for form in forms if unit < form.units), _Share())


def _share_of(form: ClosedForm, unit: int) -> _Share:
    turns = form.turns(unit)
    if isinstance(form, WholeTilesForm):
        return _Share(turns * form.panels, turns)
    ranges = (form.iterations(unit, turn) for turn in range(turns))
    return sum((_share_of_range(*each, form.panels) for each in ranges), _Share())


def _share_of_range(low: int, high: int, panels: int) -> _Share:
    first, after = ceildiv(low, panels), high // panels  # whole tiles
    if first > after:
        return _Share(high - low, parts=1)
    parts = (low < first * panels) + (high > after * panels)
    return _Share(high - low, after - first, parts)


_SKEWED = (Decomposition.AUTO, Decomposition.STREAM_K, Decomposition.HYBRID)
