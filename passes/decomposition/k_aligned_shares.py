"""How the tail of a k-aligned schedule is cut: the shares that leave the busiest unit least to
do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from passes.decomposition.arithmetic import ceildiv

MOST_CHUNKS = 8


@dataclass(frozen=True, slots=True)
class Shares:
    """`layers` parts of `share` panels a tile, `cost` more in the first; then the ends, by `enders`
    units, in `chunks` chunks of `grain` panels each. No layer: the tiles are not split."""

    layers: int
    share: int
    cost: int
    enders: int
    chunks: int
    grain: int

    @property
    def owned(self) -> int:
        """Panels of an owner; no other part is heavier, at `cost` panels a part."""
        return self.share + self.cost


def shares(tiles: int, panels: int, units: int, cost: int, min_panels: int) -> Shares:
    """The cut of `tiles` <= `units` tiles that leaves an owner least; of equals the one of fewest
    parts. A part has `min_panels` panels or more, unless a tile has fewer."""
    whole = Shares(0, panels, 0, tiles, 1, panels)
    found = [whole, _even(tiles, panels, units // tiles, cost, min_panels)]
    if units % tiles and units > tiles:
        found += _with_shared_ends(tiles, panels, units, cost, min_panels)
    return min((s for s in found if s is not None), key=lambda s: s.owned)


def _even(tiles: int, panels: int, parts: int, cost: int, min_panels: int) -> Shares | None:
    """Up to `parts` parts a tile, each by a unit of its own."""
    rest = panels - cost
    while parts > 1:
        share = max(ceildiv(rest, parts), min_panels)
        parts = ceildiv(rest, share)
        end = rest - (parts - 1) * share
        if parts > 1 and end >= min_panels:
            return Shares(parts - 1, share, cost, tiles, 1, end)
        parts -= 1
    return None


def _with_shared_ends(
    tiles: int, panels: int, units: int, cost: int, min_panels: int
) -> Iterator[Shares]:
    """A full layer as often as the units allow, the ends by the units that are left; chunks from
    whole ends down to panels."""
    layers, enders = divmod(units, tiles)
    rest = panels - cost
    for wanted in (*range(1, MOST_CHUNKS + 1), rest):

        def fits(share: int, wanted: int = wanted) -> bool:
            end = rest - layers * share
            chunks = _chunks(end, wanted)
            return _heaviest(tiles, end, chunks, enders, cost) <= share + cost

        share = _least(fits, min_panels, (rest - 1) // layers)
        if share is None:
            continue
        end = rest - layers * share
        chunks = _chunks(end, wanted)
        grain = ceildiv(end, chunks)
        if end - (chunks - 1) * grain >= min_panels:
            yield Shares(layers, share, cost, enders, chunks, grain)


def _chunks(end: int, wanted: int) -> int:
    """Chunks of equal size, at most `wanted`, none of which is empty."""
    return ceildiv(end, ceildiv(end, wanted))


def _heaviest(tiles: int, end: int, chunks: int, enders: int, cost: int) -> int:
    """The most panels of one of `enders` units, and `cost` for each tile that it touches."""
    most = ceildiv(tiles * chunks, enders)
    touched = (most + chunks - 2) // chunks + 1
    return most * ceildiv(end, chunks) + touched * cost


def _least(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least number from `low` to `high` that fits, if all above one that fits do."""
    if low > high or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
