"""SK20, SK21: that partial tiles can be kept, and folded, as the options ask."""

from collections.abc import Iterator

from passes.base import Refusal
from passes.stream_k.merges import pieces_of, why_rows
from passes.stream_k.nest import Nest
from passes.stream_k.options import Options, SlotLayout


def cut_as_asked(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK20"""
    if options.pieces is None or options.pieces == 1:
        return
    pieces = pieces_of(nest, options, None)
    if not pieces.cuts:
        rule = "a tile can be finished in as many pieces as are asked for"
        found, hint = f"pieces={options.pieces}: {pieces.why}", "leave pieces out"
        yield Refusal("SK20", rule, nest.reduce_path, found, hint)


def laid_out_as_asked(nest: Nest, options: Options) -> Iterator[Refusal]:
    """SK21"""
    if options.slot_layout is not SlotLayout.FRAGMENTS:
        return
    rule = "with slot-layout=fragments every accumulator can lie as fragments"
    hint = "say slot-layout=auto, which keeps such a one row by row"
    for tile, why in why_rows(nest, options.slot_layout).items():
        if why:
            yield Refusal("SK21", rule, nest.reduce_path, f"{tile}: {why}", hint, tile)
