"""The closed form of the tail of a k-aligned schedule: who computes which part, from which k on."""

from dataclasses import dataclass

from passes.decomposition.arithmetic import Num, floordiv, least, mod, most
from passes.decomposition.closed_form import Direction


@dataclass(frozen=True)
class KAlignedForm:
    """Layers of parts over `tiles` tiles, with all parts of a layer at the same k.

    In layer 0 one unit a tile, its owner, computes panels 0 .. share + cost. In each of the layers
    1 .. layers - 1 one helper a tile computes the next `share`. What is left, the ends of the
    tiles, is dealt to the other units, at most one a tile: an end is cut into `chunks` chunks of
    `grain` panels, the last shorter, and each of these units takes a range of the row of all
    chunks. It computes its tiles from the last one down, so that it begins with the start of an
    end, as the others do.

    Wants layers >= 1; layers * tiles < units <= (layers + 1) * tiles; ends of a panel or more; and
    no empty chunk. Fields and arguments are ints or index expressions, as of the other forms.
    """

    tiles: Num
    panels: Num
    units: Num
    layers: Num
    share: Num
    cost: Num
    chunks: Num
    grain: Num
    first_tile: Num = 0
    direction: Direction = Direction.BACKWARD

    def turns(self, unit: Num) -> Num:
        _, span, low, high = self._row(unit)
        return floordiv(high - 1, span) - floordiv(low, span) + 1

    def iterations(self, unit: Num, turn: Num) -> tuple[Num, Num]:
        start, span, low, high = self._row(unit)
        tile = floordiv(high - 1, span) - turn
        k0 = start + most(low - tile * span, 0)
        k1 = start + least(high - tile * span, span)
        first = (self.first_tile + tile) * self.panels
        return first + k0, first + k1

    def owner(self, iteration: Num) -> Num:
        tile = floordiv(iteration, self.panels) - self.first_tile
        k = mod(iteration, self.panels)
        layer = least(floordiv(most(k - self.cost, 0), self.share), self.layers)
        chunk = floordiv(most(k - self.start(self.layers), 0), self.grain)
        # a helper of the ends has no higher number than the owner of its tile would have there
        return least(layer * self.tiles + tile, self._ender(tile, chunk))

    def contributors(self, tile: Num) -> Num:
        tile = self.counter(tile)
        return self.layers + self._ender(tile, self.chunks - 1) - self._ender(tile, 0) + 1

    def slot(self, unit: Num, tile: Num) -> Num:
        ordinal = most(unit - self._ender(self.counter(tile), 0), 0)
        return self.layer(unit) + ordinal

    def slot_base(self, tile: Num) -> Num:
        """A slot for each layer and one for an end, and one for each helper that ends an end before
        that of `tile`, which is what its tile has beyond."""
        tile = self.counter(tile)
        helpers = self._ender(tile, 0) - self.layers * self.tiles
        return tile * (self.layers + 1) + helpers

    @property
    def slot_count(self) -> Num:
        return self.tiles + self.units - 1

    def counter(self, tile: Num) -> Num:
        """The number of a tile in the tail; 0 of the tiles before it."""
        return most(tile - self.first_tile, 0) if self.first_tile != 0 else tile

    @property
    def counter_count(self) -> Num:
        return self.tiles

    # --- layers

    def layer(self, unit: Num) -> Num:
        """That of the parts of `unit`; the ends are layer `layers`."""
        return least(floordiv(unit, self.tiles), self.layers)

    def start(self, layer: Num) -> Num:
        """The panel at which the parts of a layer start."""
        return layer * self.share + least(layer, 1) * self.cost

    def after(self, layer: Num) -> Num:
        """Panels of a tile behind those of a layer."""
        return most(self.panels - (layer + 1) * self.share - self.cost, 0)

    def crew(self, layer: Num) -> Num:
        """How many units a layer has."""
        return least(self.units - layer * self.tiles, self.tiles)

    def row(self, rank: Num, crew: Num, span: Num) -> tuple[Num, Num]:
        """The range of the unit `rank` of `crew` in the row of their layer, where each tile has
        `span` panels."""
        return self._cut(rank, crew, span), self._cut(rank + 1, crew, span)

    def _row(self, unit: Num) -> tuple[Num, Num, Num, Num]:
        layer = self.layer(unit)
        start = self.start(layer)
        span = self.panels - self.after(layer) - start
        return start, span, *self.row(unit - layer * self.tiles, self.crew(layer), span)

    def _cut(self, rank: Num, crew: Num, span: Num) -> Num:
        """Where the range of the unit `rank` of `crew` begins; in a layer of one unit a tile, at a
        tile."""
        chunk = floordiv(rank * self.tiles * self.chunks, crew)
        return floordiv(chunk, self.chunks) * span + mod(chunk, self.chunks) * self.grain

    def _ender(self, tile: Num, chunk: Num) -> Num:
        """The unit that computes a chunk of the end of a tile, both counted from 0."""
        before = self.layers * self.tiles
        position = tile * self.chunks + chunk
        chunks = self.tiles * self.chunks
        return before + floordiv((position + 1) * (self.units - before) - 1, chunks)
