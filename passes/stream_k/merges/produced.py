"""The part of a tile's body that every contributor runs: up to the end of its panels."""

from dataclasses import replace

from loopir.nodes import AllOf, Body, Cmp, Cond, For, If, Negate, Reduce, Stmt
from loopir.symbols import to_expr
from loopir.walk import Path
from passes.stream_k.walk import Extent, Segment


def is_whole(segment: Segment) -> Cond:
    """Whether a segment is all of its tile."""
    starts = Cmp("==", segment.k0, to_expr(0))
    return AllOf((starts, Cmp("==", segment.k1, segment.form.panels)))


def split_body(body: Body, path: Path, segment: Segment, kept: Body, met: Body) -> Body:
    """`body`, whose reduce is at `path`, over the panels of `segment`.

    What follows the reduce runs for a whole tile only; else `kept` stands directly behind the
    panels, in every turn of wave loops around them, and `met` behind those loops, where the block
    meets others. Both are empty for a whole tile.
    """
    produced = _produced(body, path, segment, kept)
    if segment.extent is not Extent.EITHER or not met:
        return *produced, *met
    if len(path) == 1:
        last = produced[-1]
        assert isinstance(last, If)
        return *produced[:-1], replace(last, orelse=(*last.orelse, *met))
    return *produced, If(Negate(is_whole(segment)), met)


def _produced(body: Body, path: Path, segment: Segment, kept: Body) -> Body:
    at, *deeper = path
    assert isinstance(at, int)
    stmt, after = body[at], body[at + 1 :]
    if isinstance(stmt, Reduce):
        return *body[:at], panels_cut(stmt, segment), *_ending(after, segment, kept)
    assert isinstance(stmt, For)
    inner = replace(stmt, body=_produced(stmt.body, tuple(deeper[1:]), segment, kept))
    return *body[:at], inner, *_ending(after, segment, ())


def panels_cut(stmt: Reduce, segment: Segment) -> Stmt:
    """`stmt` over the panels of `segment`."""
    loop = stmt.body[0]
    assert isinstance(loop, For)
    return replace(stmt, body=(replace(loop, lo=segment.k0, hi=segment.k1),))


def _ending(after: Body, segment: Segment, kept: Body) -> Body:
    match segment.extent:
        case Extent.WHOLE:
            return after
        case Extent.PART:
            return kept
    return (If(is_whole(segment), after, kept),) if after or kept else ()
