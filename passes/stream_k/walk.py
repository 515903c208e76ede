"""How a unit walks its part of the (tile x panel) space: one function a closed form, or more that
share a loop.

Each gives the statements that name a segment (`tile`, `k0`, `k1`) and run it; what a segment does
is the caller's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from loopir.nodes import Body, Cmp, For, Let, Set, While
from loopir.symbols import Expr, floordiv, imax, imin, mod, sym, to_expr, try_evaluate
from passes.decomposition import (
    ClosedForm,
    Direction,
    KAlignedForm,
    SplitKForm,
    StreamKForm,
    WholeTilesForm,
    unit_range,
)
from passes.stream_k.names import Names


class Extent(Enum):
    """Whether a segment is all of its tile."""

    WHOLE = "whole"
    PART = "part"
    EITHER = "either"


@dataclass(frozen=True)
class Segment:
    """Panels k0 .. k1 of a tile, in the names of the walk around. `form`: tells who else meets in
    the tile."""

    tile: Expr
    k0: Expr
    k1: Expr
    extent: Extent
    form: ClosedForm


RunSegment: TypeAlias = Callable[[Segment], Body]


def walk(
    forms: tuple[ClosedForm, ...], names: Names, constants: dict[str, int], run: RunSegment
) -> Body:
    """The statements with which unit `names.unit` computes its segments of `forms`, in one loop.
    `constants`: names of the `where` clause that have a compile-time value."""
    match forms:
        case (StreamKForm() as form,):
            return _ranges(form, names, run)
        case (SplitKForm() as form,):
            return _slices(form, names, constants, run)
        case (WholeTilesForm() as form,):
            return _whole_tiles(form, names, constants, run)
        case (*before, KAlignedForm() as form):
            return _k_aligned(form, bool(before), names, run)
    raise TypeError(f"no walk of {', '.join(type(form).__name__ for form in forms)}")


def _ranges(form: StreamKForm, names: Names, run: RunSegment) -> Body:
    """One range of iterations, from its start up, or from its end down."""
    it, it_end, unit = sym(names.it), sym(names.it_end), sym(names.unit)
    low, high = unit_range(form.bounds, unit, sym(names.total), form.units)
    skipped = form.first_tile * form.panels
    up = form.direction is Direction.FORWARD
    segment = _segment_from_start(form, names, run) if up else _segment_from_end(form, names, run)
    return (
        Let(names.it, skipped + low),
        Let(names.it_end, skipped + high),
        While(Cmp("<", it, it_end), segment),
    )


def _segment_from_start(form: StreamKForm, names: Names, run: RunSegment) -> Body:
    panels, it, tile = form.panels, sym(names.it), sym(names.tile)
    segment = _segment(form, names, Extent.EITHER)
    return (
        Let(names.tile, floordiv(it, panels)),
        Let(names.k0, mod(it, panels)),
        Let(names.k1, imin(sym(names.it_end) - tile * panels, panels)),
        *run(segment),
        Set(names.it, tile * panels + segment.k1),
    )


def _segment_from_end(form: StreamKForm, names: Names, run: RunSegment) -> Body:
    panels, it_end, tile = form.panels, sym(names.it_end), sym(names.tile)
    segment = _segment(form, names, Extent.EITHER)
    return (
        Let(names.tile, floordiv(it_end - 1, panels)),
        Let(names.k0, imax(sym(names.it) - tile * panels, 0)),
        Let(names.k1, it_end - tile * panels),
        *run(segment),
        Set(names.it_end, tile * panels + segment.k0),
    )


def _segment(form: ClosedForm, names: Names, extent: Extent) -> Segment:
    return Segment(sym(names.tile), sym(names.k0), sym(names.k1), extent, form)


def _slices(form: SplitKForm, names: Names, constants: dict[str, int], run: RunSegment) -> Body:
    """One slice of one tile; the last of a tile ends with it."""
    unit, share, k0 = sym(names.unit), sym(names.share), sym(names.k0)
    splits, size = constants.get(names.splits), constants.get(names.share)
    panels = try_evaluate(form.panels, constants)
    is_even = None not in (splits, size, panels) and splits * size == panels  # pyright: ignore
    end = k0 + share if is_even else imin(k0 + share, form.panels)
    extent = Extent.EITHER if splits is None else Extent.WHOLE if splits == 1 else Extent.PART
    return (
        Let(names.tile, form.tile(unit)),
        Let(names.split, form.split(unit)),
        Let(names.k0, sym(names.split) * share),
        Let(names.k1, end),
        *run(_segment(form, names, extent)),
    )


def _whole_tiles(
    form: WholeTilesForm, names: Names, constants: dict[str, int], run: RunSegment
) -> Body:
    """Tiles `unit`, `unit + units`, ...: one where there are as many units as tiles."""
    start, end = form.first_tile + sym(names.unit), form.first_tile + form.tiles
    segment = Segment(sym(names.tile), to_expr(0), form.panels, Extent.WHOLE, form)
    if form.units == form.tiles:
        return Let(names.tile, start), *run(segment)
    units = try_evaluate(form.units, constants)
    if units:  # a step of 0, where there is no tile, is no step
        return (For(names.tile, start, end, form.units, run(segment)),)
    it = sym(names.it)
    turn = Let(names.tile, it), *run(segment), Set(names.it, it + form.units)
    return Let(names.it, start), While(Cmp("<", it, end), turn)


def _k_aligned(form: KAlignedForm, has_waves: bool, names: Names, run: RunSegment) -> Body:
    """Tiles `unit`, `unit + units`, ... of the full waves, whole, then what the unit has of the
    tail, from its last tile down: `it` .. `it_end` in the row of its layer, where a tile has `span`
    panels."""
    layer, start, rest, span = map(sym, (names.layer, names.start, names.rest, names.span))
    low, high = form.row(sym(names.rank), sym(names.crew), span)
    tail_turns = sym(names.top) - floordiv(sym(names.it), span) + 1
    if form.units != sym(names.units):  # some units have nothing of the tail
        tail_turns *= 1 - imin(floordiv(sym(names.unit), form.units), 1)
    turns = tail_turns + (sym(names.waves) if has_waves else 0)
    return (
        Let(names.layer, form.layer(sym(names.unit))),
        Let(names.rank, sym(names.unit) - layer * form.tiles),
        Let(names.crew, form.crew(layer)),
        Let(names.start, form.start(layer)),
        Let(names.rest, form.after(layer)),
        Let(names.span, form.panels - start - rest),
        Let(names.it, low),
        Let(names.it_end, high),
        Let(names.top, floordiv(sym(names.it_end) - 1, span)),
        For(names.turn, to_expr(0), turns, to_expr(1), _turn(form, has_waves, names, run)),
    )


def _turn(form: KAlignedForm, has_waves: bool, names: Names, run: RunSegment) -> Body:
    """One tile. The outermost `min` and `max` of the lets change nothing: they show a backend that
    the tile and its panels exist, and that there is one at least."""
    start, rest, span, turn = map(sym, (names.start, names.rest, names.span, names.turn))
    whole, tile, k0 = form.first_tile, sym(names.tile), sym(names.k0)
    numbers, tail = (whole + sym(names.top) - turn,), to_expr(1)
    if has_waves:
        # in a wave the second is beyond all waves, in the tail the first is beyond the tile
        tail = sym(names.tail)
        of_wave = turn * sym(names.units) + sym(names.unit)
        numbers = of_wave, numbers[0] + sym(names.waves)
    before = imax(sym(names.it) - (tile - whole) * span, 0)
    behind = imax(form.panels - start - sym(names.it_end) + (tile - whole) * span, rest)
    extent = Extent.EITHER if has_waves else Extent.PART
    return (
        Let(names.tile, imax(imin(*numbers, whole + form.tiles - 1), 0)),
        *((Let(names.tail, imin(floordiv(tile, whole), 1)),) if has_waves else ()),
        Let(names.k0, imin(tail * (start + before), form.panels - 1)),
        Let(names.k1, k0 + imax(form.panels - k0 - tail * behind, 1)),
        *run(_segment(form, names, extent)),
    )
