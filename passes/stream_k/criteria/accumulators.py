"""SK03, SK04, SK11, SK12, SK16, SK17: what is accumulated, and that nothing else is carried."""

from collections.abc import Iterator

from loopir.nodes import Alloc, Fill, Stmt
from loopir.types import ReduceOp, Space
from loopir.walk import Path, Placed
from passes.base import Refusal
from passes.stream_k.atomics import has_atomic_add
from passes.stream_k.dataflow import carried, carried_by_waves, starts
from passes.stream_k.nest import Nest
from passes.stream_k.options import Options, adds_atomically, merge_of


def associative_operators(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK03"""
    rule = "every operator is associative, and an atomic merge adds"
    for acc in nest.reduce.accumulators:
        only_add = adds_atomically(options)
        if acc.op is ReduceOp.ADD or (acc.op.is_associative and not only_add):
            continue
        found = f"accumulator {acc.tile} combines by {acc.op.value}"
        hint = "atomic merges add only; take merge=workspace for other operators"
        if not acc.op.is_associative:
            hint = (
                f"{acc.op.value} over parts is not {acc.op.value} over the whole: do not split it"
            )
        yield Refusal("SK03", rule, nest.reduce_path, found, hint, f"{acc.tile}: {acc.op.value}")


def atomic_dtype(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK04"""
    rule = "the accumulated type has a device atomic add on the target"
    for path, alloc in _accumulator_allocs(nest):
        if not has_atomic_add(alloc.dtype, options.target):
            found = f"{options.target} adds no {alloc.dtype.value} atomically"
            hint = "accumulate in f32 or i32, name another target=, or take merge=workspace"
            yield Refusal("SK04", rule, path, found, hint, alloc.dtype.value)


def nothing_carried(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK11"""
    rule = "only accumulators pass from panel to panel"
    for path, name in carried(nest):
        found = f"{name} passes from one panel to the next, or out of the loop"
        yield Refusal(
            "SK11",
            rule,
            path,
            found,
            "compute it from the panel's number, or name it as an accumulator",
            name,
        )


def nothing_left_to_waves(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK11, from wave to wave"""
    rule = "what a wave makes of its sums is used by no later wave's panels"
    for path, name in carried_by_waves(nest):
        found = f"{name} is left behind the panels of one wave, and used by a later one"
        hint = "keep it within the wave, or use it behind the reduce only"
        yield Refusal("SK11", rule, path, found, hint, name)


def starts_at_identity(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK12"""
    rule = "an accumulator starts at its operator's identity"
    dtypes = {alloc.name: alloc.dtype for _, alloc in _accumulator_allocs(nest)}
    for acc in nest.reduce.accumulators:
        found = starts(nest, acc.tile)
        identity = acc.op.identity(dtypes[acc.tile])
        if not acc.op.is_associative or _is_one_fill(found, identity):
            continue
        path, last = found[-1] if found else (nest.reduce_path, nest.reduce)
        why = f"{acc.tile} starts at {_start_text(found, last)}, which every partial tile counts"
        hint = f"fill {acc.tile}, {identity} before the reduce, and add the rest in an epilogue"
        yield Refusal("SK12", rule, path, why, hint, acc.tile)


def _is_one_fill(found: tuple[Placed, ...], value: int | float | None) -> bool:
    return [s.value.value for _, s in found if isinstance(s, Fill)] == [value] and len(found) == 1


def _start_text(found: tuple[Placed, ...], last: Stmt) -> str:
    if len(found) > 1:
        return f"one of {len(found)} values"
    return f"{last.value.value}" if isinstance(last, Fill) else "something else"


def determinism(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK16"""
    if options.deterministic:
        rule = "a deterministic result needs a merge of fixed order"
        found = f"merge={merge_of(options).value} adds in the order of arrival"
        hint = "take merge=workspace or merge=fixup, or drop deterministic=true"
        yield Refusal("SK16", rule, nest.reduce_path, found, hint)


def no_fragments(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK17"""
    rule = "an atomic merge needs accumulators with addressable elements"
    for path, alloc in _accumulator_allocs(nest):
        if alloc.space is Space.FRAGMENT:
            found = f"{alloc.name} is an MMA fragment"
            hint = "leave mma-expand out, or take merge=workspace"
            yield Refusal("SK17", rule, path, found, hint, "fragment")


def _accumulator_allocs(nest: Nest) -> Iterator[tuple[Path, Alloc]]:
    return ((p, s) for p, s in nest.before if isinstance(s, Alloc) and s.name in nest.accumulators)
