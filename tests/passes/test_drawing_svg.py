"""SVG drawings of timelines: valid, self-contained, legible, and true to the events."""

from collections.abc import Callable
from pathlib import Path

import pytest

from passes.decomposition import EventKind, Permuted, StreamK, Timeline, simulate
from passes.drawing import to_svg
from passes.drawing.palette import tile_colour
from passes.drawing.rows import rows, split_tiles
from passes.drawing.shapes import BLACK, WHITE
from passes.drawing.svg import EPILOGUE, WHOLE_TILE
from tests.support.drawings import LARGE, SMALL, TIMELINES, Page, faults, read

FIRST_BAR = '<rect x="72" y="60" width="'
IMAGES = Path(__file__).parents[2] / "docs" / "img"
ONE_SCALE = [name for name in TIMELINES if name not in ("long", "no cost")]  # no bar is widened


@pytest.mark.parametrize("name", TIMELINES)
def test_a_drawing_is_xml_of_plain_shapes_that_names_no_other_file(name):
    page = read(to_svg(TIMELINES[name], "any title"))
    assert page.tags <= {"svg", "rect", "line", "text", "g", "title"}
    assert not any("href" in a or a.startswith("on") or a == "style" for a in page.attributes)


@pytest.mark.parametrize("name", ONE_SCALE)
def test_a_drawing_is_legible(name):
    assert faults(read(to_svg(TIMELINES[name], "a title"))) == []


@pytest.mark.parametrize("name", TIMELINES)
def test_every_event_has_a_bar_that_says_what_it_is(name):
    timeline = TIMELINES[name]
    bars = read(to_svg(timeline)).bars
    told = [
        (b.row, b.told["kind"], int(b.told["tile"]), b.told["start"], b.told["end"]) for b in bars
    ]
    wanted = [
        (row.label, e.kind.value, e.tile, f"{e.start:g}", f"{e.end:g}")
        for row in rows(timeline)
        for e in row.events
    ]
    assert told == wanted
    panels = [(b.told["k0"], b.told["k1"]) for b in bars if b.told["kind"] != "epilogue"]
    events = [e for row in rows(timeline) for e in row.events if e.kind is not EventKind.EPILOGUE]
    assert panels == [(str(e.k0), str(e.k1)) for e in events]


def scale_faults(page: Page) -> int:
    """Bars that do not lie on one scale of time."""
    ends = [(float(b.told[t]), x) for b in page.bars
            for t, x in (("start", b.box.left), ("end", b.box.right))]  # fmt: skip
    (t0, x0), (t1, x1) = min(ends), max(ends)
    slope = (x1 - x0) / (t1 - t0)
    return sum(abs(x - x0 - slope * (t - t0)) > 0.06 for t, x in ends)


@pytest.mark.parametrize("name", [n for n in ONE_SCALE if n != "nothing"])
def test_bars_lie_on_one_scale_of_time(name):
    assert scale_faults(read(to_svg(TIMELINES[name]))) == 0


def colour_faults(page: Page, timeline: Timeline) -> list[str]:
    split, of_tile, found = split_tiles(timeline), {}, []
    for bar in page.bars:
        tile, kind = int(bar.told["tile"]), bar.told["kind"]
        fixed = {"store": BLACK, "load": WHITE, "epilogue": EPILOGUE, "wait": None}
        wanted = fixed.get(kind, bar.fill if tile in split else WHOLE_TILE)
        if bar.fill != wanted or (kind == "compute" and tile in split and bar.fill == WHOLE_TILE):
            found.append(f"{kind} of tile {tile} is {bar.fill}")
        if kind == "compute" and tile in split and of_tile.setdefault(tile, bar.fill) != bar.fill:
            found.append(f"tile {tile} has two colours")
    if len(set(of_tile.values())) < len(of_tile):
        found.append("two tiles have one colour")
    return found


@pytest.mark.parametrize("name", TIMELINES)
def test_split_tiles_have_a_colour_each_and_whole_tiles_are_grey(name):
    timeline = TIMELINES[name]
    assert colour_faults(read(to_svg(timeline)), timeline) == []


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_black_text_has_the_contrast_of_wcag_aa_on_every_tile():
    assert min((luminance(tile_colour(t)) + 0.05) / 0.05 for t in range(1000)) >= 4.5


