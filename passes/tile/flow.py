"""What each statement of a nest becomes: the axes of the values that it reads and writes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopir.effects import access_of, tiles_read, tiles_written
from loopir.nodes import Stmt
from loopir.walk import Path
from passes.tile.groups import Axes, Groups, union
from passes.tile.nest import Nest


@dataclass(frozen=True)
class Step:
    """A statement with the axes of the tiles it `reads`, by name, and its own `axes`: those of its
    access or its expression. `target`: those of the tile that it leaves its result in; of an
    accumulator, whatever it takes in, they are all that an output has."""

    path: Path
    stmt: Stmt
    reads: Mapping[str, Axes]
    axes: Axes
    target: Axes


def steps(nest: Nest, groups: Groups) -> tuple[Step, ...]:
    """Every statement of the nest, in text order."""
    return tuple(_steps(nest, groups))


def _steps(nest: Nest, groups: Groups) -> Iterator[Step]:
    env: dict[str, Axes] = {}
    for path, stmt in nest.statements:
        reads = {name: env.get(name, ()) for name in tiles_read(stmt)}
        axes = _axes(nest, groups, stmt, reads)
        target = axes
        for name in tiles_written(stmt):
            target = groups.of_output if name in nest.accumulators else axes
            env[name] = target
        yield Step(path, stmt, reads, axes, target)


def _axes(nest: Nest, groups: Groups, stmt: Stmt, reads: Mapping[str, Axes]) -> Axes:
    access = access_of(stmt)
    if access is not None:
        return groups.axes_of(nest.indices_of(access.index))
    return union(*reads.values())
