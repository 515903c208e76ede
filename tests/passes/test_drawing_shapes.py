"""The elements that drawings are made of."""

import xml.etree.ElementTree as ET

import pytest

from passes.drawing import shapes


def test_text_holds_no_markup_and_nothing_that_xml_cannot_write():
    words = "<b>&\x00\x1b[0m\ud800\n\u2028end</b>"
    for element in (shapes.text(0, 0, words), shapes.tooltip(words)):
        assert ET.fromstring(element).text == "<b>&  [0m   end</b>"


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (0.5, "0.5"), (2 / 3, "0.67"), (-4.0, "-4"), (100.001, "100")]
)
def test_a_coordinate_is_written_to_a_hundredth(value: float, text: str):
    assert shapes.number(value) == text


def test_a_shape_holds_its_tooltip():
    tip = shapes.tooltip("what it is")
    for element in (
        shapes.rect(0, 0, 1, 1, "#fff", inner=tip),
        shapes.circle(0, 0, 1, "#fff", inner=tip),
    ):
        assert [child.text for child in ET.fromstring(element)] == ["what it is"]
    assert len(ET.fromstring(shapes.circle(0, 0, 1, "#fff", "#000"))) == 0


def test_a_page_is_white_below_what_it_holds():
    root = ET.fromstring(shapes.page(30, 20.5, [shapes.line(0, 0, 1, 1, "#000")]))
    assert root.attrib["viewBox"] == "0 0 30 20.5"
    background, line = root
    assert (background.attrib["fill"], background.attrib["height"]) == (shapes.WHITE, "20.5")
    assert line.attrib["stroke"] == "#000"