def test_fixup_is_drawn_as_often_as_it_happens():
    kinds = [b.told["kind"] for b in read(to_svg(LARGE)).bars]
    assert (kinds.count("store"), kinds.count("load")) == (120, 120)
    assert "wait" in [b.told["kind"] for b in read(to_svg(TIMELINES["waits"])).bars]


def test_a_fixup_too_short_for_the_scale_is_a_pixel_wide():
    bars = read(to_svg(TIMELINES["long"])).bars
    moved = [b.box.right - b.box.left for b in bars if b.told["kind"] in ("store", "load")]
    assert moved
    assert min(moved) >= 0.99


def test_few_units_are_labelled_in_their_bars_and_many_beside_them():
    texts = [text for text, _ in read(to_svg(SMALL)).texts]
    assert {"tile 1, panels 2..8", "store", "load", "epilogue", "unit 3"} <= set(texts)
    large = [text for text, _ in read(to_svg(LARGE)).texts]
    assert "store" not in large
    assert {"unit 0", "unit 129"} <= set(large)


def test_the_figures_and_the_legend_are_there():
    texts = " ".join(text for text, _ in read(to_svg(LARGE, "1536 x 1536", time_unit="us")).texts)
    for part in ("1536 x 1536", "144 tiles, 120 of them split", "makespan 76, ideal 72",
                 "time in us", "whole tile", "store of a part", "load of a part", "wait",
                 "epilogue", "ideal end"):  # fmt: skip
        assert part in texts


def test_text_is_escaped():
    title = "<script>alert('&')</script>"
    svg = to_svg(SMALL, title)
    assert "<script" not in svg
    assert title in [text for text, _ in read(svg).texts]


def test_the_same_timeline_gives_the_same_bytes():
    again = simulate(StreamK(5, 8, 4))
    assert to_svg(again, "t") == to_svg(SMALL, "t")
    other = simulate(Permuted(StreamK(5, 8, 4), (1, 0, 2, 3)), places=4)
    assert to_svg(other, "t") != to_svg(SMALL, "t")


def edited(svg: str, old: str, new: str) -> str:
    assert old in svg
    return svg.replace(old, new, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda svg: edited(svg, 'viewBox="0 0 1000', 'viewBox="0 0 900'),  # bars beyond the edge
        lambda svg: edited(svg, f'{FIRST_BAR}450"', f'{FIRST_BAR}460"'),  # into the next bar
        lambda svg: edited(svg, 'y="90" width="337.5"', 'y="80" width="337.5"'),  # into another row
        lambda svg: edited(svg, ">epilogue</text>", ">epilogue of this tile and more</text>"),
    ],
)
def test_control_an_illegible_drawing_is_found(spoil: Callable[[str], str]):
    svg = to_svg(SMALL, "a title")
    assert faults(read(svg)) == []
    assert faults(read(spoil(svg))) != []


def test_control_a_bar_off_the_scale_and_a_wrong_colour_are_found():
    svg = to_svg(SMALL)
    shifted = edited(svg, f'{FIRST_BAR}450"', f'{FIRST_BAR}440"')
    assert scale_faults(read(shifted)) == 1
    for old, new in ((tile_colour(1), tile_colour(2)), (WHOLE_TILE, tile_colour(0))):
        recoloured = edited(svg, f'fill="{old}"', f'fill="{new}"')
        assert colour_faults(read(recoloured), SMALL) != []


def test_the_pictures_of_the_documentation_are_drawn_anew_the_same():
    drawn = {
        "stream_k_5_on_4.svg": to_svg(SMALL, "Stream-K"),
        "stream_k_144_on_132.svg": to_svg(LARGE, "1536 x 1536 x 4096, Stream-K on 132 SMs"),
    }
    assert {path.name for path in IMAGES.iterdir()} == drawn.keys()
    for name, svg in drawn.items():
        assert (IMAGES / name).read_text() == svg
