"""Rules about names: their form, their uniqueness, their scopes."""

import re
from collections.abc import Iterable, Iterator

from loopir.effects import (
    access_of,
    condition_of,
    flags_of,
    scalars_read,
    tiles_read,
    tiles_written,
)
from loopir.nodes import Reduce
from loopir.stmt_text import is_rectangular
from loopir.symbols import RESERVED
from loopir.verifier.context import Context, Finding, NameKind, Site
from loopir.walk import Path, symbol_names

_WORDS = RESERVED | {"and", "or", "not", "inf"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def names_are_identifiers(ctx: Context) -> Iterator[Finding]:
    """A name is letters, digits and `_`, starts with a letter and is no word of the expressions.
    The axes of an access in short form, which have no text, are called `_0`, `_1`, ..."""
    if not _is_name(ctx.kernel.name):
        yield Finding(ctx.path, f"{ctx.kernel.name!r} cannot be a kernel's name", ctx.kernel.name)
    for name, made in ctx.definitions.items():
        if not _is_name(name):
            yield Finding(made[0].path, f"{name!r} cannot be a name", name)
    for site in ctx.sites:
        for name in sorted(_unmade(ctx, site)):
            if not _is_name(name):
                yield Finding(site.path, f"{name!r} cannot be a name", name)


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in _WORDS


def _unmade(ctx: Context, site: Site) -> set[str]:
    """Axis names and launch symbols, less the names that the short form of an access hides."""
    access = access_of(site.stmt)
    spelled = access.axes if access and not is_rectangular(access) else ()
    axes = {a.name for a in spelled}
    return axes | {n for n in scalars_read(site.stmt) if not ctx.is_made(n)}


def names_are_unique(ctx: Context) -> Iterator[Finding]:
    """A name is made once: by a parameter, a workspace, `where`, a statement or a loop. The axes of
    an access differ from each other and from every other name."""
    for name, (_, *others) in ctx.definitions.items():
        for again in others:
            yield Finding(again.path, f"`{name}` is made a second time", name)
    for site in ctx.sites:
        access = access_of(site.stmt)
        axes = [a.name for a in access.axes] if access else []
        for i, name in enumerate(axes):
            if name in axes[:i] or name in ctx.definitions:
                yield Finding(site.path, f"axis `{name}` has the name of something else", name)


def names_are_visible(ctx: Context) -> Iterator[Finding]:
    """A name is used behind its definition, inside the body that made it, as what it is. A symbol
    that nothing makes is a launch-time argument; a tile is always made by an `alloc`."""
    for i, workspace in enumerate(ctx.program.workspaces):
        yield from _scalars(ctx, ("workspaces", i), symbol_names(workspace))
    for i, param in enumerate(ctx.kernel.params):
        yield from _scalars(ctx, (*ctx.path, "params", i), symbol_names(param))
    for site in ctx.sites:
        yield from _scalars(ctx, site.path, scalars_read(site.stmt))
        yield from _tiles(ctx, site)


def _scalars(ctx: Context, path: Path, names: Iterable[str]) -> Iterator[Finding]:
    for name in sorted(names):
        seen = ctx.visible(name, path)
        if seen is None and ctx.is_made(name):
            yield Finding(path, f"`{name}` is not visible here", name)
        if seen is not None and seen.kind is not NameKind.SCALAR:
            yield Finding(path, f"`{name}` is {seen.kind.value}, not a scalar", name)


def _tiles(ctx: Context, site: Site) -> Iterator[Finding]:
    used = set(tiles_read(site.stmt) | tiles_written(site.stmt))
    if isinstance(site.stmt, Reduce):
        used |= {a.tile for a in site.stmt.accumulators}
    for name in sorted(used):
        seen = ctx.visible(name, site.path)
        if seen is None:
            state = "not visible here" if ctx.is_made(name) else "made by no `alloc`"
            yield Finding(site.path, f"tile `{name}` is {state}", name)
        elif seen.kind is not NameKind.TILE:
            yield Finding(site.path, f"`{name}` is {seen.kind.value}, not a tile", name)


def kernel_names_are_unique(ctx: Context) -> Iterator[Finding]:
    """The kernels of a program have different names."""
    names = [k.name for k in ctx.program.kernels]
    if names.index(ctx.kernel.name) < int(ctx.path[1]):
        yield Finding(ctx.path, f"a second kernel `{ctx.kernel.name}`", ctx.kernel.name)


def flags_come_from_arrive(ctx: Context) -> Iterator[Finding]:
    """A bare name in a condition is the flag of an `arrive` that is visible there."""
    for site in ctx.sites:
        cond = condition_of(site.stmt)
        for name in dict.fromkeys(flags_of(cond) if cond else ()):
            seen = ctx.visible(name, site.path)
            if seen is None:
                yield Finding(site.path, f"no flag `{name}` is visible here", name)
            elif seen.kind is not NameKind.FLAG:
                yield Finding(site.path, f"`{name}` is {seen.kind.value}, not a flag", name)
