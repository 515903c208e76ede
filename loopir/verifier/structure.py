"""Rules about control flow: the root grid, loops, waves, barriers, the variables of a `while`."""

from collections.abc import Iterator

from loopir.effects import condition_of
from loopir.nodes import (
    AllOf,
    AnyOf,
    Arrive,
    Barrier,
    Cmp,
    Cond,
    For,
    Grid,
    Grid1D,
    Let,
    Negate,
    Set,
    While,
)
from loopir.symbols import names_of, try_evaluate
from loopir.types import OrderKind
from loopir.verifier.context import Context, Definition, Finding, Site
from loopir.walk import is_parallel_loop, is_wave_loop, node_at

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def one_grid_is_the_root(ctx: Context) -> Iterator[Finding]:
    """A kernel's body is one `grid`, one `grid1d` or one `parallel` loop. A grid may stand alone in
    a grid, a parallel loop in a parallel loop (a nested band), and nowhere else."""
    root = ctx.kernel.body[0] if len(ctx.kernel.body) == 1 else None
    if not (isinstance(root, Grid | Grid1D) or is_parallel_loop(root)):
        yield Finding(
            ctx.path, f"`{ctx.kernel.name}` needs one grid around its statements", "kernel"
        )
    for site in ctx.sites:
        if is_parallel_loop(site.stmt) and site.around and not _continues_a_band(site):
            yield Finding(site.path, "a parallel loop stands at the root, or alone in one")
        if isinstance(site.stmt, Grid) and not site.stmt.axes:
            yield Finding(site.path, "a grid needs an axis")
        if isinstance(site.stmt, Grid | Grid1D) and site.around and not _is_nested_band(site):
            yield Finding(site.path, "a grid stands at the root, or alone in a grid")


def _is_nested_band(site: Site) -> bool:
    outer = site.around[-1].stmt
    return isinstance(site.stmt, Grid) and isinstance(outer, Grid) and len(outer.body) == 1


def _continues_a_band(site: Site) -> bool:
    outer = site.around[-1].stmt
    return isinstance(outer, For) and is_parallel_loop(outer) and len(outer.body) == 1


def grid_orders_are_well_formed(ctx: Context) -> Iterator[Finding]:
    """`order grouped(g)` has g >= 1 and a grid of two axes or more."""
    for site in ctx.sites:
        if isinstance(site.stmt, Grid) and site.stmt.order.kind is OrderKind.GROUPED:
            if site.stmt.order.group < 1:
                yield Finding(site.path, "a group is one row or more", "grouped")
            if len(site.stmt.axes) < 2:
                yield Finding(site.path, "grouped order needs two axes", "grouped")


def steps_are_positive(ctx: Context) -> Iterator[Finding]:
    """The step of a `for`, `parallel` or `wave` is a positive compile-time constant."""
    for site in ctx.sites:
        if isinstance(site.stmt, For) and (try_evaluate(site.stmt.step, ctx.sizes) or 0) < 1:
            yield Finding(site.path, "the step is no positive constant", "step")


def wave_loops_have_constant_trips(ctx: Context) -> Iterator[Finding]:
    """The bounds of a `wave` loop are compile-time constants."""
    for site in ctx.sites:
        if not _is_wave(site):
            continue
        bounds = (site.stmt.lo, site.stmt.hi)  # pyright: ignore[reportAttributeAccessIssue]
        if any(try_evaluate(b, ctx.sizes) is None for b in bounds):
            yield Finding(site.path, "the bounds of a wave loop are constants", "wave")


def _is_wave(site: Site) -> bool:
    return is_wave_loop(site.stmt)


def synchronisation_is_uniform(ctx: Context) -> Iterator[Finding]:
    """`barrier` and `arrive` stand in no `wave` loop, where warps would not meet."""
    for site in ctx.sites:
        if isinstance(site.stmt, Barrier | Arrive) and any(map(_is_wave, site.around)):
            word = type(site.stmt).__name__.lower()
            yield Finding(site.path, f"`{word}` in a wave loop", word)


def variables_belong_to_a_while(ctx: Context) -> Iterator[Finding]:
    """`set` assigns a variable that the condition of a `while` around it reads, and that a `let`
    outside this `while` made; no `wave` loop stands between."""
    for site in ctx.sites:
        if isinstance(site.stmt, Set) and (message := _set_mistake(ctx, site, site.stmt.name)):
            yield Finding(site.path, message, site.stmt.name)


def _set_mistake(ctx: Context, site: Site, name: str) -> str:
    depth = next((d for d, s in reversed([*enumerate(site.around)]) if _loops_on(s, name)), None)
    if depth is None:
        return f"no `while` around reads `{name}` in its condition"
    made = ctx.visible(name, site.around[depth].path)
    if made is None or not _is_let(ctx, made):
        return f"`{name}` is made by no `let` outside the `while`"
    is_mapped = any(map(_is_wave, site.around[depth:]))
    return f"`{name}` is set in a wave loop" if is_mapped else ""


def _loops_on(site: Site, name: str) -> bool:
    return isinstance(site.stmt, While) and any(
        name in names_of(side) for c in _comparisons(site.stmt.cond) for side in (c.lhs, c.rhs)
    )


def _is_let(ctx: Context, made: Definition) -> bool:
    return isinstance(node_at(ctx.program, made.path), Let)


def _comparisons(cond: Cond) -> Iterator[Cmp]:
    match cond:
        case Cmp():
            yield cond
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from _comparisons(term)
        case Negate(term):
            yield from _comparisons(term)


def comparisons_are_known(ctx: Context) -> Iterator[Finding]:
    """A comparison is one of == != < <= > >=."""
    for site in ctx.sites:
        cond = condition_of(site.stmt)
        for found in _comparisons(cond) if cond else ():
            if found.op not in _COMPARISONS:
                yield Finding(site.path, f"`{found.op}` is no comparison", found.op)
