from dataclasses import replace

import pytest

from backends.bench.arms import Group
from backends.bench.charts.axis import WIDTH
from backends.bench.charts.ratio import COLOURS, PEER_NAMES, RatioChart
from backends.bench.results import PEERS, Result
from backends.bench.stats import Ratio, Verdict
from passes.drawing import shapes
from tests.support.charts import Page, faults, read
from tests.support.tables import ours

WON, TIED, LOST = (1.1, 1.2, 1.3), (0.95, 1, 1.05), (0.7, 0.75, 0.8)
SETS = {
    "wave": [ours((128, 256, 512), WON, us=3.25), ours((64, 64, 64), TIED)],
    "decode": [ours((1, 4096, 4096), LOST, set="decode")],
}


def page(sets: dict[str, list[Result]], *lines: str) -> Page:
    chart = RatioChart(sets, Group.BLAS, lines or ("Speed against cuBLAS", "a GPU"))
    return read(shapes.page(WIDTH, chart.height, chart.body()))


def test_every_shape_is_a_point_that_says_what_it_is():
    points = page(SETS).points
    assert [p.label for p in points] == ["128x256x512", "64x64x64", "1x4096x4096"]
    assert points[0].told == (
        "128x256x512: x1.200 (1.100..1.300), 3.25 us, "
        "gemm 128x128x64 w8 s4: tile-order{group=8},descriptors"
    )


def test_points_lie_on_a_scale_of_factors_and_the_verdict_is_their_colour():
    won, tied, lost = page(SETS).points
    assert lost.x < tied.x < won.x
    assert won.y < tied.y < lost.y
    doubled = page({"wave": [ours((1, 1, k), (v, v, v)) for k, v in ((1, 0.5), (2, 1), (3, 2))]})
    half, one, two = (p.x for p in doubled.points)
    assert two - one == pytest.approx(one - half, abs=0.02)
    fills = [p.fill for p in (won, tied, lost)]
    assert fills == [COLOURS[v] for v in (Verdict.WIN, Verdict.TIE, Verdict.LOSS)]


def test_each_set_has_its_mean_and_the_foot_says_against_what():
    shown = page(SETS)
    assert shown.text_of("wave: ").startswith("wave: x1.095 ")
    assert "of 2: 1 won, 1 tied, 0 lost; least x1.000" in shown.text_of("wave: ")
    assert shown.text_of("decode: ").startswith("decode: x0.750 (0.700..0.800) of 1")
    assert shown.text_of("time of").startswith("time of cuBLAS / ours: the median of the rounds")


@pytest.mark.parametrize(
    "sets",
    [
        SETS,
        {"wave": [ours((128, 256, 512), (1e-4, 1e4, 1e4))]},
        {"x" * 500: [ours((2**31,) * 3, WON)], "y": [ours((1, 1, k), TIED) for k in range(1, 99)]},
    ],
    ids=["plain", "wide", "long texts"],
)
def test_a_chart_is_plain_and_legible(sets: dict[str, list[Result]]):
    shown = page(sets, "T" * 500, "a GPU; " * 90)
    assert shown.tags <= {"svg", "rect", "line", "circle", "text", "title"}
    assert faults(shown) == []


@pytest.mark.parametrize("against", PEERS)
def test_the_foot_has_room_for_every_peer(against: Group):
    result = replace(ours((1, 2, 3)), ratios={against: Ratio(1, 1, 1)})
    chart = RatioChart({"wave": [result]}, against, ("Speed",))
    shown = read(shapes.page(WIDTH, chart.height, chart.body()))
    assert PEER_NAMES[against] in shown.text_of("time of")
    assert faults(shown) == []


def test_control_a_chart_that_is_too_narrow_is_found():
    chart = RatioChart(SETS, Group.BLAS, ("Speed", "a GPU"))
    assert faults(read(shapes.page(WIDTH / 2, chart.height, chart.body()))) != []
