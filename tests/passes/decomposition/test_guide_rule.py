"""The rule of thumb, by hand and against its formula in fractions."""

from fractions import Fraction
from math import ceil

import pytest

from passes.decomposition.guide_rule import guide_rule


@pytest.mark.parametrize(
    ("m", "n", "sms", "tiles", "splits"),
    [
        (2048, 2112, 132, 256, 3),  # one tile short of two an SM
        (2048, 2176, 132, 272, 1),
        (1536, 1536, 132, 144, 4),
        (128, 4096, 132, 32, 17),
        (256, 256, 132, 4, 32),  # 132 would be needed
        (1, 8192, 132, 64, 9),
        (0, 0, 132, 1, 32),
        (255, 255, 1, 1, 4),  # the guide counts whole tiles only
        (128, 256, 1, 2, 1),
    ],
)
def test_splits_by_hand(m, n, sms, tiles, splits):
    advice = guide_rule(m, n, sms=sms)
    assert (advice.tiles, advice.splits) == (tiles, splits)


def test_splits_agree_with_the_formula_in_fractions():
    for m in range(0, 5000, 173):
        for n in range(0, 5000, 191):
            for sms in (1, 60, 108, 132, 148):
                tiles = max(1, int(Fraction(m, 128))) * max(1, int(Fraction(n, 128)))
                splits = 1
                if Fraction(tiles, sms) < 2:
                    splits = min(32, ceil(Fraction(4 * sms, tiles)))
                assert guide_rule(m, n, sms=sms).splits == splits


@pytest.mark.parametrize(
    ("m", "n", "shapes"),
    [
        (8192, 8192, ((128, 128), (256, 128))),
        (512, 512, ((64, 64), (128, 64))),
        (4096, 1024, ((256, 64), (128, 64))),
        (1024, 4096, ((64, 256), (64, 128))),
        (4095, 1024, ((64, 64), (128, 64))),
    ],
)
def test_tile_shapes_follow_the_size_and_the_skew(m, n, shapes):
    assert guide_rule(m, n, sms=132).tile_shapes == shapes


@pytest.mark.parametrize("name", ["m", "n", "sms"])
@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_an_impossible_argument_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        guide_rule(**{"m": 1, "n": 1, "sms": 1, name: value})


def test_the_explanation_says_why():
    assert guide_rule(1536, 1536, sms=132).explain() == (
        "splits    4: 144 tiles < 2 * 132 SMs\ntiles     64x64, 128x64"
    )
