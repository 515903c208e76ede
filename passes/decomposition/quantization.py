"""Wave quantization: the rounds of blocks that a data-parallel launch takes, how full they are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Waves:
    """Rounds of at most `places` blocks: `count`, of which `full` are complete, with `last` blocks
    in the last one.

    utilization: the share of the places of all rounds that does work, 0 .. 1; 1 without a tile.
    """

    places: int
    count: int
    full: int
    last: int
    utilization: float


def waves(tiles: int, sms: int, blocks_per_sm: int = 1) -> Waves:
    """The waves of `tiles` equal tiles, a block each. ValueError: no place for a block, or a
    negative tile count."""
    if sms < 1 or blocks_per_sm < 1 or tiles < 0:
        given = f"{tiles}, {sms}, {blocks_per_sm}"
        raise ValueError(f"want tiles >= 0, sms >= 1, blocks_per_sm >= 1, not {given}")
    places = sms * blocks_per_sm
    if tiles == 0:
        return Waves(places, 0, 0, 0, 1.0)
    count = -(-tiles // places)
    last = tiles - (count - 1) * places
    return Waves(places, count, tiles // places, last, tiles / (count * places))
