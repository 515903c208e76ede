"""What a configuration asks of a device: panels and tiles of the busiest multiprocessor, partial
tiles, blocks that run at a time. Counted, not timed."""

from collections.abc import Iterable, Sequence
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
class Phase:
    """Panels that the busiest SM computes in a part of a launch, all SMs together, and how many
    blocks share an SM meanwhile."""

    of_sm: int
    of_all: int
    resident: int


@dataclass(frozen=True)
class Work:
    """Counts of one launch.

    tiles, panels: of the product, and of one tile. active: SMs that have a block; places: blocks
    that one can have at a time. phases: while all SMs have work, and then. turns: tiles, or parts
    of them, one behind the other on the busiest place; whole: those of them that are finished
    there. contributors: of the tile that has most. slots: partial tiles that are stored;
    slots_of_sm: by the busiest SM. is_skewed: SMs are at different places of K at a time.
    """

    tiles: int
    panels: int
    active: int
    places: int
    phases: tuple[Phase, ...]
    turns: int
    whole: int
    contributors: int = 1
    slots: int = 0
    slots_of_sm: int = 0
    merge: Merge | None = None
    is_skewed: bool = False

    @property
    def panels_of_sm(self) -> int:
        return sum(phase.of_sm for phase in self.phases)

    @property
    def resident(self) -> int:
        """Blocks that share the busiest SM."""
        return max((phase.resident for phase in self.phases), default=1)

    @property
    def slices(self) -> int:
        """Places of K at which blocks are at a time, where all tiles are split alike."""
        return self.contributors if self.slots == self.tiles * self.contributors else 1


def work_of(config: Config, problem: Problem, device: Device) -> Work:
    """The counts of `config` on `problem`. LoopIRError: its pipeline has no meaning."""
    across = ceildiv(problem.m, config.bm) * ceildiv(problem.n, config.bn)
    tiles, panels = problem.batch * across, max(1, ceildiv(problem.k, config.bk))
    places = residents(config, problem, device)
    walk = stream_k_of(config)
    if walk is None:
        return _blocks(tiles, panels, tiles, panels, places, device.sms)
    schedule = schedule_of(walk, tiles, panels)
    if schedule is None:
        raise ValueError(f"{config}: the planner wants its units said")
    if is_split_k(walk):
        splits = max(map(schedule.contributors, range(1)), default=1) if tiles else 1
        return _split(walk, tiles, panels, splits, places, device.sms)
    if walk.decomposition is Decomposition.DATA_PARALLEL:
        return _persistent(tiles, panels, schedule.units, places, device.sms)
    assert isinstance(schedule, FormSchedule)
    return _walked(walk, schedule, schedule.forms, places, device.sms)


def _blocks(tiles: int, panels: int, blocks: int, share: int, places: int, sms: int) -> Work:
    """Blocks of one tile or of one slice, which a free SM takes in order."""
    turns = ceildiv(blocks, sms * places)
    return Work(
        tiles=tiles,
        panels=panels,
        active=min(blocks, sms),
        places=places,
        phases=_in_turn(blocks, sms * places, share, places, sms),
        turns=turns,
        whole=turns,
    )


def _in_turn(blocks: int, at_a_time: int, share: int, most: int, sms: int) -> tuple[Phase, ...]:
    """Full turns of `at_a_time` blocks, up to `most` an SM together; then those that are left."""
    full, rest = divmod(blocks, at_a_time) if at_a_time else (0, 0)
    of_sm, left = ceildiv(at_a_time, sms), ceildiv(rest, sms)
    phases = (
        Phase(full * of_sm * share, full * at_a_time * share, min(most, of_sm)),
        Phase(left * share, rest * share, min(most, left)),
    )
    return tuple(phase for phase in phases if phase.of_sm)


def _split(walk: StreamKPass, tiles: int, panels: int, splits: int, places: int, sms: int) -> Work:
    work = _blocks(tiles, panels, tiles * splits, ceildiv(panels, splits), places, sms)
    if splits == 1:
        return work
    return replace(
        work,
        whole=0,
        contributors=splits,
        slots=tiles * splits,
        slots_of_sm=ceildiv(tiles * splits, sms),
        merge=merge_of(walk),
    )


def _persistent(tiles: int, panels: int, units: int, places: int, sms: int) -> Work:
    """Unit u takes tiles u, u + units, ...; units u, u + SMs, ... share an SM, or wait for it."""
    of_sm = ceildiv(units, sms)
    turns = ceildiv(tiles, units) * ceildiv(of_sm, places) if units else 0
    return Work(
        tiles=tiles,
        panels=panels,
        active=min(units, sms),
        places=places,
        phases=_in_turn(tiles, units, panels, places, sms),
        turns=turns,
        whole=turns,
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


def _walked(
    walk: StreamKPass, schedule: Schedule, forms: tuple[ClosedForm, ...], places: int, sms: int
) -> Work:
    """Units that walk segments, one an SM or a few; counted without walking, since tiles may be
    many."""
    units = schedule.units
    shares = [_share(forms, unit) for unit in range(units)]
    most = _Share(*(max((getattr(s, f.name) for s in shares), default=0) for f in fields(_Share)))
    split = schedule.split_tiles()
    per_sm = ceildiv(units, sms)
    return Work(
        tiles=schedule.tiles,
        panels=schedule.panels,
        active=min(units, sms),
        places=places,
        phases=_even_and_rest(shares, most.load * per_sm, per_sm, sms),
        turns=max((s.whole + s.parts for s in shares), default=0),
        whole=most.whole,
        contributors=max(map(schedule.contributors, split), default=1),
        slots=sum(s.parts for s in shares),
        slots_of_sm=most.parts * per_sm,
        merge=merge_of(walk) if split else None,
        is_skewed=walk.decomposition in _SKEWED or units > places * sms,
    )


def _even_and_rest(
    shares: Sequence[_Share], of_sm: int, per_sm: int, sms: int
) -> tuple[Phase, ...]:
    """What all SMs have, and what only some have more."""
    total = sum(s.load for s in shares)
    least = min((s.load for s in shares), default=0) * (len(shares) // sms)
    even = min(least, total // sms)  # a last part may be shorter
    phases = (
        Phase(even, even * sms, per_sm),
        Phase(of_sm - even, total - even * sms, per_sm),
    )
    return tuple(phase for phase in phases if phase.of_sm)


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
