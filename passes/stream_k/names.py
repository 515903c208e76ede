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
    "layers": "LAYERS",
    "chunks": "CHUNKS",
    "grain": "GRAIN",
    "waves": "WAVES",
    "units": "UNITS",
    "slots": "SLOTS",
    "counters": "COUNTERS",
    "row_pieces": "ROW_PIECES",
    "rows": "ROWS",
    "column_pieces": "COLUMN_PIECES",
    "columns": "COLUMNS",
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
    layers: str
    chunks: str
    grain: str
    waves: str
    units: str
    slots: str
    counters: str
    row_pieces: str
    rows: str
    column_pieces: str
    columns: str
    partials: str
    arrivals: str
    order: str
    block: str
    unit: str
    it: str
    it_end: str
    tile: str
    split: str
    layer: str
    rank: str
    crew: str
    start: str
    rest: str
    span: str
    top: str
    turn: str
    tail: str
    k0: str
    k1: str
    first: str
    parts: str
    last: str
    s: str
    row_piece: str
    column_piece: str

    @classmethod
    def of(cls, taken: Collection[str]) -> "Names":
        wanted = {f.name: _WANTED.get(f.name, f.name) for f in fields(cls)}
        return cls(**fresh_names(wanted, taken))

    def of_pieces(self, axis: int) -> tuple[str, str, str]:
        """Of a tile that is cut along an axis: the number of a piece, how many there are, and the
        size of one."""
        if axis == 0:
            return self.row_piece, self.row_pieces, self.rows
        return self.column_piece, self.column_pieces, self.columns
