"""Rules about loads and stores through tensor descriptors."""

from collections.abc import Iterator

from loopir.boxes import access_moved, meanings, misfits
from loopir.deps import exchanged
from loopir.nodes import Load, Store
from loopir.types import Via
from loopir.verifier.context import Context, Finding, Site
from loopir.walk import is_wave_loop


def described_tiles_are_boxes(ctx: Context) -> Iterator[Finding]:
    """What a descriptor moves is a box of its tensor (`loopir.boxes`), outside wave loops, which
    share a tile among the warps."""
    values = meanings(ctx.kernel) if any(_described(ctx)) else {}
    for site, move in _described(ctx):
        access = access_moved(move)
        for misfit in misfits(move, ctx.buffers.get(access.buffer), values):
            yield Finding(site.path, f"{misfit.found}: {misfit.need.value}", misfit.focus)
        if any(is_wave_loop(s.stmt) for s in site.around):
            yield Finding(site.path, "a descriptor in a wave loop", access.buffer)


def described_buffers_are_not_exchanged(ctx: Context) -> Iterator[Finding]:
    """A kernel does not both read and write, by any statement, what it moves through descriptors:
    those copies are in no order with other accesses of the kernel."""
    described = [(site, access_moved(move).buffer) for site, move in _described(ctx)]
    known = {p.name for p in ctx.kernel.params}
    if not described or any({a.a, a.b} - known for a in ctx.kernel.aliases):
        return  # what aliases name is a rule of its own
    both = exchanged(ctx.kernel)
    for site, name in described:
        if name in both:
            yield Finding(site.path, f"`{name}` is both read and written in this kernel", name)


def _described(ctx: Context) -> Iterator[tuple[Site, Load | Store]]:
    for site in ctx.sites:
        if isinstance(site.stmt, Load | Store) and site.stmt.via is Via.DESCRIPTOR:
            yield site, site.stmt
