"""The schedule of least predicted time, with what it was chosen from."""

from collections.abc import Iterator
from dataclasses import dataclass

from passes.decomposition.arithmetic import ceildiv, check_size
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel, Prediction, Term, predict
from passes.decomposition.cutlass.checks import check_problem
from passes.decomposition.cutlass.plan import CutlassPlan
from passes.decomposition.cutlass.rule import cutlass_rule
from passes.decomposition.cutlass.schedule import CutlassSchedule
from passes.decomposition.data_parallel import DataParallel
from passes.decomposition.guide_rule import GuideAdvice, guide_rule
from passes.decomposition.hybrid import Hybrid, HybridKind
from passes.decomposition.k_aligned import KAligned
from passes.decomposition.schedule import Schedule
from passes.decomposition.split_k import SplitK
from passes.decomposition.stream_k import StreamK

MOST_SPLITS = 32


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule by the name that the table prints, and its predicted time."""

    name: str
    schedule: Schedule
    prediction: Prediction

    @property
    def time(self) -> float:
        return self.prediction.time


@dataclass(frozen=True, slots=True)
class Choice:
    """candidates: all that were looked at, the best first; of equal times the simpler. cutlass and
    guide: what the published rules say, whose picks are among the candidates."""

    candidates: tuple[Candidate, ...]
    cutlass: CutlassPlan
    guide: GuideAdvice
    places: int

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def schedule(self) -> Schedule:
        return self.best.schedule

    @property
    def time(self) -> float:
        """The predicted time, in the unit of the cost model."""
        return self.best.time

    @property
    def binds(self) -> Term:
        """The largest part of that time."""
        return self.best.prediction.binds

    def table(self, rows: int | None = None) -> str:
        """The best `rows` candidates, all if not said: time, ratio to the best, and the parts of
        the time."""
        heads = ("schedule", "time", "ratio", "panels", "epilogues", "fix-up", "binds")
        lines = [heads, *(self._row(c) for c in self.candidates[:rows])]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(_aligned(line, widths) for line in lines)

    def _row(self, candidate: Candidate) -> tuple[str, ...]:
        p = candidate.prediction
        ratio = candidate.time / self.time if self.time else 1.0
        numbers = (candidate.time, ratio, p.panels, p.epilogues, p.fixup)
        return candidate.name, *(f"{x:.4g}" for x in numbers), p.binds.value


def choose(
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    *,
    sms: int,
    cost: CostModel = UNIT_COST_MODEL,
    tile: tuple[int, int, int] = (128, 128, 64),
    blocks_per_sm: int = 1,
) -> Choice:
    """The schedule of least predicted time for an m x n x k matrix product, `batch` times.

    tile: elements along m, n, k, that `cost` is for. Candidates: data-parallel; split-K by 2 .. 32;
    Stream-K, the one-tile and two-tile hybrids, and k-aligned, whose parts cost no panels or what
    `cost` has for storing one, a unit a place; what `cutlass_rule` (without clusters) and
    `guide_rule` pick. Equal times go to the earlier in this order, the fewer splits first.
    ValueError names an argument that is impossible."""
    check_problem(m, n, k, batch, tile, sms)
    check_size("blocks_per_sm", blocks_per_sm, 1)
    tiles = ceildiv(m, tile[0]) * ceildiv(n, tile[1]) * batch
    panels, places = max(1, ceildiv(k, tile[2])), sms * blocks_per_sm
    plan = cutlass_rule(m, n, k, batch, sms=sms, tile=tile)
    guide = guide_rule(m, n, sms=sms)
    named = [
        *_schedules(tiles, panels, places, cost),
        (f"guide: split-k by {guide.splits}", SplitK(tiles, panels, guide.splits)),
        (f"cutlass: {plan.mode.value}", CutlassSchedule(plan)),
    ]
    candidates = [Candidate(name, s, predict(s, places, cost)) for name, s in named]
    # the sort is stable: of equal times the earlier stays first
    return Choice(tuple(sorted(candidates, key=lambda c: c.time)), plan, guide, places)


def _schedules(
    tiles: int, panels: int, places: int, cost: CostModel
) -> Iterator[tuple[str, Schedule]]:
    """Each schedule once: no splits that are lowered to fewer, no hybrid that is all of one part,
    no tail that is not split."""
    yield "data-parallel", DataParallel(tiles, panels)
    if tiles == 0:
        return
    for splits in range(2, min(MOST_SPLITS, panels) + 1):
        schedule = SplitK(tiles, panels, splits)
        if schedule.splits == splits:
            yield f"split-k by {splits}", schedule
    stream_k = StreamK(tiles, panels, places)
    if stream_k.split_tiles():
        yield "stream-k", stream_k
    for kind in HybridKind:
        hybrid = Hybrid(tiles, panels, places, kind)
        if hybrid.stream_k.tiles and hybrid.data_parallel.tiles:
            yield f"hybrid {kind.value}", hybrid
    for dearer in _part_costs(panels, cost):
        k_aligned = KAligned(tiles, panels, places, dearer)
        if k_aligned.tail is not None:
            yield f"k-aligned cost {dearer}" if dearer else "k-aligned", k_aligned


def _part_costs(panels: int, cost: CostModel) -> tuple[int, ...]:
    """Panels that a part costs a k-aligned schedule: none, and what `cost` has for storing it, if
    that leaves something of a tile."""
    stored = round(cost.partial / cost.panel) if cost.panel else 0
    return (0, stored) if 0 < stored < panels else (0,)


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    first, *middle, last = line
    cells = [first.ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
    return "  ".join([*cells, last])
