"""SK05, SK06, SK14, SK18: what must be known of panel and tile counts, and of edges."""

from collections.abc import Iterator

import sympy

from loopir.effects import access_of
from loopir.nodes import AtMost
from loopir.ranges import dimension_is_in_bounds, ranges
from loopir.scope import launch_symbols, spelled
from loopir.symbols import Expr, Max, names_of, operands, substitute
from passes.base import Refusal
from passes.decomposition import Bounds
from passes.stream_k.dataflow import panel_count
from passes.stream_k.nest import Nest, tile_count
from passes.stream_k.options import Decomposition, Options

#: blocks of the largest launch that is planned for
_MOST_UNITS = 2**20


def constant_panels(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK05"""
    rule = "one panel loop 0 .. P with P >= 1, the same for every tile"
    loop, path = nest.loop, nest.loop_path
    panels = panel_count(nest)
    foreign = names_of(panels) - set(nest.env) - set(_launch_names(nest))
    if loop.lo != 0:
        yield Refusal(
            "SK05",
            rule,
            path,
            "the panel loop does not start at 0",
            "shift its index expressions so that it starts at 0",
        )
    elif foreign:
        found = f"the panel count depends on {', '.join(sorted(foreign))}"
        yield Refusal(
            "SK05",
            rule,
            path,
            found,
            "ragged panel counts need a table of segments; pad to one count",
        )
    elif nest.constant(panels) is None and not options.launch_constants:
        found = "the panel count is known at launch only"
        yield Refusal(
            "SK05", rule, path, found, "bind its sizes in `where`, or set launch-constants=true"
        )
    elif not _is_positive(nest, panels):
        hint = "write it as max(1, ...), so that an empty sum is still written"
        yield Refusal("SK05", rule, path, "the panel count may be zero", hint)


def constant_tiles(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK06, the counts"""
    rule = "tile counts are constants of the launch"
    known = set(nest.env) | set(_launch_names(nest))
    for axis in nest.axes:
        foreign, extent = names_of(axis.extent) - known, nest.constant(axis.extent)
        if foreign:
            found = f"the extent of {axis.iv} depends on {', '.join(sorted(foreign))}"
            yield Refusal("SK06", rule, nest.grid_path, found, "use a rectangular grid", axis.iv)
        elif extent is not None and extent < 0:
            found = f"the extent of {axis.iv} is {extent}"
            yield Refusal("SK06", rule, nest.grid_path, found, "write it as max(0, ...)", axis.iv)
        elif extent is None and not options.launch_constants:
            found = f"the extent of {axis.iv} is known at launch only"
            yield Refusal(
                "SK06",
                rule,
                nest.grid_path,
                found,
                "bind its sizes in `where`, or set launch-constants=true",
                axis.iv,
            )


def countable(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK06, the product of the counts"""
    panels, tiles = nest.constant(panel_count(nest)), nest.constant(tile_count(nest.axes))
    if panels is None or tiles is None:
        return
    total = tiles * panels
    units = options.units or tiles * (options.splits or 0) or _MOST_UNITS
    if total * min(units, total) >= 2**63:
        rule = "units * tiles * panels fit 63 bits"
        found = f"{tiles} tiles of {panels} panels"
        yield Refusal("SK06", rule, nest.grid_path, found, "use larger tiles")


def masked_edges(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK06, the edges"""
    rule = "an access that may leave its buffer is masked"
    facts = ranges(nest.kernel)
    for path, stmt in nest.statements:
        access = access_of(stmt)
        param = nest.param(access.buffer) if access else None
        if access is None or param is None or access.masked:
            continue
        env = facts[path[2:]]
        dims = range(len(access.index))
        if not all(dimension_is_in_bounds(access, d, env, param.shape[d]) for d in dims):
            found = f"an edge tile may leave {param.name}"
            yield Refusal("SK06", rule, path, found, "add `masked`", param.name)


def aligned_split(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK14"""
    rule = "splits divides the panel count, and units, if given, is tiles * splits"
    splits = options.splits
    if splits is None or options.decomposition is Decomposition.SPLIT_K:
        return
    panels, tiles = nest.constant(panel_count(nest)), nest.constant(tile_count(nest.axes))
    if panels is None or tiles is None:
        found = "panels or tiles are known at launch only"
        yield Refusal("SK14", rule, nest.loop_path, found, "bind the sizes in `where`")
    elif panels % splits:
        found = f"{splits} splits of {panels} panels"
        divisors = ", ".join(map(str, sympy.divisors(panels)))
        hint = f"divisors of {panels}: {divisors}; decomposition=split-k takes any"
        yield Refusal("SK14", rule, nest.loop_path, found, hint)
    elif options.units is not None and options.units != tiles * splits:
        found = f"units={options.units}, not {tiles} tiles * {splits} splits = {tiles * splits}"
        yield Refusal("SK14", rule, nest.grid_path, found, "leave units out")


def compile_time_schedule(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK18"""
    in_waves = options.decomposition in (Decomposition.HYBRID, Decomposition.K_ALIGNED)
    has_least = options.bounds is Bounds.CEIL and options.min_panels > 1
    panels, tiles = nest.constant(panel_count(nest)), nest.constant(tile_count(nest.axes))
    rule = "the schedule has a closed form in the sizes that the launch fixes"
    if (in_waves or has_least) and None in (panels, tiles):
        found = "a schedule that is computed from the numbers of tiles and panels"
        hint = "bind the sizes in `where`, or take decomposition=stream-k with bounds=floor"
        yield Refusal("SK18", rule, nest.grid_path, found, hint)
    elif has_least and options.units is None:
        found = "the last unit's share depends on how many units the launcher picks"
        yield Refusal("SK18", rule, nest.grid_path, found, "say units=, or take bounds=floor")


def _launch_names(nest: Nest) -> tuple[str, ...]:
    """Sizes that the arguments of a launch fix: unbound symbols that the launcher does not pick,
    and names bound to expressions of such."""
    picked = {r.name for r in nest.kernel.requires if isinstance(r, AtMost)}
    known = [name for name in launch_symbols(nest.kernel) if name not in picked]
    for binding in nest.kernel.where:
        if names_of(binding.expr) <= set(known):
            known.append(binding.name)
    return tuple(known)


def _is_positive(nest: Nest, panels: Expr) -> bool:
    value = nest.constant(panels)
    if value is not None:
        return value >= 1
    expr = substitute(panels, spelled(nest.kernel))
    return isinstance(expr, Max) and any((nest.constant(a) or 0) >= 1 for a in operands(expr))
