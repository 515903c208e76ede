"""A vendor guide's rules of thumb for split-K and tile shapes, to compare a decision with."""

from dataclasses import dataclass

from passes.decomposition.arithmetic import check_size

GUIDE_TILE = 128
WAVES_ENOUGH = 2
WAVES_AIMED_AT = 4
MOST_SPLITS = 32
SKEWED = 4

LARGE_SHAPES = ((128, 128), (256, 128))
SMALL_SHAPES = ((64, 64), (128, 64))
TALL_SHAPES = ((256, 64), (128, 64))
WIDE_SHAPES = ((64, 256), (64, 128))


@dataclass(frozen=True, slots=True)
class GuideAdvice:
    """tiles: as the guide counts them, whole tiles of 128 x 128, at least one each way. splits: of
    K. tile_shapes: (m, n) to try, in elements."""

    tiles: int
    sms: int
    splits: int
    tile_shapes: tuple[tuple[int, int], ...]

    def explain(self) -> str:
        """The figures of the split, and the shapes, in two lines."""
        enough = self.tiles >= WAVES_ENOUGH * self.sms
        test = f"{'>=' if enough else '<'} {WAVES_ENOUGH} * {self.sms} SMs"
        shapes = ", ".join(f"{m}x{n}" for m, n in self.tile_shapes)
        return f"splits    {self.splits}: {self.tiles} tiles {test}\ntiles     {shapes}"


def guide_rule(m: int, n: int, *, sms: int) -> GuideAdvice:
    """The advice for an m x n output on `sms` SMs; K has no say in it.

    Splits: one if there are two tiles an SM, else what makes four blocks an SM, at most 32. Shapes:
    the guide gives no bounds for "M much larger than N", here four times, nor for "large", here the
    two tiles an SM. ValueError names an argument that is impossible."""
    check_size("m", m, 0)
    check_size("n", n, 0)
    check_size("sms", sms, 1)
    tiles = max(1, m // GUIDE_TILE) * max(1, n // GUIDE_TILE)
    enough = tiles >= WAVES_ENOUGH * sms
    splits = 1 if enough else min(MOST_SPLITS, -(-WAVES_AIMED_AT * sms // tiles))
    return GuideAdvice(tiles, sms, splits, _shapes(m, n, enough))


def _shapes(m: int, n: int, large: bool) -> tuple[tuple[int, int], ...]:
    if m >= SKEWED * n:
        return TALL_SHAPES
    if n >= SKEWED * m:
        return WIDE_SHAPES
    return LARGE_SHAPES if large else SMALL_SHAPES
