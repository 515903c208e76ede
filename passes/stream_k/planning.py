"""From options and sizes to a schedule: as numbers where the sizes are known, and as closed forms
over the names that the `where` clause gets."""

from dataclasses import dataclass, replace

from loopir.nodes import Binding
from loopir.symbols import Expr, ceildiv, floordiv, imax, imin, sym, to_expr
from passes.decomposition import (
    ClosedForm,
    DataParallel,
    Hybrid,
    KAligned,
    Schedule,
    SplitK,
    SplitKForm,
    StreamK,
    StreamKForm,
    WholeTilesForm,
    useful_splits,
)
from passes.stream_k.names import Names
from passes.stream_k.options import Decomposition, Options, Part, is_split_k, is_stream_k


def schedule_of(options: Options, tiles: int | None, panels: int | None) -> Schedule | None:
    """The schedule in numbers; None where a size, or the count of units, is known at launch
    only."""
    if tiles is None or panels is None:
        return None
    units = options.units
    if is_split_k(options):
        assert options.splits is not None
        return SplitK(tiles, panels, options.splits, options.slot_order)
    if options.decomposition is Decomposition.DATA_PARALLEL:
        return DataParallel(tiles, panels, units)  # pyright: ignore[reportArgumentType]
    if units is None:
        return None
    if options.decomposition is Decomposition.K_ALIGNED:
        return KAligned(tiles, panels, units, options.cost, options.min_panels)
    walk = (options.bounds, options.min_panels, options.direction)
    if is_stream_k(options):
        return StreamK(tiles, panels, units, *walk)
    stream_k_first = options.first is Part.STREAM_K
    return Hybrid(tiles, panels, units, options.tail, stream_k_first, *walk)


@dataclass(frozen=True)
class Space:
    """The (tile x panel) space in the names of the kernel. `forms`: the parts that a unit walks,
    one after the other; `bindings`: what the `where` clause gets; `units`: blocks of the launch;
    `limit`: what the launcher picks `units` below, where it does; `in_one_loop`: one loop goes
    through all parts, so that the kernel has their panels once."""

    forms: tuple[ClosedForm, ...]
    bindings: tuple[Binding, ...]
    units: Expr
    limit: Expr | None = None
    in_one_loop: bool = False

    @property
    def walks(self) -> tuple[tuple[ClosedForm, ...], ...]:
        """The parts of each loop."""
        return (self.forms,) if self.in_one_loop else tuple((form,) for form in self.forms)


def symbolic_space(
    options: Options, schedule: Schedule | None, names: Names, tiles: Expr, panels: Expr
) -> Space:
    """The space of `schedule`, or the one that the launch completes."""
    bound = Binding(names.tiles, tiles)
    if is_split_k(options):
        return _split_k(options, schedule, names, bound, panels)
    if options.decomposition is Decomposition.DATA_PARALLEL:
        return _data_parallel(options, schedule, names, bound, panels)
    if isinstance(schedule, Hybrid):
        return _hybrid(schedule, names, bound, panels)
    if isinstance(schedule, KAligned):
        return _k_aligned(schedule, names, bound, panels)
    return _stream_k(options, schedule, names, bound, panels)


def _stream_k(
    options: Options, schedule: Schedule | None, names: Names, tiles: Binding, panels: Expr
) -> Space:
    total = Binding(names.total, sym(names.tiles) * panels)
    most: Expr = sym(names.total)
    if options.min_panels > 1:
        most = imin(most, imax(1, floordiv(most, to_expr(options.min_panels))))
    units, limit = _units(options, schedule, names, most)
    form = StreamKForm(
        sym(names.tiles), panels, sym(names.units), options.bounds, options.direction
    )
    return Space((form,), (tiles, total, *units), sym(names.units), limit)


