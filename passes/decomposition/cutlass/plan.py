"""What the rule decided, with every figure on the way, and what each block then does.

Source: `sm90_tile_scheduler_stream_k.hpp`, written from a description of it.
"""

from collections import Counter
from dataclasses import dataclass

from passes.decomposition.cutlass.explain import explain
from passes.decomposition.cutlass.geometry import Geometry
from passes.decomposition.cutlass.groups import Group
from passes.decomposition.cutlass.modes import Mode, Reason
from passes.decomposition.schedule import Segment


@dataclass(frozen=True, slots=True)
class CutlassPlan:
    """A decision of the rule.

    mode: never HEURISTIC. splits: blocks a tile in mode SPLIT_K, else 1. sk_tiles, sk_units: as the
    rule computed them, also where it then chose another mode than STREAM_K. groups: of the units.
    big_groups: the first groups, which have a cluster of tiles more. k_tiles_per_unit, big_units:
    the share of a unit, and how many (clusters of) units or splits have one more; in STREAM_K of a
    group that is not big. reduction_bytes, barrier_bytes: the parts of the workspace, each rounded
    up to 128 bytes; only the barriers must be zero at the launch.
    """

    geometry: Geometry
    mode: Mode
    reason: Reason
    splits: int
    sk_tiles: int
    sk_units: int
    groups: int
    big_groups: int
    k_tiles_per_unit: int
    big_units: int
    reduction_bytes: int
    barrier_bytes: int

    @property
    def workspace_bytes(self) -> int:
        return self.reduction_bytes + self.barrier_bytes

    @property
    def split_tiles(self) -> int:
        """The first tiles, which blocks share, though Stream-K may leave some of them whole."""
        match self.mode:
            case Mode.STREAM_K:
                return self.sk_tiles
            case Mode.SPLIT_K:
                return self.geometry.tiles if self.splits > 1 else 0
            case _:
                return 0

    @property
    def whole_tiles(self) -> int:
        """Tiles that one block computes alone."""
        return self.geometry.tiles - self.split_tiles

    @property
    def shares(self) -> int:
        """Linear work indices of split tiles; those of whole tiles follow."""
        return self.sk_units if self.mode is Mode.STREAM_K else self.split_tiles * self.splits

    def work(self, block: int, with_whole_tiles: bool = True) -> tuple[Segment, ...]:
        """The segments of `block` in the order it computes them; tiles are CUTLASS's linear tile
        indices, phantoms included. IndexError: the grid has no such block."""
        wave, shares = self.geometry.wave, self.shares
        if not 0 <= block < wave:
            raise IndexError(f"block {block} of {wave}")
        segments: list[Segment] = []
        for index in range(block, shares, wave):
            found = self._share(index, block)
            if not found:  # a block stops at a unit whose neighbours took all of its k tiles
                return ()
            segments += found
        if with_whole_tiles:
            first = self.split_tiles + (block - shares) % wave
            k_tiles = self.geometry.k_tiles
            tiles = range(first, self.geometry.tiles, wave)
            segments += [Segment(block, t, 0, k_tiles, slot=0, contributors=1) for t in tiles]
        return tuple(segments)

    def loads(self, with_whole_tiles: bool = True) -> tuple[int, ...]:
        """k tiles of each block of the grid."""
        wave, shares = self.geometry.wave, self.shares
        whole = self.whole_tiles if with_whole_tiles else 0
        loads = [self.geometry.k_tiles * n for n in _visits(shares, whole, wave)]
        if self.mode is Mode.STREAM_K:
            for index in range(shares):
                low, high = self._unit_range(index)
                loads[index] += high - low
            return tuple(loads)
        slices = _visits(0, shares, wave)
        longer = _visits(0, self.split_tiles * self.big_units, wave)
        rows = zip(loads, slices, longer, strict=True)
        return tuple(load + self.k_tiles_per_unit * n + extra for load, n, extra in rows)

    @property
    def busiest(self) -> int:
        """k tiles of the block that has most."""
        return max(self.loads())

    @property
    def ideal(self) -> int:
        """k tiles of the busiest block if all could be shared evenly, but never fewer than eight
        a block."""
        total = self.geometry.tiles * self.geometry.k_tiles
        return max(8, -(-total // self.geometry.wave))

    def contributors(self, tile: int) -> int:
        """How many blocks have a part of `tile`. IndexError: no such tile."""
        if not 0 <= tile < self.geometry.tiles:
            raise IndexError(f"tile {tile} of {self.geometry.tiles}")
        if tile >= self.split_tiles:
            return 1
        if self.mode is not Mode.STREAM_K:
            return self.splits
        in_group, group = divmod(tile // self.geometry.cluster_size, self.groups)
        return self.group(group).contributors(in_group)

    def peers(self) -> tuple[tuple[int, int], ...]:
        """Pairs (contributors, tiles that have so many), ascending."""
        if self.mode is not Mode.STREAM_K:
            return ((self.splits, self.geometry.tiles),)
        counts = Counter(map(self.contributors, range(self.sk_tiles)))
        counts[1] += self.geometry.tiles - self.sk_tiles
        return tuple(sorted(item for item in counts.items() if item[1]))

    def explain(self) -> str:
        """The figures, one line each, from the tiles to the workspace."""
        return explain(self)

    def group(self, group: int) -> Group:
        """The tiles and units of one group, in clusters."""
        size = self.geometry.cluster_size
        tiles = self.sk_tiles // size // self.groups + (group < self.big_groups)
        return Group(tiles, self.sk_units // size // self.groups, self.geometry.k_tiles)

    def _share(self, index: int, block: int) -> list[Segment]:
        if self.mode is Mode.STREAM_K:
            return self._stream_k_segments(index, block)
        split, tile = divmod(index, self.geometry.tiles)
        k0 = self.k_tiles_per_unit * split + min(split, self.big_units)
        k1 = k0 + self.k_tiles_per_unit + (split < self.big_units)
        return [Segment(block, tile, k0, k1, slot=split, contributors=self.splits)]

    def _stream_k_segments(self, index: int, block: int) -> list[Segment]:
        size = self.geometry.cluster_size
        cluster, rank = divmod(index, size)
        unit, number = divmod(cluster, self.groups)
        group = self.group(number)
        return [
            Segment(
                block,
                (tile * self.groups + number) * size + rank,
                k0,
                k1,
                slot=group.ordinal(unit, tile, k0),
                contributors=group.contributors(tile),
            )
            for tile, k0, k1 in group.pieces(unit)
        ]

    def _unit_range(self, index: int) -> tuple[int, int]:
        unit, number = divmod(index // self.geometry.cluster_size, self.groups)
        return self.group(number).unit_range(unit)


def _visits(first: int, count: int, wave: int) -> list[int]:
    """For each block, how many of `count` linear indices from `first` on it has."""
    every, more = divmod(count, wave)
    return [every + ((block - first) % wave < more) for block in range(wave)]
