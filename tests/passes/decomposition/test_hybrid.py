"""Which tiles a hybrid leaves to Stream-K, which part comes first, and when there is only one."""

import pytest

from passes.decomposition import Bounds, DataParallel, Direction, Hybrid, HybridKind, StreamK


def tiles_of(schedule: Hybrid, unit: int) -> list[int]:
    return [s.tile for s in schedule.segments(unit)]


@pytest.mark.parametrize(
    ("kind", "tiles", "stream_k"),
    [
        (HybridKind.ONE_TILE, 10, 2),
        (HybridKind.TWO_TILE, 10, 6),
        (HybridKind.ONE_TILE, 5, 1),
        (HybridKind.TWO_TILE, 5, 5),
        (HybridKind.ONE_TILE, 3, 3),
        (HybridKind.TWO_TILE, 3, 3),
        (HybridKind.ONE_TILE, 8, 0),
        (HybridKind.TWO_TILE, 8, 0),
    ],
)
def test_stream_k_covers_the_tail_or_a_wave_more(kind, tiles, stream_k):
    schedule = Hybrid(tiles, 8, 4, kind)
    assert (schedule.stream_k.tiles, schedule.data_parallel.tiles) == (stream_k, tiles - stream_k)
    assert schedule.units == 4


def test_the_first_part_has_the_lower_tiles_and_is_computed_first():
    first = Hybrid(10, 8, 4, stream_k_first=True)
    assert [tiles_of(first, u) for u in range(4)] == [[0, 1, 6], [1, 2, 7], [3, 4, 8], [4, 5, 9]]
    assert first.split_tiles() == (1, 4)
    last = Hybrid(10, 8, 4, stream_k_first=False)
    assert [tiles_of(last, u) for u in range(4)] == [[0, 4, 5], [1, 5, 6], [2, 7, 8], [3, 8, 9]]
    assert last.split_tiles() == (5, 8)
    assert first.slots == last.slots == StreamK(6, 8, 4).slots


def test_backward_units_walk_the_stream_k_part_from_its_end():
    schedule = Hybrid(10, 8, 4, direction=Direction.BACKWARD)
    assert [tiles_of(schedule, u) for u in range(2)] == [[1, 0, 6], [2, 1, 7]]


def test_a_minimum_leaves_the_stream_k_part_to_fewer_units():
    schedule = Hybrid(9, 8, 4, HybridKind.ONE_TILE, min_panels=3)  # 8 panels: two units
    assert (schedule.units, schedule.stream_k.units) == (4, 2)
    assert [tiles_of(schedule, u) for u in range(4)] == [[0, 1, 5], [0, 2, 6], [3, 7], [4, 8]]


@pytest.mark.parametrize("kind", HybridKind)
def test_tiles_no_longer_than_the_minimum_are_not_split(kind):
    schedule = Hybrid(9, 8, 4, kind, min_panels=8)
    assert schedule.split_tiles() == ()
    assert list(schedule.all_segments()) == list(DataParallel(9, 8, 4).all_segments())
    assert Hybrid(9, 9, 4, kind, min_panels=8).stream_k.tiles > 0


def test_less_than_a_wave_is_stream_k():
    for bounds in Bounds:
        expected = StreamK(3, 8, 5, bounds)
        assert list(Hybrid(3, 8, 5, bounds=bounds).all_segments()) == list(expected.all_segments())


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tiles": -1}, "tiles"),
        ({"panels": False}, "panels"),
        ({"units": 0}, "units"),
        ({"units": 4.0}, "units"),
        ({"kind": "two-tile"}, "kind"),
        ({"stream_k_first": 1}, "stream_k_first"),
        ({"bounds": None}, "bounds"),
        ({"min_panels": 0}, "min_panels"),
        ({"direction": "backward"}, "direction"),
        ({"wave": -1}, "wave"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(wrong, name):
    with pytest.raises(ValueError, match=f"^{name}: an? "):
        Hybrid(**{"tiles": 9, "panels": 4, "units": 4} | wrong)
