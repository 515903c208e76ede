"""Waves against the published table, and the figures of a schedule against a count by hand."""

import json
from pathlib import Path

import pytest

from passes.decomposition import (
    Bounds,
    DataParallel,
    Hybrid,
    Permuted,
    SplitK,
    StreamK,
    Waves,
    summary,
    waves,
)

TABLE = json.loads((Path(__file__).parent / "wave_quantization.json").read_text())["rows"]


@pytest.mark.parametrize("row", TABLE, ids=lambda r: f"{r['m']}x{r['n']} {r['gpu']}")
def test_waves_agree_with_the_published_table(row):
    tile_m, tile_n = row["tile"]
    tiles = -(-row["m"] // tile_m) * -(-row["n"] // tile_n)
    found = waves(tiles, row["sms"])
    assert (tiles, found.count, found.last) == (row["tiles"], row["waves"], row["last_wave"])
    assert round(100 * found.utilization, 1) == row["utilization_pct"]


def test_several_blocks_an_sm_make_larger_waves():
    assert waves(300, sms=100, blocks_per_sm=2) == Waves(200, 2, 1, 100, 0.75)


def test_a_full_last_wave_has_utilization_one():
    assert waves(264, sms=132) == Waves(132, 2, 2, 132, 1.0)


def test_no_tile_takes_no_wave():
    assert waves(0, sms=132) == Waves(132, 0, 0, 0, 1.0)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [((1, 0), "sms"), ((1, 4, 0), "blocks_per_sm"), ((-1, 4), "tiles"), ((1, 2.0), "sms")],
)
def test_impossible_sizes_are_refused_by_name(sizes, name):
    with pytest.raises(ValueError, match=f"^{name}: an int >= "):
        waves(*sizes)


def test_the_summary_counts_shares_and_contributors():
    s = summary(StreamK(tiles=9, panels=32, units=4), sms=4)
    assert (s.tiles, s.panels, s.total, s.units) == (9, 32, 288, 4)
    assert (s.panels_per_unit_min, s.panels_per_unit_max, s.load_ratio) == (72, 72, 1.0)
    assert (s.split_tiles, s.contributors, s.contributors_max) == (3, ((1, 6), (2, 3)), 2)
    assert s.data_parallel == Waves(4, 3, 2, 1, 0.75)


def test_ceil_bounds_show_in_the_load_ratio():
    s = summary(StreamK(2, 5, 4, Bounds.CEIL))
    assert (s.panels_per_unit_min, s.panels_per_unit_max) == (1, 3)
    assert s.load_ratio == pytest.approx(3 / 2.5)


def test_the_waves_of_a_summary_are_of_the_device_if_it_is_named():
    assert summary(StreamK(144, 64, 132)).data_parallel.places == 132
    assert summary(StreamK(144, 64, 264), sms=132, blocks_per_sm=2).data_parallel.places == 264
    with pytest.raises(ValueError, match="sms: an int >= 1"):
        summary(StreamK(144, 64, 132), sms=0)


def test_the_summary_of_data_parallel_has_no_split_tile():
    s = summary(DataParallel(144, 64), sms=132)
    assert (s.split_tiles, s.contributors, s.contributors_max) == (0, ((1, 144),), 1)


@pytest.mark.parametrize(("tiles", "panels"), [(0, 4), (4, 0)])
def test_the_summary_of_an_empty_launch_is_all_zero(tiles, panels):
    s = summary(StreamK(tiles, panels, 8))
    assert (s.units, s.total, s.panels_per_unit_max, s.contributors_max) == (0, 0, 0, 0)
    assert s.load_ratio == 1.0


def test_the_summary_of_split_k_counts_the_units_of_every_tile():
    s = summary(SplitK(tiles=6, panels=10, splits=4), sms=8)
    assert (s.units, s.panels_per_unit_min, s.panels_per_unit_max) == (24, 1, 3)
    assert (s.split_tiles, s.contributors) == (6, ((4, 6),))
    assert s.load_ratio == pytest.approx(3 / 2.5)


def test_the_summary_of_a_hybrid_counts_whole_tiles_and_split_ones():
    s = summary(Hybrid(tiles=10, panels=8, units=4), sms=4)  # 4 whole tiles, 6 over 4 units
    assert (s.units, s.split_tiles, s.contributors) == (4, 2, ((1, 8), (2, 2)))
    assert (s.panels_per_unit_min, s.panels_per_unit_max, s.load_ratio) == (20, 20, 1.0)


def test_the_summary_of_persistent_tiles_shows_the_uneven_shares():
    s = summary(DataParallel(tiles=10, panels=8, units=4))
    assert (s.units, s.panels_per_unit_min, s.panels_per_unit_max) == (4, 16, 24)


def test_a_permuted_order_does_not_change_the_summary():
    schedule = StreamK(9, 32, 4)
    assert summary(Permuted(schedule, (2, 0, 3, 1))) == summary(schedule)