def _data_parallel(
    options: Options, schedule: Schedule | None, names: Names, tiles: Binding, panels: Expr
) -> Space:
    count = sym(names.tiles)
    if options.units is None:
        return Space((WholeTilesForm(count, panels, count),), (tiles,), count)
    units, limit = _units(options, schedule, names, count)
    form = WholeTilesForm(count, panels, sym(names.units))
    return Space((form,), (tiles, *units), sym(names.units), limit)


def _units(
    options: Options, schedule: Schedule | None, names: Names, most: Expr
) -> tuple[tuple[Binding, ...], Expr | None]:
    """What binds the count of units, and what the launcher must keep it below if nothing does."""
    if schedule is not None:
        return (Binding(names.units, to_expr(schedule.units)),), None
    if options.units is not None:
        return (Binding(names.units, imin(options.units, most)),), None
    return (), most


def _split_k(
    options: Options, schedule: Schedule | None, names: Names, tiles: Binding, panels: Expr
) -> Space:
    assert options.splits is not None
    asked = to_expr(options.splits)
    if isinstance(schedule, SplitK):
        splits, share = to_expr(schedule.splits), to_expr(-(-schedule.panels // schedule.splits))
    else:
        splits = useful_splits(panels, asked)
        share = ceildiv(panels, sym(names.splits))
    bindings = (
        tiles,
        Binding(names.splits, splits),
        Binding(names.share, share),
        Binding(names.units, sym(names.tiles) * sym(names.splits)),
    )
    form = SplitKForm(sym(names.tiles), panels, sym(names.splits), options.slot_order)
    return Space((form,), bindings, sym(names.units))


def _hybrid(schedule: Hybrid, names: Names, tiles: Binding, panels: Expr) -> Space:
    """The Stream-K part over names of its own: its tiles, its iterations, its units."""
    part_tiles = sym(names.part_tiles)
    bindings = (
        tiles,
        Binding(names.part_tiles, to_expr(schedule.stream_k.tiles)),
        Binding(names.total, part_tiles * panels),
        Binding(names.part_units, to_expr(schedule.stream_k.units)),
        Binding(names.units, to_expr(schedule.units)),
    )
    rest = sym(names.tiles) - part_tiles
    forms = []
    for form in schedule.forms:
        is_ranges = isinstance(form, StreamKForm)
        own, other = (part_tiles, rest) if is_ranges else (rest, part_tiles)
        units = sym(names.part_units) if is_ranges else to_expr(form.units)
        start = other if form.first_tile else to_expr(0)
        forms.append(replace(form, tiles=own, panels=panels, units=units, first_tile=start))  # pyright: ignore[reportCallIssue, reportArgumentType]
    return Space(tuple(forms), bindings, sym(names.units))


def _k_aligned(schedule: KAligned, names: Names, tiles: Binding, panels: Expr) -> Space:
    """Full waves and a tail over names of their own; or whole tiles only."""
    tail, units = schedule.tail, sym(names.units)
    launch = Binding(names.units, to_expr(schedule.units))
    if tail is None:
        return Space((WholeTilesForm(sym(names.tiles), panels, units),), (tiles, launch), units)
    sizes = {"tiles": names.part_tiles, "layers": names.layers, "share": names.share}
    if tail.units != schedule.units:
        sizes["units"] = names.part_units
    if tail.chunks > 1:
        sizes |= {"chunks": names.chunks, "grain": names.grain}
    bindings = tuple(Binding(name, to_expr(getattr(tail, f))) for f, name in sizes.items())
    named = {"units": units} | {field: sym(name) for field, name in sizes.items()}
    if not tail.first_tile:
        form = replace(tail, panels=panels, **named)
        return Space((form,), (tiles, *bindings, launch), units)
    waves = Binding(names.waves, floordiv(sym(names.tiles), units))
    whole = sym(names.waves) * units
    form = replace(tail, panels=panels, first_tile=whole, **named)
    forms = WholeTilesForm(whole, panels, units), form
    return Space(forms, (tiles, *bindings, launch, waves), units, in_one_loop=True)
