"""SVG charts read back: points with what they say, texts with their boxes."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import combinations

from tests.support.drawings import Box, text_box

_SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Point:
    """A circle with a tooltip."""

    told: str
    x: float
    y: float
    fill: str

    @property
    def label(self) -> str:
        return self.told.partition(":")[0]


@dataclass(frozen=True)
class Page:
    box: Box
    points: tuple[Point, ...]
    texts: tuple[tuple[str, Box], ...]
    tags: frozenset[str]

    def text_of(self, start: str) -> str:
        """The only text that begins so."""
        (found,) = [words for words, _ in self.texts if words.startswith(start)]
        return found


def read(svg: str) -> Page:
    """What a chart shows. Raises if it is no XML."""
    root = ET.fromstring(svg)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    return Page(
        box=Box(0, 0, width, height),
        points=tuple(_point(e) for e in root.iter(f"{_SVG}circle") if len(e)),
        texts=tuple((e.text or "", text_box(e)) for e in root.iter(f"{_SVG}text")),
        tags=frozenset(e.tag.removeprefix(_SVG) for e in root.iter()),
    )


def faults(page: Page) -> list[str]:
    """What makes a chart illegible."""
    shapes = [Box(p.x - 3, p.y - 3, p.x + 3, p.y + 3) for p in page.points]
    boxes = [*shapes, *(box for _, box in page.texts)]
    found = ["outside the page" for box in boxes if not page.box.holds(box)]
    found += [
        f"texts overlap: {a[0]} and {b[0]}"
        for a, b in combinations(page.texts, 2)
        if a[1].meets(b[1])
    ]
    return found


def _point(element: ET.Element) -> Point:
    x, y = (float(element.attrib[name]) for name in ("cx", "cy"))
    return Point(element[0].text or "", x, y, element.attrib["fill"])
