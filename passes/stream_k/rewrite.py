"""The rewrite: a grid of tiles becomes units that walk their share of the (tile x panel) space."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from loopir.nodes import (
    AtMost,
    Body,
    Cmp,
    ElementRead,
    Grid1D,
    If,
    Kernel,
    Let,
    Param,
    Program,
)
from loopir.rename import renamed
from loopir.scope import constants
from loopir.symbols import sym, try_evaluate
from loopir.tile_order import decode
from loopir.types import DType
from loopir.walk import names_in_use, names_made
from loopir.walk import walk as statements
from passes.decomposition import ClosedForm, Schedule, WholeTilesForm
from passes.stream_k.dataflow import Writeback, panel_count
from passes.stream_k.merges import Alone, Meeting, meeting
from passes.stream_k.names import Names
from passes.stream_k.nest import Nest, tile_count
from passes.stream_k.options import Options
from passes.stream_k.planning import Space, symbolic_space
from passes.stream_k.walk import Segment, walk


@dataclass(frozen=True)
class Plan:
    """What the criteria established. `schedule` is None where a size, or the count of units, is
    known at launch only."""

    nest: Nest
    writebacks: tuple[Writeback, ...]
    options: Options
    schedule: Schedule | None

    @property
    def splits_no_tile(self) -> bool:
        """Whether that is known."""
        if self.schedule is not None:
            return not self.schedule.split_tiles()
        tiles, panels = tile_count(self.nest.axes), panel_count(self.nest)
        return self.nest.constant(tiles) == 0 or self.nest.constant(panels) == 1


def persistent(program: Program, plan: Plan) -> Program:
    """`program` with its only kernel in persistent form, and what its merge adds."""
    kernel = plan.nest.kernel
    taken = names_in_use(program, kernel)
    names = Names.of(taken)
    panels, tiles = panel_count(plan.nest), tile_count(plan.nest.axes)
    space = symbolic_space(plan.options, plan.schedule, names, tiles, panels)
    met = _meeting(plan, space, names, taken)
    where = (*kernel.where, *space.bindings, *met.bindings)
    limit = () if space.limit is None else (AtMost(names.units, space.limit),)
    requires = (*kernel.requires, *met.requirements(), *limit)
    kernel = replace(kernel, where=where, requires=requires)
    body = _parts(plan, space, met, names, taken, constants(kernel))
    if plan.options.permuted:
        kernel, body = _permuted(kernel, space, names, body)
    grid = Grid1D(names.block if plan.options.permuted else names.unit, space.units, body)
    first = replace(kernel, body=(grid,))
    return replace(
        program,
        kernels=(first, *met.kernels(first)),
        workspaces=(*program.workspaces, *met.workspaces()),
    )


def _meeting(plan: Plan, space: Space, names: Names, taken: frozenset[str]) -> Meeting:
    """How parts of tiles meet."""
    forms = [form for form in space.forms if not isinstance(form, WholeTilesForm)]
    if not forms or plan.splits_no_tile:
        return Alone(plan.nest)
    form, backs = forms[0], plan.writebacks
    return meeting(plan.options, plan.nest, backs, names, form, taken, plan.schedule)


def _permuted(kernel: Kernel, space: Space, names: Names, body: Body) -> tuple[Kernel, Body]:
    """Block b takes the unit that a parameter of the launch names."""
    order = Param(names.order, DType.I32, (space.units,))
    unit = Let(names.unit, ElementRead(names.order, (sym(names.block),)))
    return replace(kernel, params=(*kernel.params, order)), (unit, *body)


def _parts(
    plan: Plan,
    space: Space,
    met: Meeting,
    names: Names,
    taken: Collection[str],
    known: dict[str, int],
) -> Body:
    """The walk of each part, one after the other; later ones get names of their own."""
    used = {*taken, *vars(names).values(), *(b.name for b in space.bindings)}
    done: Body = ()
    for forms in space.walks:
        run = partial(_segment, plan, met, taken, frozenset(used))
        part = walk(forms, names, known, run)
        part = renamed(part, used) if done else part
        done = (*done, *_guarded(part, forms[0], space, names, known))
        used = used.union(*(names_made(s) for _, s in statements(part)))
    return done


def _guarded(
    part: Body, form: ClosedForm, space: Space, names: Names, known: dict[str, int]
) -> Body:
    """`part` under a condition, where it has fewer units than the launch."""
    counts = [try_evaluate(n, known) for n in (form.units, space.units)]
    if form.units == space.units or (None not in counts and counts[0] == counts[1]):
        return part
    return (If(Cmp("<", sym(names.unit), form.units), part),)


def _segment(
    plan: Plan,
    met: Meeting,
    taken: Collection[str],
    used: Collection[str],
    segment: Segment,
) -> Body:
    """A unit's part of one tile."""
    axes = decode(plan.nest.axes, plan.nest.order, segment.tile, taken)
    return *axes, *met.segment(segment, {*used, *(n for s in axes for n in names_made(s))})
