"""What a plan of the pass amounts to: rows for `--explain`, and its timeline."""

from loopir.nodes import Program
from loopir.scope import constants
from loopir.workspaces import parts_of
from passes.base import Rows
from passes.decomposition import (
    Fold,
    KAligned,
    Schedule,
    ScheduleSummary,
    Timeline,
    simulate,
    summary,
)
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel
from passes.stream_k.dataflow import panel_count
from passes.stream_k.merges import pieces_of, split_count, why_rows
from passes.stream_k.nest import tile_count
from passes.stream_k.options import (
    Merge,
    SlotLayout,
    adds_atomically,
    merge_of,
    splits_tiles,
)
from passes.stream_k.rewrite import Plan, persistent

#: who adds up the parts of a tile; the last unit takes what atomics have added for one load
_FOLD = {
    Merge.ATOMIC: Fold.ATOMIC,
    Merge.ATOMIC_WORKSPACE: Fold.LAST_ARRIVER,
    Merge.WORKSPACE: Fold.LAST_ARRIVER,
    Merge.FIXUP: Fold.REDUCTION_WAVE,
}


def plan_rows(plan: Plan, asked: int | None) -> Rows:
    """The schedule, and what its merge needs and promises. `asked`: the units that the pass was
    asked for."""
    if plan.schedule is None:
        return *_open_rows(plan), *_order_rows(plan), *_merge_rows(plan)
    figures = *schedule_rows(summary(plan.schedule)), *_tail_rows(plan.schedule)
    if asked not in (None, plan.schedule.units):
        is_hint = plan.options.units is None
        why = "a hint, for MMA fragments" if is_hint else "more than leave none empty"
        figures = (*figures, ("units asked for", f"{asked}: {why}"))
    return *figures, *_order_rows(plan), *_merge_rows(plan)


def schedule_rows(s: ScheduleSummary) -> Rows:
    """The figures of a decomposition, whatever device runs it."""
    return (
        ("tiles", f"{s.tiles}, of {counted(s.panels, 'panel')} each"),
        ("panels in all", str(s.total)),
        ("units", str(s.units)),
        ("panels a unit", _span(s.panels_per_unit_min, s.panels_per_unit_max)),
        ("largest over mean share", f"{s.load_ratio:.4f}"),
        ("split tiles", f"{s.split_tiles} of {s.tiles}"),
        ("contributors", f"at most {s.contributors_max} ({_histogram(s.contributors)})"),
    )


def _tail_rows(schedule: Schedule) -> Rows:
    """How the tail of a k-aligned schedule is cut."""
    if not isinstance(schedule, KAligned) or schedule.tail is None or schedule.shares is None:
        return ()
    tail, cut = schedule.tail, schedule.shares
    helpers = "a helper" if cut.layers == 2 else f"each of {cut.layers - 1} helpers"
    helped = f", {cut.share} by {helpers}" if cut.layers > 1 else ""
    end = schedule.panels - cut.owned - (cut.layers - 1) * cut.share
    by_all = f"the last {end} of all of them by {counted(cut.enders, 'unit')}"
    tiles = counted(tail.tiles, "tile")
    return (("tail", f"{tiles}: {counted(cut.owned, 'panel')} by an owner{helped}; {by_all}"),)


def plan_timeline(plan: Plan, sms: int, cost: CostModel = UNIT_COST_MODEL) -> Timeline | None:
    """What the units do when; None where the launch completes the schedule.

    As many places as units, where the options say how many; else `sms`. ValueError: `sms` below
    one.
    """
    if plan.schedule is None:
        return None
    places = sms if plan.options.units is None else max(1, plan.schedule.units)
    return simulate(plan.schedule, cost.units, places=places, fold=_FOLD[merge_of(plan.options)])


def most_contributors(schedule: Schedule) -> int:
    """The most units that meet in a tile."""
    return max(map(schedule.contributors, schedule.split_tiles()), default=1)


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _histogram(pairs: tuple[tuple[int, int], ...]) -> str:
    texts = (f"{counted(tiles, 'tile')} with {contributors}" for contributors, tiles in pairs)
    return ", ".join(texts) or "no tile"


