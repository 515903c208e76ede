"""The names that tiling adds to a kernel: axes with their sizes and loops, and tiles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopir.effects import tiles_written
from loopir.nodes import Load, Store
from loopir.rename import fresh_name
from loopir.walk import names_in_use
from passes.tile.axes import Axis, make_axis
from passes.tile.contributions import Contributions, Way
from passes.tile.flow import Step
from passes.tile.groups import Axes, GroupKind, Groups, union
from passes.tile.nest import Nest

_SIZES = {GroupKind.M: "BM", GroupKind.N: "BN", GroupKind.K: "BK"}
_LOOPS = {GroupKind.M: "ti", GroupKind.N: "tj", GroupKind.K: "kp"}


@dataclass
class Names:
    """Names in use where the rewrite makes new ones. Indices that tiles run over, and lets that are
    put into the accesses, are gone by then."""

    taken: set[str]

    @classmethod
    def of(cls, nest: Nest, groups: Groups) -> "Names":
        taken = names_in_use(nest.program, nest.kernel)
        return cls(set(taken - groups.indices - nest.lets.keys()))

    def fresh(self, wanted: str) -> str:
        name = fresh_name(wanted, self.taken)
        self.taken.add(name)
        return name


def named_axes(
    nest: Nest, groups: Groups, widths: Mapping[GroupKind, int], names: Names
) -> dict[GroupKind, Axis]:
    return {
        group.kind: make_axis(
            nest,
            group,
            widths[group.kind],
            *(names.fresh(n) for n in (group.kind.value, _SIZES[group.kind], _LOOPS[group.kind])),
        )
        for group in groups.tiled
    }


def named_tiles(
    steps: tuple[Step, ...], found: Contributions, names: Names
) -> dict[tuple[str, Axes], str]:
    """A name for each tile of the result, by its scalar and its axes: the scalar's own for the
    first."""
    tiles: dict[tuple[str, Axes], str] = {}
    for scalar, axes in _tiles(steps, found):
        if (scalar, axes) in tiles:
            continue
        letters = "".join(kind.value for kind in axes) or "one"
        is_first = all(scalar != other for other, _ in tiles)
        tiles[scalar, axes] = scalar if is_first else names.fresh(f"{scalar}_{letters}")
    return tiles


def _tiles(steps: tuple[Step, ...], found: Contributions) -> Iterator[tuple[str, Axes]]:
    for step in steps:
        for scalar in tiles_written(step.stmt):
            yield scalar, step.target
        match step.stmt:
            case Load(tile):
                yield tile, step.axes
            case Store(_, tile):
                yield tile, step.axes
        if step.path in found.of and found.of[step.path].way is Way.SPREAD:
            update = found.of[step.path].update
            others = (axes for name, axes in step.reads.items() if name != update.acc)
            yield update.acc, union(*others, (GroupKind.K,))
