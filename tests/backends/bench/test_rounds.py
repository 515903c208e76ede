from collections import Counter
from itertools import pairwise

from backends.bench.rounds import LEAST_ROUNDS, fitting, turns


def test_arms_rotate_and_the_second_half_runs_backwards():
    assert ["".join(turn) for turn in turns("abc", 6)] == ["abc", "bca", "cab", "cba", "acb", "bac"]


def test_every_arm_has_every_place_and_follows_every_neighbour_alike():
    found = list(turns("abcd", 16))
    places = Counter((place, arm) for turn in found for place, arm in enumerate(turn))
    assert set(places.values()) == {4}
    followed = Counter(pair for turn in found for pair in pairwise(turn))
    assert followed["a", "b"] == followed["b", "a"]


def test_one_arm_or_none_has_turns():
    assert list(turns("a", 2)) == [("a",), ("a",)]
    assert list(turns("", 2)) == [(), ()]


def test_rounds_are_cut_to_the_time_before_they_start():
    assert fitting(60, seconds=10, round_seconds=0.1) == 60
    assert fitting(60, seconds=2, round_seconds=0.1) == 20
    assert fitting(60, seconds=0, round_seconds=0.1) == LEAST_ROUNDS
    assert fitting(3, seconds=0, round_seconds=0.1) == 3
