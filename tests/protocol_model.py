"""A model of how units meet at a tile, explored over every interleaving of their warps.

The *view* of a warp is the set of writes that happened before. A load of a slot may return any
write to it, made in whatever order, that no write in the view of its warp has overwritten. Views
join at a barrier, where an arrival acquires what others released, and at the end of a kernel;
nothing else passes them on. A plain store to a counter acts at some later moment, at the latest
before the next release of its unit or at the end of the kernel.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from tests.support.protocol_steps import (
    ACQUIRES,
    ARRIVALS,
    BARRIERS,
    CLEARS,
    FOLDS,
    OF_THE_LAST,
    RELEASES,
    TELL_THE_LAST,
    Label,
    Op,
    Place,
    Step,
)


class Harm(Enum):
    """What must not happen."""

    LOST_PARTIAL = "a tile is finished without a partial"
    STALE_READ = "a load may return something else than the partial that it is for"
    DOUBLE_FINALISE = "a tile is finished twice"
    NOT_FINALISED = "a tile is never finished"
    DIRTY_COUNTER = "a launch leaves a counter that is not zero"


Contents = dict[Place, frozenset[Label]]  # what a place may hold; all of it where it is a sum


class Write(NamedTuple):
    bit: int
    label: Label


class State(NamedTuple):
    """Between two steps. Sets of writes are bit masks."""

    at: tuple[tuple[int, ...], ...]  # next op, by unit and warp
    views: tuple[tuple[int, ...], ...]  # by unit and warp; 0 where the warp is done
    written: int
    over: tuple[tuple[int, int], ...]  # (bit, those before it at its place), if there are any
    counters: tuple[tuple[int, int], ...]  # (value, what the arrivals have released)
    clears: tuple[tuple[int, int], ...]  # (counter, unit) of stores that have yet to act
    flags: tuple[tuple[int, bool], ...]  # those that are set
    finished: frozenset[tuple[int, int, int]]  # (launch, tile, warp)


class Taken(NamedTuple):
    step: str
    result: State | Harm


@dataclass
class Found:
    """states, interleavings: how many there are. harms: each with the steps of a shortest way."""

    states: int = 0
    interleavings: int = 0
    harms: dict[Harm, tuple[str, ...]] = field(default_factory=dict)
    ends: dict[tuple, tuple[Contents, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """The units that run at the same time: those of one kernel, or of two that do not wait.

    counters: what they hold at first. finishes: (launch, tile) that must be finished at its end.
    ends_launch: the counters must be zero then. reduced: where a step commutes with all that the
    others can ever do, it is taken first.
    """

    units: tuple[tuple[Op, ...], ...]
    warps: int
    contents: Contents
    counters: tuple[int, ...]
    finishes: frozenset[tuple[int, int]]
    ends_launch: bool = True
    reduced: bool = True

    @cached_property
    def writes(self) -> dict[tuple[int, int, int], Write]:
        """By unit, number of the op and warp."""
        keys = [
            (unit, number, warp)
            for unit, ops in enumerate(self.units)
            for number, op in enumerate(ops)
            for warp in range(self.warps)
            if op.step in (Step.STORE, Step.ADD)
        ]
        return {k: Write(1 << i, self.units[k[0]][k[1]].label) for i, k in enumerate(keys)}

    @cached_property
    def writes_to(self) -> dict[Place, tuple[Write, ...]]:
        found: dict[Place, tuple[Write, ...]] = {}
        for (unit, number, warp), write in self.writes.items():
            place = (*self.units[unit][number].slot, warp)
            found[place] = (*found.get(place, ()), write)
        return found

    def explore(self) -> Found:
        """Step by step, all states that so many steps lead to, with the number of ways there."""
        found = Found()
        layer = {self._start(): 1}
        came: dict[State, tuple[State, str]] = {}
        while layer:
            found.states += len(layer)
            following: dict[State, int] = {}
            for state, ways in layer.items():
                steps = self._steps(state)
                for name, result in steps:
                    if isinstance(result, Harm):
                        found.harms.setdefault(result, (*_trace(state, came), name))
                        continue
                    came.setdefault(result, (state, name))
                    following[result] = following.get(result, 0) + ways
                if not steps:
                    self._end(state, ways, _trace(state, came), found)
            layer = following
        return found

    def _start(self) -> State:
        nowhere = tuple((0,) * self.warps for _ in self.units)
        counters = tuple((value, 0) for value in self.counters)
        return State(nowhere, nowhere, 0, (), counters, (), (), frozenset())

    def _end(self, state: State, ways: int, trace: tuple[str, ...], found: Found) -> None:
        counters = tuple(value for value, _ in state.counters)
        ends = tuple((len(ops),) * self.warps for ops in self.units)
        assert state.at == ends, f"a warp waits for ever after {trace}"
        finishes = {(*tile, warp) for tile in self.finishes for warp in range(self.warps)}
        if not finishes <= state.finished:
            found.harms.setdefault(Harm.NOT_FINALISED, trace)
        if self.ends_launch and any(counters):
            found.harms.setdefault(Harm.DIRTY_COUNTER, trace)
        found.interleavings += ways
        found.ends.setdefault((state.written, state.over, counters), (self._left(state), counters))

    def _left(self, state: State) -> Contents:
        left = dict(self.contents)
        for place, writes in self.writes_to.items():
            if self._is_sum(place):
                left[place] = left.get(place, frozenset()) | {w.label for w in writes}
                continue
            hidden = 0
            for _, before in state.over:
                hidden |= before
            left[place] = frozenset(w.label for w in writes if not w.bit & hidden)
        return left

    @cached_property
    def _sums(self) -> frozenset[Place]:
        return frozenset(op.slot for ops in self.units for op in ops if op.step is Step.ADD)

    def _is_sum(self, place: Place) -> bool:
        return place[:-1] in self._sums

    # --- steps

    def _steps(self, state: State) -> list[Taken]:
        """Every step that can be taken, or a harmless one that nothing else can affect or see."""
        ready = [
            (unit, warp, at, ops[at])
            for unit, ops in enumerate(self.units)
            for warp, at in enumerate(state.at[unit])
            if at < len(ops) and self._can_go(state, unit, warp, ops[at])
        ]
        for choice in ready:
            if self.reduced and self._is_private(state, choice[-1]):
                taken = self._taken(state, *choice)
                if not isinstance(taken.result, Harm):
                    return [taken]
        zeros = [
            Taken(
                f"unit {unit}: its zero reaches counter {counter}", _cleared(state, counter, unit)
            )
            for counter, unit in dict.fromkeys(state.clears)
        ]
        return zeros + [self._taken(state, *choice) for choice in ready]

    def _taken(self, state: State, unit: int, warp: int, at: int, op: Op) -> Taken:
        name = f"unit {unit} warp {warp}: {op.step.value} {tuple(op.label)}"
        result = self._step(state, unit, warp, at, op)
        return Taken(name, result if isinstance(result, Harm) else self._gone(result, unit))

    def _is_private(self, state: State, op: Op) -> bool:
        """A load is, once everything that is ever written there has been."""
        if op.step not in FOLDS:
            return op.step in BARRIERS or op.step is Step.FINALISE
        return not self._bits_of_slot[op.slot] & ~state.written

    @cached_property
    def _bits_of_slot(self) -> Counter[Place]:
        bits = Counter[Place]()
        for place, writes in self.writes_to.items():
            bits[place[:-1]] += sum(w.bit for w in writes)
        return bits

    def _can_go(self, state: State, unit: int, warp: int, op: Op) -> bool:
        if op.step in BARRIERS:
            return warp == 0 and len(set(state.at[unit])) == 1
        if op.step not in ARRIVALS:
            return True
        held = [counter for counter, of in state.clears if of == unit]
        return warp == 0 and not (held if op.step in RELEASES else op.counter in held)

    def _step(self, state: State, unit: int, warp: int, at: int, op: Op) -> State | Harm:
        view = state.views[unit][warp]
        match op.step:
            case Step.STORE | Step.ADD:
                return self._write(state, unit, warp, self.writes[unit, at, warp], op)
            case Step.BARRIER | Step.BARRIER_WITHOUT_MEMORY:
                return _barrier(state, unit, op.step is Step.BARRIER)
            case Step.CLEAR | Step.CLEAR_FIRST | Step.RESET:
                held = tuple(sorted((*state.clears, (op.counter, unit))))
                return _advanced(state._replace(clears=held), unit, warp)
            case Step.FOLD | Step.FOLD_SUM:
                check = self._fold if op.step is Step.FOLD else self._fold_sum
                harms = [check(state, view, (*op.slot, part), op) for part in range(self.warps)]
                return next(filter(None, harms), None) or _advanced(state, unit, warp)
            case Step.FINALISE:
                return self._finalise(state, unit, warp, at, op)
            case _:
                return _arrive(state, unit, view, op)

    def _write(self, state: State, unit: int, warp: int, write: Write, op: Op) -> State:
        view = state.views[unit][warp]
        before = sum(w.bit for w in self.writes_to[*op.slot, warp] if w.bit & view)
        over = state.over
        if before and op.step is Step.STORE:
            over = tuple(sorted((*over, (write.bit, before))))
        state = state._replace(written=state.written | write.bit, over=over)
        return _advanced(_with_view(state, unit, warp, view | write.bit), unit, warp)

    def _fold(self, state: State, view: int, place: Place, op: Op) -> Harm | None:
        writes = self.writes_to.get(place, ())
        hidden = sum(w.bit for w in writes if any(w.bit & b for y, b in state.over if y & view))
        may = {w.label for w in writes if w.bit & state.written & ~hidden}
        if not any(w.bit & view for w in writes):
            may |= self.contents.get(place, frozenset({Label(-1, -1, -1)}))
        if op.label in may:
            return None if len(may) == 1 else Harm.STALE_READ
        return Harm.LOST_PARTIAL

    def _fold_sum(self, state: State, view: int, place: Place, op: Op) -> Harm | None:
        added = [w for w in self.writes_to.get(place, ()) if w.bit & state.written]
        if not op.partials <= {w.label for w in added}:
            return Harm.LOST_PARTIAL
        seen = frozenset(w.label for w in added if w.bit & view)
        more = self.contents.get(place) or len(added) > len(seen)
        return Harm.STALE_READ if more or seen != op.partials else None

    def _finalise(self, state: State, unit: int, warp: int, at: int, op: Op) -> State | Harm:
        folds = [
            x.partials
            for x in self.units[unit][:at]
            if x.step in FOLDS and x.label[:2] == op.label[:2]
        ]
        if frozenset[Label]().union(*folds) != op.partials:
            return Harm.LOST_PARTIAL
        done = (op.label.launch, op.label.tile, warp)
        if done in state.finished:
            return Harm.DOUBLE_FINALISE
        return _advanced(state._replace(finished=state.finished | {done}), unit, warp)

    def _gone(self, state: State, unit: int) -> State:
        """`state` after its warps have passed what is not for them."""
        flags, ops = dict(state.flags), self.units[unit]
        ats = list(state.at[unit])
        for warp, at in enumerate(ats):
            while at < len(ops) and _is_skipped(ops[at], warp, flags):
                at += 1
            ats[warp] = at
            if at == len(ops):
                state = _with_view(state, unit, warp, 0)
        return state._replace(at=_put(state.at, unit, tuple(ats)))


def _is_skipped(op: Op, warp: int, flags: dict[int, bool]) -> bool:
    if op.step in TELL_THE_LAST:
        return warp > 0 and op.flag in flags
    if op.flag is not None and op.step in OF_THE_LAST and not flags.get(op.flag, False):
        return True
    return warp > 0 and op.step in ARRIVALS | CLEARS


def _put(rows: tuple, at: int, new: object) -> tuple:
    return (*rows[:at], new, *rows[at + 1 :])


def _advanced(state: State, unit: int, warp: int) -> State:
    ats = state.at[unit]
    return state._replace(at=_put(state.at, unit, _put(ats, warp, ats[warp] + 1)))


def _with_view(state: State, unit: int, warp: int, view: int) -> State:
    return state._replace(views=_put(state.views, unit, _put(state.views[unit], warp, view)))


def _cleared(state: State, counter: int, unit: int) -> State:
    held = list(state.clears)
    held.remove((counter, unit))
    return state._replace(clears=tuple(held), counters=_put(state.counters, counter, (0, 0)))


def _barrier(state: State, unit: int, joins: bool) -> State:
    state = state._replace(at=_put(state.at, unit, tuple(at + 1 for at in state.at[unit])))
    if not joins:
        return state
    joined = 0
    for view in state.views[unit]:
        joined |= view
    return state._replace(views=_put(state.views, unit, (joined,) * len(state.views[unit])))


def _arrive(state: State, unit: int, view: int, op: Op) -> State:
    """By warp 0. An addition that releases nothing leaves what earlier ones released."""
    value, released = state.counters[op.counter]
    value += op.step is not Step.LOOK
    seen = view | released if op.step in ACQUIRES else view
    released = released | view if op.step in RELEASES else released
    state = state._replace(counters=_put(state.counters, op.counter, (value, released)))
    if op.flag is not None:
        flags = (*state.flags, (op.flag, value == op.expected))
        state = state._replace(flags=tuple(sorted(flags)))
    return _advanced(_with_view(state, unit, 0, seen), unit, 0)


def _trace(state: State, came: dict[State, tuple[State, str]]) -> tuple[str, ...]:
    names = []
    while state in came:
        state, name = came[state]
        names.append(name)
    return tuple(reversed(names))
