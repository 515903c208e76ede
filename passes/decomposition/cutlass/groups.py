"""One group of Stream-K units: which k tiles each unit has, how many units meet in a tile.

Tiles and units are counted in clusters: the blocks of a cluster share their k range and take one
tile of a cluster of tiles each.
"""

from dataclasses import dataclass

from passes.decomposition import bounds as cut
from passes.decomposition.bounds import Bounds

MIN_K_TILES = 8


@dataclass(frozen=True, slots=True)
class Group:
    """`units` units share `tiles` tiles of `k_tiles` each; the first units have one k tile more.

    k_tiles is above eight and a unit has eight or more, as the rule sees to."""

    tiles: int
    units: int
    k_tiles: int

    @property
    def total(self) -> int:
        return self.tiles * self.k_tiles

    def unit_range(self, unit: int) -> tuple[int, int]:
        """First k tile of `unit` in the group's flattened (tile, k), and one past its last. Empty
        if its neighbours have taken all."""
        low, high = cut.unit_range(Bounds.BIG_UNITS, unit, self.total, self.units)
        return self._adjusted(low), self._adjusted(high)

    def pieces(self, unit: int) -> list[tuple[int, int, int]]:
        """(tile, k0, k1) of each part of `unit`, in the order it computes them: backwards, so that
        it ends with the tile of which it holds the last k tiles."""
        low, high = self.unit_range(unit)
        if low == high:
            return []
        tiles = range((high - 1) // self.k_tiles, low // self.k_tiles - 1, -1)
        starts = ((tile, tile * self.k_tiles) for tile in tiles)
        return [(t, max(low - at, 0), min(high - at, self.k_tiles)) for t, at in starts]

    def contributors(self, tile: int) -> int:
        """How many units have a part of `tile`: the cuts that stay inside it, and one."""
        until_end = self._cuts_until((tile + 1) * self.k_tiles - MIN_K_TILES)
        return max(0, until_end - self._cuts_before_inner(tile)) + 1

    def ordinal(self, unit: int, tile: int, k0: int) -> int:
        """The place of `unit`, which has a part of `tile` from `k0`, among its contributors."""
        return unit - self._cuts_before_inner(tile) + 1 if k0 else 0

    def _cuts_before_inner(self, tile: int) -> int:
        return self._cuts_until(tile * self.k_tiles + MIN_K_TILES - 1)

    def _cuts_until(self, iteration: int) -> int:
        return cut.owner(Bounds.BIG_UNITS, iteration, self.total, self.units) + 1

    def _adjusted(self, iteration: int) -> int:
        """Nobody gets fewer than eight k tiles of a tile: such a cut moves to the tile's end. Both
        units at a cut move it alike."""
        into = iteration % self.k_tiles
        if 0 < into < MIN_K_TILES:
            return iteration - into
        if into > self.k_tiles - MIN_K_TILES:
            return iteration - into + self.k_tiles
        return iteration
