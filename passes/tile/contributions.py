"""How each contribution to an accumulator is summed up over a panel, so that positions beyond the
end of the sum add nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from loopir.effects import tiles_written
from loopir.nodes import Apply, Cast, Ewise, Ewise_, Fill, Literal, Load, TileRef
from loopir.tile_types import DOT_ACCUMULATORS, MMA_SIDE, number_mistake, panel_step
from loopir.types import DType, ReduceOp
from loopir.walk import Path
from passes.tile.flow import Step
from passes.tile.fold import Number, fold
from passes.tile.groups import GroupKind
from passes.tile.nest import Nest


class Way(Enum):
    DOT = "dot"
    PLAIN = "combined along k"
    MASKED = "masked, and combined along k"
    SPREAD = "spread along k, masked, and combined along k"


@dataclass(frozen=True)
class Update:
    """`acc = op(acc, operand)` inside the Reduce; `dtype` is the accumulator's."""

    step: Step
    acc: str
    op: ReduceOp
    dtype: DType
    operand: Ewise_

    @property
    def has_all_axes(self) -> bool:
        return frozenset().union(*self.step.reads.values()) == frozenset(GroupKind)

    @property
    def identity(self) -> Number:
        found = self.op.identity(self.dtype)
        assert found is not None
        return found


@dataclass(frozen=True)
class Contribution:
    """An update and the way it is done. `factors`: the tiles [m, k] and [k, n] of a dot; `cleared`:
    those that must be set to zero beyond the end of the sum."""

    update: Update
    way: Way
    factors: tuple[str, str] | None = None
    cleared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contributions:
    """By the paths of their statements. `otherwise`: what loads give beyond the end of the sum,
    where that is not what they gave before."""

    of: Mapping[Path, Contribution]
    otherwise: Mapping[Path, Literal]

    @property
    def has_cubes(self) -> bool:
        """Whether one is computed for all (m, k, n) of a panel at once."""
        return any(c.way is not Way.DOT and c.update.has_all_axes for c in self.of.values())


def contributions(
    nest: Nest, steps: tuple[Step, ...], widths: Mapping[GroupKind, int]
) -> Contributions:
    """Beyond the end of the sum a load gives its `else`. Where that makes a contribution the
    identity of its operator, nothing more is to be done; else it is masked."""
    updates = {u.step.path: u for u in _updates(nest, steps)}
    otherwise = {p: Literal(v) for u in updates.values() for p, v in _better_else(nest, steps, u)}
    found: dict[Path, Contribution] = {}
    beyond: dict[str, Number | None] = {}
    for step in steps:
        if step.path in updates:
            found[step.path] = _contribution(nest, steps, updates[step.path], beyond, widths)
        for tile in tiles_written(step.stmt) - nest.accumulators:
            beyond[tile] = _value_beyond(step, beyond, otherwise)
    return Contributions(found, otherwise)


def _updates(nest: Nest, steps: tuple[Step, ...]) -> Iterator[Update]:
    ops = {a.tile: a.op for a in nest.reduce.accumulators}
    inside = {path for path, _ in nest.inside}
    for step in steps:
        match step.stmt:
            case Ewise(acc, Apply(_, (left, right))) if step.path in inside and acc in ops:
                operand = right if left == TileRef(acc) else left
                yield Update(step, acc, ops[acc], nest.dtypes[acc], operand)


def _value_beyond(
    step: Step, beyond: Mapping[str, Number | None], otherwise: Mapping[Path, Literal]
) -> Number | None:
    """What a statement leaves in its tile at positions beyond the end of the sum."""
    match step.stmt:
        case Fill(_, number):
            return number.value
        case Load(otherwise=number) if GroupKind.K in step.axes:
            return otherwise.get(step.path, number).value
        case Ewise(_, expr):
            return fold(expr, beyond)
    return None


def _better_else(
    nest: Nest, steps: tuple[Step, ...], update: Update
) -> Iterator[tuple[Path, Number]]:
    """The load, if a load is all that the update takes in, is used by nothing else and has no mask
    that gives its `else` a meaning; with the identity."""
    operand = update.operand.arg if isinstance(update.operand, Cast) else update.operand
    if not isinstance(operand, TileRef):
        return
    tile, identity = operand.name, update.identity
    writers = [s for s in steps if tile in tiles_written(s.stmt)]
    if _users(steps, tile) != [update.step] or len(writers) != 1:
        return
    load = writers[0]
    is_free = isinstance(load.stmt, Load) and not load.stmt.source.masked
    fits = not number_mistake(identity, nest.dtypes[tile])
    if is_free and fits and fold(update.operand, {tile: identity}) == identity:
        yield load.path, identity


def _contribution(
    nest: Nest,
    steps: tuple[Step, ...],
    update: Update,
    beyond: Mapping[str, Number | None],
    widths: Mapping[GroupKind, int],
) -> Contribution:
    if not any(GroupKind.K in axes for axes in update.step.reads.values()):
        return Contribution(update, Way.SPREAD)
    is_identity = fold(update.operand, beyond) == update.identity
    factors = _factors(nest, update)
    if factors is not None and _is_wide_enough(nest.dtypes[factors[0]], widths):
        unclear = () if is_identity else tuple(f for f in factors if beyond.get(f) != 0)
        if all(_users(steps, f) == [update.step] for f in unclear):
            return Contribution(update, Way.DOT, factors, unclear)
    return Contribution(update, Way.PLAIN if is_identity else Way.MASKED)


def _users(steps: tuple[Step, ...], tile: str) -> list[Step]:
    return [step for step in steps if tile in step.reads]


def _factors(nest: Nest, update: Update) -> tuple[str, str] | None:
    """The operands of the dot that the update is, if it is one."""
    match update.operand:
        case Apply("mul", (left, right)) if update.op is ReduceOp.ADD:
            names = [n for n in (_factor(nest, update, e) for e in (left, right)) if n is not None]
        case _:
            return None
    of_axes = {update.step.reads[name]: name for name in names}
    a = of_axes.get((GroupKind.M, GroupKind.K))
    b = of_axes.get((GroupKind.K, GroupKind.N))
    if a is None or b is None or nest.dtypes[a] is not nest.dtypes[b]:
        return None
    return (a, b) if update.dtype in DOT_ACCUMULATORS.get(nest.dtypes[a], ()) else None


def _factor(nest: Nest, update: Update, expr: Ewise_) -> str | None:
    """The tile whose values, as they are, `expr` is in the accumulator's type."""
    match expr:
        case Cast(dtype, TileRef(name)) if dtype is update.dtype:
            return name
        case TileRef(name):
            return name
    return None


def _is_wide_enough(dtype: DType, widths: Mapping[GroupKind, int]) -> bool:
    least = {GroupKind.M: MMA_SIDE, GroupKind.N: MMA_SIDE, GroupKind.K: panel_step(dtype)}
    return all(widths[kind] >= size for kind, size in least.items())
