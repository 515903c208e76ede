"""The names that the rewrite adds to a kernel."""

from collections.abc import Collection
from dataclasses import dataclass, fields

from loopir.rename import fresh_names

_WANTED = {
    "tiles": "TILES",
    "part_tiles": "SK_TILES",
    "total": "TOTAL",
    "part_units": "SK_UNITS",
    "splits": "SPLITS",
    "share": "SHARE",
    "units": "UNITS",
    "slots": "SLOTS",
    "counters": "COUNTERS",
}


@dataclass(frozen=True)
class Names:
    """Sizes of the `where` clause in capitals, scalars of the walk; none of them in use in the
    kernel. Only those that a schedule needs are made."""

    tiles: str
    part_tiles: str
    total: str
    part_units: str
    splits: str
    share: str
    units: str
    slots: str
    counters: str
    partials: str
    arrivals: str
    order: str
    block: str
    unit: str
    it: str
    it_end: str
    tile: str
    split: str
    k0: str
    k1: str
    first: str
    parts: str
    last: str
    s: str

    @classmethod
    def of(cls, taken: Collection[str]) -> "Names":
        wanted = {f.name: _WANTED.get(f.name, f.name) for f in fields(cls)}
        return cls(**fresh_names(wanted, taken))
