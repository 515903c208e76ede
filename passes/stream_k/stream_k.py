"""Rewrite a grid of output tiles into persistent units that walk equal slices of the (tile x panel)
space.

Before:
    grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
      ...
      reduce (acc: add) { for kp in 0 .. P { ... } }
      store C[ti * BM +: BM, tj * BN +: BN], acc masked
    }

After `stream-k{units=132}`:
    workspace partials: f32[SLOTS, BM, BN]
    workspace arrivals: i32[COUNTERS]
    where ..., TILES = ceildiv(M, BM) * ceildiv(N, BN), TOTAL = P * TILES, UNITS = 132, ... {
    grid1d (unit) in [UNITS] persistent {
      let it = unit * TOTAL // UNITS
      let it_end = (unit + 1) * TOTAL // UNITS
      while it < it_end {
        let tile = it // P
        let k0 = it % P
        let k1 = min(it_end - tile * P, P)
        ... decode ti, tj; who meets in the tile; the grid's body, its panel loop over k0 .. k1 ...
        if k0 == 0 and k1 == P { store C[...], acc masked } else {
          store partials[first + unit, ...], acc
          arrive last, arrivals[first], parts
          if last { ... fold the slots in k order; what followed the reduce ... }
        }
        set it = tile * P + k1
      }
    }

Other decompositions are other walks of the same space: `decomposition=split-k splits=4` gives every
tile to four units, without a loop; `hybrid` walks whole tiles in a loop of their own; `k-aligned`
counts a unit's tiles, whole ones first, in one loop; with `data-parallel` no tile is split, and
nothing is merged. Other merges are other ends of a part of a
tile: `atomic` adds it into the zeroed output, `atomic-workspace` into a zeroed slot, `fixup` leaves
the fold to a second kernel.

Requires: SK01 .. SK21 (docs/refusals.md); of data-parallel SK01, SK02, SK05, SK06 (counts), SK15,
    SK19.
Guarantees: every (tile, panel) is computed once, by the schedule that passes.decomposition tells;
    what followed the reduce runs once a tile; nothing waits for another block. Parts are added in k
    order, whatever the order of arrival, but by the atomic merges, whose bits depend on it where a
    tile has three contributors or more. Counters are zero before and after a launch.
Not handled: several kernels, ragged panel counts; atomic also: epilogues, operators but add.
Source: Osama et al., "Stream-K", PPoPP 2023, sections 4 and 5.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.nodes import Program
from passes.base import Pass, Refusal, Rows
from passes.decomposition import Bounds, Direction, HybridKind, SlotOrder
from passes.options import option
from passes.stream_k.atomics import ATOMIC_ADD
from passes.stream_k.criteria import CRITERIA, is_asked
from passes.stream_k.dataflow import panel_count, writebacks
from passes.stream_k.fragments import splits_of_fragments
from passes.stream_k.nest import Nest, find_nest, tile_count
from passes.stream_k.options import Decomposition, Merge, Part, SlotLayout, conflicts
from passes.stream_k.planning import schedule_of
from passes.stream_k.report import plan_rows
from passes.stream_k.rewrite import Plan, persistent


@dataclass(frozen=True)
class StreamKPass(Pass):
    """Make a grid of tiles persistent units that walk equal slices of the (tile x panel) space.

    Options with a wrong value raise ValueError that names the option.
    """

    name: ClassVar[str] = "stream-k"

    merge: Merge = option(Merge.AUTO, "how the parts of a split tile meet; auto is workspace")
    decomposition: Decomposition = option(
        Decomposition.AUTO,
        "the schedule: ranges, slices of tiles, whole tiles, or these and a tail; auto: ranges, "
        "but slices for MMA fragments with merge=auto",
    )
    units: int | None = option(
        None,
        "persistent blocks; a hint where auto takes slices. If not said: of ranges blocks per SM * "
        "SMs, at launch; of slices tiles * splits; of whole tiles one a tile",
    )
    splits: int | None = option(
        None, "slices of every tile; without decomposition=split-k they must be equal"
    )
    bounds: Bounds = option(Bounds.FLOOR, "how the iterations are cut into units")
    min_panels: int = option(
        1,
        "least panels of a unit, of k-aligned of a part of a tile; fewer units where there are not "
        "enough",
    )
    cost: int = option(
        0, "k-aligned: panels that storing a part costs; who starts a tile computes so many more"
    )
    direction: Direction = option(Direction.FORWARD, "which end of its range a unit begins at")
    slot_order: SlotOrder = option(
        SlotOrder.SPLIT_FASTEST, "split-k: whether neighbours share a tile or a part of K"
    )
    tail: HybridKind = option(HybridKind.TWO_TILE, "hybrid: which tiles stream-k covers")
    first: Part = option(Part.STREAM_K, "hybrid: the part that a unit computes first")
    pieces: int | None = option(
        None,
        "fixup: pieces of a tile, each folded by a block of its own. If not said: "
        "as many as fill the device, where what follows the reduction can be cut",
    )
    slot_layout: SlotLayout = option(
        SlotLayout.ROW,
        "whether the parts of a tile are kept row by row, or as fragments of an MMA; auto: as "
        "fragments where a dot makes them",
    )
    permuted: bool = option(
        False, "a block takes the unit that a parameter `order` names: a permutation, for tests"
    )
    launch_constants: bool = option(False, "accept sizes that are known at launch only")
    deterministic: bool = option(False, "refuse a merge whose bits depend on the order of arrival")
    target: str = option("cuda:90", "compile target whose atomics are asked about")

    def __post_init__(self):
        super().__post_init__()
        for field in ("units", "splits", "min_panels", "pieces"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field}: an int >= 1, not {value!r}")
        if self.cost < 0:
            raise ValueError(f"cost: an int >= 0, not {self.cost!r}")
        if self.target not in ATOMIC_ADD:
            raise ValueError(f"target: {self.target!r} is none of {', '.join(ATOMIC_ADD)}")
        for conflict in conflicts(self):
            raise ValueError(conflict)

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        nest = find_nest(program)
        if isinstance(nest, tuple):
            return nest
        options = self._effective(nest)
        asked = (c for c in CRITERIA if is_asked(c, options))
        reasons = tuple(r for criterion in asked for r in criterion(nest, options))
        return reasons or options._plan(nest)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        return persistent(program, plan)

    def report(self, plan: Plan) -> Rows:
        """Rows for `--explain`: the schedule, and what its merge needs and promises."""
        return plan_rows(plan, self.units)

    def _effective(self, nest: Nest) -> "StreamKPass":
        """The options with a number of splits, where fragments ask for equal slices."""
        splits = splits_of_fragments(self, nest)
        return self if splits is None else replace(self, splits=splits, units=None, min_panels=1)

    def _plan(self, nest: Nest) -> Plan:
        tiles, panels = nest.constant(tile_count(nest.axes)), nest.constant(panel_count(nest))
        return Plan(nest, writebacks(nest), self, schedule_of(self, tiles, panels))
