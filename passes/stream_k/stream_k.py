"""Rewrite a grid of output tiles into persistent units that walk equal slices of the (tile x panel)
space.

Before:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
      ...
      reduce (acc: add) { for kp in 0 .. P { ... } }
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
    }

After `stream-k{merge=atomic units=132}`:
    where ..., TILES = ceildiv(M, BM) * ceildiv(N, BN), TOTAL = P * TILES, UNITS = 132
    requires zeroed(C) {
    grid1d (unit) in [UNITS] persistent {
      let it = unit * TOTAL // UNITS
      let it_end = (unit + 1) * TOTAL // UNITS
      while it < it_end {
        let tile = it // P
        let k0 = it % P
        let k1 = min(it_end - tile * P, P)
        ... decode ti, tj; the grid's body, its panel loop over k0 .. k1 ...
        if k0 == 0 and k1 == P { store C[...], acc masked } else { atomic add C[...], acc masked }
        set it = tile * P + k1
      }
    }

Requires: SK01 .. SK17 (docs/refusals.md).
Guarantees: every (tile, panel) is computed once; loads of two units differ by at most one panel
(bounds=floor and
    big-units); the launcher zeroes the output, so nothing of what it held is read; no workspace;
    nothing waits. Bits depend on the order of arrival where a tile has three contributors or more.
Not handled: a merge other than atomic adds, epilogues, several kernels, ragged panel counts.
Source: Osama et al., "Stream-K", PPoPP 2023, section 4.
"""

from dataclasses import dataclass
from typing import ClassVar

from loopir.nodes import Program
from passes.base import Pass, Refusal
from passes.decomposition import Bounds, StreamK, summary
from passes.explain import Rows, schedule_rows
from passes.options import option
from passes.stream_k.atomics import ATOMIC_ADD
from passes.stream_k.criteria import CRITERIA
from passes.stream_k.dataflow import panel_count, writebacks
from passes.stream_k.nest import Nest, find_nest, tile_count
from passes.stream_k.options import Merge
from passes.stream_k.rewrite import Plan, persistent


@dataclass(frozen=True)
class StreamKPass(Pass):
    """Make a grid of tiles persistent units that walk equal slices of the (tile x panel) space.

    Options with a wrong value raise ValueError that names the option.
    """

    name: ClassVar[str] = "stream-k"

    merge: Merge = option(
        Merge.AUTO, "how partial tiles meet; auto is atomic, the only merge so far"
    )
    units: int | None = option(
        None, "persistent blocks; if not said, the launcher picks blocks per SM * SMs"
    )
    splits: int | None = option(
        None, "cut every tile into so many equal parts: units = tiles * splits"
    )
    bounds: Bounds = option(Bounds.FLOOR, "how the iterations are cut into units")
    launch_constants: bool = option(False, "accept sizes that are known at launch only")
    deterministic: bool = option(False, "refuse a merge whose bits depend on the order of arrival")
    target: str = option("cuda:90", "compile target whose atomics are asked about")

    def __post_init__(self):
        super().__post_init__()
        for field in ("units", "splits"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field}: an int >= 1, not {value!r}")
        if self.target not in ATOMIC_ADD:
            raise ValueError(f"target: {self.target!r} is none of {', '.join(ATOMIC_ADD)}")

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        nest = find_nest(program)
        if isinstance(nest, tuple):
            return nest
        reasons = tuple(r for criterion in CRITERIA for r in criterion(nest, self))
        return reasons or self._plan(nest)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        return persistent(program, plan)

    def report(self, plan: Plan) -> Rows:
        """Rows for `--explain`: the schedule, and what its merge needs and promises."""
        if plan.schedule is None:
            figures = _open_rows(plan)
        else:
            figures = schedule_rows(summary(plan.schedule, sms=plan.schedule.units or 1))
        if plan.schedule is not None and plan.units != plan.schedule.units:
            figures = (*figures, ("units asked for", f"{plan.units}: more than leave none empty"))
        return *figures, *_merge_rows(plan)

    def _plan(self, nest: Nest) -> Plan:
        tiles, panels = nest.constant(tile_count(nest.axes)), nest.constant(panel_count(nest))
        units = self.units if self.splits is None or tiles is None else tiles * self.splits
        schedule = None
        if tiles is not None and panels is not None and units is not None:
            schedule = StreamK(tiles, panels, units, self.bounds)
        return Plan(nest, writebacks(nest), self.bounds, units, schedule)


def _open_rows(plan: Plan) -> Rows:
    """Rows for a schedule that the launch completes: what is known is told."""
    nest = plan.nest
    tiles, panels = nest.constant(tile_count(nest.axes)), nest.constant(panel_count(nest))
    units = "blocks per SM * SMs, at most one a panel" if plan.units is None else plan.units
    return (
        ("tiles", "known at launch" if tiles is None else str(tiles)),
        ("panels a tile", "known at launch" if panels is None else str(panels)),
        ("units", f"{units}, at launch"),
    )


def _merge_rows(plan: Plan) -> Rows:
    outputs = ", ".join(dict.fromkeys(b.store.target.buffer for b in plan.writebacks))
    bits = "by the order of arrival where a tile has three contributors or more"
    if plan.schedule is not None and _most_contributors(plan.schedule) < 3:
        bits = "the same in every run: no tile has three contributors"
    return (
        ("merge", "atomic: partial tiles are added into the output"),
        ("zeroing", f"{outputs}, by the launcher, before each launch"),
        ("workspace", "0 bytes"),
        ("determinism", bits),
    )


def _most_contributors(schedule: StreamK) -> int:
    return max(map(schedule.contributors, schedule.split_tiles()), default=1)
