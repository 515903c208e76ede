"""The protocols of the merges, as programs of `tests.protocol_model`, and ways to break them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product

from passes.decomposition import Schedule
from tests.protocol_model import Contents, Found, Phase
from tests.support.protocol_steps import (
    ARRIVALS,
    OF_THE_LAST,
    TELL_THE_LAST,
    Label,
    Op,
    Step,
)

WORKSPACE = (
    Step.STORE,
    Step.BARRIER,
    Step.ARRIVE,
    Step.RESET,
    Step.BARRIER,
    Step.FOLD,
    Step.FINALISE,
)
ATOMIC_WORKSPACE = (Step.ADD, *WORKSPACE[1:5], Step.FOLD_SUM, Step.FINALISE)
FIXUP = ((Step.STORE,), (Step.FOLD, Step.FINALISE))

#: The (tile, ordinal in k order) of the segments of each unit, in the order it computes them.
Segments = tuple[tuple[tuple[int, int], ...], ...]


def segments_of(schedule: Schedule) -> Segments:
    units = map(schedule.segments, range(schedule.units))
    return tuple(tuple((s.tile, s.slot) for s in segments) for segments in units)


@dataclass(frozen=True)
class Protocol:
    """Two launches of `kernels` on one workspace. What follows `warps` seeds a fault."""

    schedule: Segments
    kernels: tuple[tuple[Step, ...], ...] = (WORKSPACE,)
    warps: int = 2
    more_expected: int = 0
    slot_shift: int = 0  # added to the ordinal of the slot that a unit stores to
    left_out: int = 0  # how many slots are not folded
    one_counter: bool = False  # for all tiles
    zeroed: bool = True  # the slots, before each launch, where units add to them
    kernels_wait: bool = True
    launches_wait: bool = True
    own_workspaces: bool = False  # one for each launch
    counters_at_first: int = 0

    @property
    def tiles(self) -> int:
        return 1 + max(tile for segments in self.schedule for tile, _ in segments)

    def parts(self, tile: int) -> int:
        """How many partials `tile` has; 0 if one unit owns it."""
        units = sum(t == tile for segments in self.schedule for t, _ in segments)
        return units if units > 1 else 0

    def run(self, reduced: bool = True) -> Found:
        """Everything that two launches can do; each phase from every end of the one before it.
        `interleavings`: of all of them, one after the other."""
        total = Found(interleavings=1)
        starts: list[tuple[Contents, tuple[int, ...]]]
        starts = [({}, (self.counters_at_first,) * self.tiles * 2)]
        for running in self._phases():
            found = [self._phase(running, *start, reduced).explore() for start in starts]
            total.states += sum(f.states for f in found)
            total.interleavings *= sum(f.interleavings for f in found)
            total.harms = {h: steps for f in found for h, steps in f.harms.items()} | total.harms
            starts = list({key: end for f in found for key, end in f.ends.items()}.values())
        return total

    def _phases(self) -> Iterator[list[tuple[int, int]]]:
        """The kernels, each a launch and a number, that run at the same time."""
        running: list[tuple[int, int]] = []
        for launch, number in product(range(2), range(len(self.kernels))):
            if running and (self.kernels_wait if number else self.launches_wait):
                yield running
                running = []
            running.append((launch, number))
        yield running

    def _phase(
        self,
        running: list[tuple[int, int]],
        contents: Contents,
        counters: tuple[int, ...],
        reduced: bool,
    ) -> Phase:
        if self.zeroed and running[0][1] == 0 and Step.ADD in self.kernels[0]:
            contents = {}
        flags = count(0, 10)
        units = (
            self._unit(segments, launch, number, next(flags))
            for launch, number in running
            for segments in self._segments(number)
        )
        last = len(self.kernels) - 1
        finishes = frozenset(
            (launch, tile)
            for (launch, number), tile in product(running, range(self.tiles))
            if number == (last if self.parts(tile) else 0)
        )
        ends_launch = running[-1][1] == last
        return Phase(tuple(units), self.warps, contents, counters, finishes, ends_launch, reduced)

    def _segments(self, kernel: int) -> Segments:
        """Of the units of a kernel; those after the first have one for each tile that is split."""
        split = (tile for tile in range(self.tiles) if self.parts(tile))
        return tuple(((tile, 0),) for tile in split) if kernel else self.schedule

    def _unit(
        self, segments: tuple[tuple[int, int], ...], launch: int, kernel: int, flag: int
    ) -> tuple[Op, ...]:
        return tuple(
            op
            for i, (tile, part) in enumerate(segments)
            for op in self._segment(Label(launch, tile, part), self.kernels[kernel], flag + i)
        )

    def _segment(self, label: Label, steps: tuple[Step, ...], flag: int) -> Iterator[Op]:
        if not self.parts(label.tile):
            yield Op(Step.FINALISE, label, (), 0)
            return
        arrives = bool(ARRIVALS & set(steps))
        for step in steps:
            if step is Step.CLEAR_FIRST and label.part:
                continue
            number = flag if arrives and step in TELL_THE_LAST | OF_THE_LAST else None
            parts = range(self.parts(label.tile) - self.left_out) if step is Step.FOLD else (None,)
            for part in parts:
                yield self._op(step, label if part is None else label._replace(part=part), number)

    def _op(self, step: Step, label: Label, flag: int | None) -> Op:
        parts = self.parts(label.tile)
        workspace = label.launch if self.own_workspaces else 0
        part = (label.part + (self.slot_shift if step is Step.STORE else 0)) % parts
        if step in (Step.ADD, Step.FOLD_SUM):
            part = 0
        counter = workspace * self.tiles + (0 if self.one_counter else label.tile)
        slot = (workspace, label.tile, part)
        return Op(step, label, slot, parts, counter, parts + self.more_expected, flag)
