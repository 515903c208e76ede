"""The rewrite: a grid of tiles becomes units that walk their share of the (tile x panel) space."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from loopir.nodes import (
    AllOf,
    AtMost,
    Atomic,
    Binding,
    Body,
    Cmp,
    For,
    Grid1D,
    If,
    Kernel,
    Let,
    Program,
    Reduce,
    Requirement,
    Set,
    Stmt,
    Store,
    While,
    Zeroed,
)
from loopir.symbols import Expr, floordiv, imin, mod, sym, to_expr
from loopir.tile_order import decode, fresh_name
from loopir.types import ReduceOp
from loopir.walk import defined_names, map_bodies, symbol_names
from passes.decomposition import Bounds, StreamK, symbolic_range
from passes.stream_k.dataflow import Writeback, panel_count
from passes.stream_k.nest import Nest, tile_count


@dataclass(frozen=True)
class Plan:
    """What the criteria established. `schedule` is None where a size is known at launch only or
    no unit count was asked for; `units` is the count asked for."""

    nest: Nest
    writebacks: tuple[Writeback, ...]
    bounds: Bounds
    units: int | None
    schedule: StreamK | None

    def units_expr(self, total: Expr) -> Expr | None:
        """What the `where` clause binds the unit count to; None leaves it to the launcher."""
        if self.schedule is not None:
            return to_expr(self.schedule.units)
        return None if self.units is None else imin(self.units, total)


def persistent(program: Program, plan: Plan) -> Program:
    """`program` with its only kernel in persistent form, partial tiles merged by atomics into
    zeroed outputs."""
    kernel = plan.nest.kernel
    taken = _taken(program, kernel)
    names = Names.of(taken)
    panels, units = panel_count(plan.nest), plan.units_expr(sym(names.total))
    where = (
        *kernel.where,
        Binding(names.tiles, tile_count(plan.nest.axes)),
        Binding(names.total, sym(names.tiles) * panels),
        *([] if units is None else [Binding(names.units, units)]),
    )
    low, high = symbolic_range(plan.bounds, sym(names.unit), sym(names.total), sym(names.units))
    walk = (
        Let(names.it, low),
        Let(names.it_end, high),
        While(Cmp("<", sym(names.it), sym(names.it_end)), _segment(plan, names, taken)),
    )
    grid = Grid1D(names.unit, sym(names.units), walk)
    requires = (*kernel.requires, *_requirements(plan, names))
    return replace(
        program, kernels=(replace(kernel, where=where, requires=requires, body=(grid,)),)
    )


@dataclass(frozen=True)
class Names:
    """The names that the rewrite adds to a kernel, none of them in use there."""

    tiles: str
    total: str
    units: str
    unit: str
    it: str
    it_end: str
    tile: str
    k0: str
    k1: str

    @classmethod
    def of(cls, taken: Collection[str]) -> "Names":
        wanted = ("TILES", "TOTAL", "UNITS", "unit", "it", "it_end", "tile", "k0", "k1")
        return cls(*(fresh_name(name, taken) for name in wanted))


def _requirements(plan: Plan, names: Names) -> tuple[Requirement, ...]:
    outputs = dict.fromkeys(b.store.target.buffer for b in plan.writebacks)
    zeroed = tuple(Zeroed(o) for o in outputs if Zeroed(o) not in plan.nest.kernel.requires)
    return zeroed if plan.units is not None else (*zeroed, AtMost(names.units, sym(names.total)))


def _taken(program: Program, kernel: Kernel) -> frozenset[str]:
    """Every name in use where the rewrite makes new ones."""
    memory = program.workspaces
    shapes = (symbol_names(w) for w in memory)
    return defined_names(kernel).union({w.name for w in memory}, *shapes)


def _segment(plan: Plan, names: Names, taken: Collection[str]) -> Body:
    """One pass of the walk: a unit's part of one tile."""
    panels = panel_count(plan.nest)
    it, it_end, tile = sym(names.it), sym(names.it_end), sym(names.tile)
    return (
        Let(names.tile, floordiv(it, panels)),
        Let(names.k0, mod(it, panels)),
        Let(names.k1, imin(it_end - tile * panels, panels)),
        *decode(plan.nest.axes, plan.nest.order, tile, taken),
        *_split(plan, names, panels, plan.nest.body),
        Set(names.it, tile * panels + sym(names.k1)),
    )


def _split(plan: Plan, names: Names, panels: Expr, body: Body) -> Body:
    """`body` with the panel loop cut to the segment and each writeback merged."""
    stores = [b.store for b in plan.writebacks]

    def split(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Reduce):
            loop = stmt.body[0]
            assert isinstance(loop, For)
            return replace(stmt, body=(replace(loop, lo=sym(names.k0), hi=sym(names.k1)),))
        if isinstance(stmt, Store) and stmt in stores:
            return _merge(stmt, names, panels)
        return map_bodies(stmt, lambda nested: tuple(map(split, nested)))

    return tuple(map(split, body))


def _merge(store: Store, names: Names, panels: Expr) -> If:
    """A whole tile is stored; a partial one is added into the zeroed output."""
    owns_full_tile = AllOf((Cmp("==", sym(names.k0), to_expr(0)), Cmp("==", sym(names.k1), panels)))
    return If(owns_full_tile, (store,), (Atomic(ReduceOp.ADD, store.target, store.tile),))
