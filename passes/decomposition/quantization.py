"""Wave quantization: the rounds of blocks that a data-parallel launch takes, how full they are."""

from dataclasses import dataclass

from passes.decomposition.arithmetic import check_size


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
    """The waves of `tiles` equal tiles, a block each. ValueError names an argument that is no int,
    no place for a block, or a negative tile count."""
    check_size("tiles", tiles, 0)
    check_size("sms", sms, 1)
    check_size("blocks_per_sm", blocks_per_sm, 1)
    places = sms * blocks_per_sm
    if tiles == 0:
        return Waves(places, 0, 0, 0, 1.0)
    count = -(-tiles // places)
    last = tiles - (count - 1) * places
    return Waves(places, count, tiles // places, last, tiles / (count * places))
