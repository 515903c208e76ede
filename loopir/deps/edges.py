"""What a dependence is: which statement waits for which, on what, and across which loop."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import product

from loopir.walk import Path


class Kind(Enum):
    RAW = "raw"
    WAR = "war"
    WAW = "waw"


@dataclass(frozen=True)
class Edge:
    """`target` may not run before `source`. Paths lead from the kernel.

    `object`: the tile, scalar or flag, or, `in_memory`, the buffer that `source` accesses (`target`
    may access an alias). `carried_by`: the loop, wave, while or grid whose iterations the
    dependence crosses; None if it stays inside one. `must`: of a raw, nothing else can be what
    `target` reads. `untold`: of a statement and itself in memory, the tile axes and loop variables
    whose value cannot be told from the element accessed.
    """

    source: Path
    target: Path
    kind: Kind
    object: str
    carried_by: Path | None = None
    in_memory: bool = False
    must: bool = False
    untold: tuple[str, ...] = ()


def edges(
    kind: Kind,
    object: str,
    sources: Iterable[Path],
    targets: Iterable[Path],
    carried_by: Path | None = None,
) -> Iterator[Edge]:
    """An edge from each of `sources` to each of `targets`."""
    for source, target in product(sources, targets):
        yield Edge(source, target, kind, object, carried_by)
