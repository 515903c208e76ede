from itertools import pairwise

import pytest

from backends.bench.charts.axis import LogAxis, fitted


def test_equal_factors_are_equally_far_apart():
    axis = LogAxis(0.5, 8, 100, 500, gap=40)
    assert [axis(v) for v in (0.5, 1, 2, 4, 8)] == [100, 200, 300, 400, 500]


def test_an_axis_may_run_upwards():
    axis = LogAxis(1, 100, 300, 100, gap=40)
    assert axis(10) == pytest.approx(200)
    assert len(axis.ticks()) >= 3


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.69, 1.45, [0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4]),
        (0.5, 20, [0.5, 1, 2, 5, 10, 20]),
        (1e-12, 1e30, [10.0**p for p in range(-10, 31, 5)]),
    ],
)
def test_ticks_are_round_and_apart(low: float, high: float, ticks: list[float]):
    axis = LogAxis(low, high, 0, 480, gap=44)
    assert axis.ticks() == pytest.approx(ticks)
    assert all(axis(b) - axis(a) >= 44 for a, b in pairwise(axis.ticks()))


def test_all_values_lie_inside_an_axis_around_them():
    axis = LogAxis.around([3, 1, 2], 0, 100, pad=1.1)
    assert all(0 < axis(v) < 100 for v in (1, 2, 3))
    alone = LogAxis.around([7], 0, 100, pad=1.1)
    assert alone(7) == pytest.approx(50)


def test_a_text_that_is_too_long_is_cut():
    assert fitted("abc", 100) == "abc"
    assert fitted("a" * 100, 70) == "aaaaaaa..."
