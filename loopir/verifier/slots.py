"""A rule about workspaces whose slots are in fragment order."""

from collections.abc import Iterator

from loopir.boxes import meanings
from loopir.effects import access_of, buffers_read, buffers_written
from loopir.fragment_order import misfits, unfit
from loopir.types import ElementOrder
from loopir.verifier.context import Context, Finding
from loopir.walk import is_wave_loop


def slots_are_moved_in_blocks(ctx: Context) -> Iterator[Finding]:
    """A workspace in fragment order has slots of two sides, and only whole blocks of one are moved,
    by all warps of a block together."""
    found = (w.name for w in ctx.program.workspaces if w.order is ElementOrder.FRAGMENTS)
    ordered = frozenset(found)
    if not ordered:
        return
    sizes, values = meanings(ctx.program.kernels[0]), meanings(ctx.kernel)
    for i, workspace in enumerate(ctx.program.workspaces):
        if workspace.name in ordered and (why := unfit(workspace, sizes)):
            yield Finding(("workspaces", i), why, workspace.name)
    for site in ctx.sites:
        for name in sorted((buffers_read(site.stmt) | buffers_written(site.stmt)) & ordered):
            access = access_of(site.stmt)
            found = ("one element",) if access is None else misfits(access, values)
            yield from (Finding(site.path, f"`{name}`: {why}", name) for why in found)
            if any(is_wave_loop(s.stmt) for s in site.around):
                yield Finding(site.path, f"`{name}`: moved in a wave loop", name)