def _open_rows(plan: Plan) -> Rows:
    """Rows for a schedule that the launch completes: what is known is told."""
    nest = plan.nest
    tiles, panels = nest.constant(tile_count(nest.axes)), nest.constant(panel_count(nest))
    asked = plan.options.units
    units = "blocks per SM * SMs, at most one a panel" if asked is None else asked
    return (
        ("tiles", "known at launch" if tiles is None else str(tiles)),
        ("panels a tile", "known at launch" if panels is None else str(panels)),
        ("units", f"{units}, at launch"),
    )


def _merge_rows(plan: Plan) -> Rows:
    parts_at_most = None if plan.schedule is None else most_contributors(plan.schedule)
    if not splits_tiles(plan.options) or plan.splits_no_tile:
        return (
            ("merge", "none: no tile is split"),
            ("workspace", "0 bytes"),
            ("determinism", _SAME_BITS),
        )
    outputs = ", ".join(dict.fromkeys(b.store.target.buffer for b in plan.writebacks))
    merge = merge_of(plan.options)
    zeroed = {Merge.ATOMIC: outputs, Merge.ATOMIC_WORKSPACE: "the slots"}.get(merge)
    return (
        ("merge", f"{merge.value}: {_MEANING[merge]}"),
        *([("fold", _fold_text(plan))] if merge is Merge.FIXUP else []),
        *([("slots", _order_text(plan))] if plan.options.slot_layout is not SlotLayout.ROW else []),
        *([("zeroing", f"{zeroed}, by the launcher, before each launch")] if zeroed else []),
        ("workspace", _workspace_text(plan)),
        ("determinism", _bits(plan, parts_at_most)),
    )


def _order_rows(plan: Plan) -> Rows:
    """Which block takes which unit, where the launch says."""
    text = "block b takes unit order[b]: a permutation of 0 .. UNITS - 1, which nothing checks"
    return (("order", text),) if plan.options.permuted else ()


_SAME_BITS = "the same in every run"
_MEANING = {
    Merge.ATOMIC: "partial tiles are added into the output",
    Merge.ATOMIC_WORKSPACE: "partial tiles are added into a slot, the last unit ends the tile",
    Merge.WORKSPACE: "partial tiles go to slots, the last unit folds them in k order",
    Merge.FIXUP: "partial tiles go to slots, a second kernel folds them in k order",
}


def _fold_text(plan: Plan) -> str:
    """What a block of the second kernel has of a tile."""
    pieces = pieces_of(plan.nest, plan.options, split_count(plan.schedule))
    if not pieces.cuts:
        return f"a block a tile: {pieces.why}"
    sides = " and ".join(f"{cut.size} along axis {cut.axis}" for cut in pieces.cuts)
    return f"{pieces.count} blocks a tile, each a piece of {sides}"


def _order_text(plan: Plan) -> str:
    """How the accumulators lie in their slots."""
    why = why_rows(plan.nest, plan.options.slot_layout)
    texts = (f"{tile} {f'row by row: {w}' if w else 'as fragments'}" for tile, w in why.items())
    return ", ".join(texts)


def _bits(plan: Plan, parts_at_most: int | None) -> str:
    if not adds_atomically(plan.options):
        return f"{_SAME_BITS}: parts are added in k order"
    if parts_at_most is not None and parts_at_most < 3:
        return f"{_SAME_BITS}: no tile has three contributors"
    return "by the order of arrival where a tile has three contributors or more"


def _workspace_text(plan: Plan) -> str:
    if merge_of(plan.options) is Merge.ATOMIC:
        return "0 bytes"
    found = workspace_bytes(plan)
    return "known at launch" if found is None else f"{found:,} bytes"


def workspace_bytes(plan: Plan) -> int | None:
    """Bytes of the workspaces, with the padding between them; None where the launch completes the
    schedule."""
    if plan.schedule is None:
        return None
    program = persistent(Program((plan.nest.kernel,)), plan)
    return parts_of(program).bytes_at(constants(program.kernels[0]))
