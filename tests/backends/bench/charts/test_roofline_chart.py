import pytest

from backends.bench.charts.axis import WIDTH
from backends.bench.charts.roofline import COLOURS, Point, Roof, RooflineChart
from passes.drawing import shapes
from passes.drawing.shapes import WHITE
from tests.support.charts import Page, faults, read
from tests.support.tables import cublas, ours

ROOF = Roof("a GPU, bf16", tflops=800, tbps=4)
SQUARE, FLAT = (4096, 4096, 4096), (1, 4096, 4096)
SETS = {
    "square": [Point(ours(SQUARE, us=200), cublas(SQUARE, us=180))],
    "decode": [Point(ours(FLAT, us=14))],
}


def page(sets=SETS, roofs=(ROOF,)) -> Page:
    chart = RooflineChart(sets, roofs, ("Speed against the roofline", "a GPU"))
    return read(shapes.page(WIDTH, chart.height, chart.body()))


def test_a_roof_is_memory_before_its_ridge_and_products_behind_it():
    assert ROOF.ridge == 200
    assert [ROOF.at(x) for x in (1, 200, 1e6)] == [4, 800, 800]


def test_a_point_counts_the_bytes_that_any_way_must_move():
    square, flat = SETS["square"][0], SETS["decode"][0]
    assert square.intensity == pytest.approx(2 * 4096 / 6)  # 2 MNK flops, 2 bytes each of 3 squares
    assert flat.intensity == pytest.approx(1, rel=1e-3)
    assert square.rates == pytest.approx([687.2, 763.5], abs=0.1)


def test_ours_is_filled_and_the_library_hollow_above_it():
    library, own, flat = page().points
    assert (own.fill, library.fill, flat.fill) == (COLOURS[0], WHITE, COLOURS[1])
    assert own.x == library.x
    assert own.x > flat.x
    assert library.y < own.y < flat.y
    assert own.told.startswith("4096x4096x4096: 687.2 TFLOP/s, 200.00 us, gemm 128x128x64 w8 s4")
    assert library.told == "4096x4096x4096: 763.5 TFLOP/s, 180.00 us, cublas"


def test_a_roof_has_its_figures_and_no_roof_has_none():
    assert page().text_of("a GPU, bf16") == "a GPU, bf16: 800 TFLOP/s, 4 TB/s"
    assert not [t for t, _ in page(roofs=()).texts if "TB/s" in t]


@pytest.mark.parametrize(
    ("sets", "roofs"),
    [
        (SETS, [ROOF]),
        (SETS, []),
        ({"one": [Point(ours(SQUARE, us=1e-3))]}, [ROOF]),  # far beyond the roof
        ({"one": [Point(ours((1, 1, 1), us=1e10))]}, [ROOF]),
        ({f"{i}{'s' * 90}": [Point(ours((2**31,) * 3))] for i in range(40)}, [ROOF]),
    ],
    ids=["plain", "no roof", "fast", "slow", "many sets"],
)
def test_a_chart_is_plain_and_legible(sets, roofs):
    shown = page(sets, roofs)
    assert shown.tags <= {"svg", "rect", "line", "circle", "text", "title"}
    assert faults(shown) == []
