"""Which indices a tile runs over: groups m, n and k, each flattened to one axis."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from loopir.nodes import For
from loopir.symbols import Expr
from passes.tile.nest import Nest


class GroupKind(Enum):
    """In the order that a tile has its axes, so that [m, k] by [k, n] is a dot."""

    M = "m"
    K = "k"
    N = "n"


Axes: TypeAlias = tuple[GroupKind, ...]


def union(*parts: Axes) -> Axes:
    """All axes that occur in `parts`, in the order of a tile's axes."""
    used = frozenset().union(*parts)
    return tuple(kind for kind in GroupKind if kind in used)


@dataclass(frozen=True)
class Group:
    """Indices that one axis of the tiles runs over, row-major in loop order. `units`: more indices,
    which are always 0."""

    kind: GroupKind
    indices: tuple[str, ...]
    extents: tuple[Expr, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class Groups:
    """`kept`: the loops of the band that stay loops, over one index value at a time."""

    tiled: tuple[Group, ...]
    kept: tuple[For, ...]

    @property
    def kinds(self) -> Axes:
        return tuple(group.kind for group in self.tiled)

    @property
    def of_output(self) -> Axes:
        """The axes of an accumulator."""
        return tuple(kind for kind in self.kinds if kind is not GroupKind.K)

    @property
    def indices(self) -> frozenset[str]:
        """The variables that tiles run over."""
        return frozenset().union(*((*group.indices, *group.units) for group in self.tiled))

    def axes_of(self, indices: frozenset[str]) -> Axes:
        """The axes of what depends on `indices`."""
        return tuple(g.kind for g in self.tiled if not indices.isdisjoint(g.indices))


def find_groups(nest: Nest) -> Groups:
    """Group k is the summed indices. Those of the band go by which loads inside the Reduce use
    them: what all loads use is a batch, and stays a loop, if anything else is used by some only;
    the first other kind, in band order, is group m, the second group n, and the rest stay loops."""
    signatures, everywhere = nest.signatures(), nest.whole_signature
    distinct = list(dict.fromkeys(signatures.values()))
    wanted = [s for s in distinct if len(distinct) == 1 or s != everywhere][:2]
    band = tuple(loop for _, loop in nest.band)
    found = {GroupKind.K: tuple(loop for _, loop in nest.loops)}
    for kind, signature in zip((GroupKind.M, GroupKind.N), wanted, strict=False):
        found[kind] = tuple(loop for loop in band if signatures[loop.iv] == signature)
    tiled = tuple(_group(nest, kind, found[kind]) for kind in GroupKind if kind in found)
    return Groups(tiled, tuple(loop for loop in band if signatures[loop.iv] not in wanted))


def _group(nest: Nest, kind: GroupKind, loops: tuple[For, ...]) -> Group:
    extents = {loop.iv: nest.resolved(loop.hi) for loop in loops}
    own = {iv: e for iv, e in extents.items() if e != 1} or dict([*extents.items()][:1])
    units = tuple(iv for iv in extents if iv not in own)
    return Group(kind, tuple(own), tuple(own.values()), units)
