"""Every decomposition of a nest, compared by predicted time: what `explain` tells of them."""

from dataclasses import dataclass, replace
from functools import cached_property

from loopir.nodes import Workspace
from loopir.symbols import to_expr
from loopir.types import DType
from loopir.workspaces import Parts
from passes.base import Rows
from passes.decomposition import Schedule, Waves, waves
from passes.decomposition.choose import Candidate, Choice, choose
from passes.decomposition.cost import CostModel, predict
from passes.decomposition.schedule import FormSchedule
from passes.stream_k.problem import Problem
from passes.stream_k.report import counted, most_contributors, workspace_bytes
from passes.stream_k.rewrite import Plan

BEST_SHOWN = 6
PLAN = "this plan"
_ALWAYS_SHOWN = (PLAN, "data-parallel", "cutlass", "guide")


@dataclass(frozen=True)
class Comparison:
    """Every decomposition of a problem, by predicted time. `origin`: where the number of SMs comes
    from. `plan`: compared with the others, if the launch does not complete its schedule."""

    problem: Problem
    sms: int
    origin: str
    cost: CostModel
    plan: Plan | None = None

    @cached_property
    def waves(self) -> Waves:
        return waves(self.problem.tiles, self.sms)

    @cached_property
    def choice(self) -> Choice:
        p, sms = self.problem, self.sms
        # a panel is one step of k here, whatever its elements
        tile = (*p.tile, 1)
        found = choose(p.m, p.n, p.panels, p.batch, sms=sms, cost=self.cost, tile=tile)
        schedule = None if self.plan is None else self.plan.schedule
        if schedule is None:
            return found
        plan = Candidate(PLAN, schedule, predict(schedule, sms, self.cost))
        ordered = sorted((*found.candidates, plan), key=lambda c: c.time)
        return replace(found, candidates=tuple(ordered))

    def table(self) -> list[str]:
        """The lines of the table of candidates: the best, and those that the rows speak of."""
        shown = self._shown()
        table = replace(self.choice, candidates=shown).table()
        rest = len(self.choice.candidates) - len(shown)
        return [*table.splitlines(), *([f"and {counted(rest, 'other')}"] if rest else [])]

    def _shown(self) -> tuple[Candidate, ...]:
        found = enumerate(self.choice.candidates)
        return tuple(c for i, c in found if i < BEST_SHOWN or c.name.startswith(_ALWAYS_SHOWN))

    def rows(self) -> Rows:
        """Waves, what the rules say, the schedule of least time, and what that one needs."""
        p, guide = self.problem, self.choice.guide
        grid, tile = " x ".join(map(str, p.grid)), " x ".join(map(str, p.tile))
        tiles = f"{grid} = {counted(p.tiles, 'tile')} of {tile}"
        return (
            ("output", f"{tiles}, {counted(p.panels, 'panel')} each"),
            ("SMs", f"{self.sms}, {self.origin}; one block each"),
            ("waves, a block a tile", str(self.waves.count)),
            ("last wave", f"{self.waves.last} of {counted(self.waves.places, 'block')}"),
            ("utilisation", f"{100 * self.waves.utilization:.1f} %"),
            ("CUTLASS rule", self._cutlass()),
            ("guide rule", f"{_splits(guide.splits)}: {counted(guide.tiles, 'tile')} of 128 x 128"),
            ("least time", f"{self.choice.best.name}, {self.choice.time:g}"),
            ("data-parallel", self._why_not_data_parallel()),
            ("workspace", self._workspace()),
            ("determinism", self._determinism()),
            ("time", self._unit_costs()),
        )

    def _cutlass(self) -> str:
        plan = self.choice.cutlass
        return f"{plan.mode.value}: {plan.reason.value}; workspace {plan.workspace_bytes:,} bytes"

    def _unit_costs(self) -> str:
        cost = self.cost
        return (
            f"a panel {cost.panel:g}, an epilogue {cost.epilogue:g}, a part stored or loaded "
            f"{cost.partial:g}; the last folds"
        )

    def _why_not_data_parallel(self) -> str:
        ranked = self.choice.candidates
        whole = next(c for c in ranked if c.name == "data-parallel")
        if whole.time <= self.choice.time:
            return f"{whole.time:g}, nothing is faster"
        ratio = whole.time / self.choice.time
        last, places = self.waves.last, self.waves.places
        return (
            f"{whole.time:g}, {ratio:.3g} times the least: its last wave has {last} of "
            f"{counted(places, 'block')}"
        )

    def _workspace(self) -> str:
        name, schedule = self.choice.best.name, self.choice.schedule
        if self.plan is not None and name == PLAN:
            return f"{name}: {workspace_bytes(self.plan):,} bytes"
        if not schedule.split_tiles():
            return f"{name}: 0 bytes"
        slots, counters, sizes = schedule.slots, _counters(schedule), self.problem.part_bytes
        tiles = tuple(Workspace("", DType.I8, (to_expr(slots * size),)) for size in sizes)
        needed = Parts((Workspace("", DType.I32, (to_expr(counters),)),), tiles).bytes_at({})
        return (
            f"{name}: {needed:,} bytes by merge=workspace ({slots} slots of {sum(sizes):,} bytes, "
            f"{counters} counters), 0 by merge=atomic"
        )

    def _determinism(self) -> str:
        most = most_contributors(self.choice.schedule)
        same = f"{self.choice.best.name}: the same bits in every run"
        if most == 1:
            return same
        if most == 2:
            return f"{same}, by atomics too"
        return f"{same} from slots; with atomics by the order of arrival"


def _counters(schedule: Schedule) -> int:
    """How many counters a workspace holds; of a schedule without closed forms, one a split tile."""
    if isinstance(schedule, FormSchedule):
        return sum(form.counter_count for form in schedule.forms)
    return len(schedule.split_tiles())


def _splits(splits: int) -> str:
    return "data-parallel" if splits == 1 else f"split-k by {splits}"
