"""Timelines of the tests of drawings, and SVG files read back: bars with what they say, texts with
their boxes."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import combinations, pairwise

from passes.decomposition import (
    DataParallel,
    Fold,
    Hybrid,
    KAligned,
    SplitK,
    StreamK,
    Timeline,
    UnitCost,
    simulate,
)

SMALL = simulate(StreamK(5, 8, 4))
LARGE = simulate(StreamK(144, 64, 132))
TIMELINES: dict[str, Timeline] = {
    "5 on 4": SMALL,
    "144 on 132": LARGE,
    "waits": simulate(StreamK(2, 9, 5), UnitCost(1, 2, 3)),
    "folds": simulate(SplitK(3, 9, 4), places=6, fold=Fold.REDUCTION_WAVE),
    "atomic": simulate(StreamK(5, 8, 4), fold=Fold.ATOMIC),
    "waves": simulate(DataParallel(11, 4), places=4),
    "hybrid": simulate(Hybrid(30, 16, 8)),
    "k-aligned": simulate(KAligned(30, 16, 8)),
    "long": simulate(StreamK(900, 64, 7)),
    "no cost": simulate(StreamK(3, 5, 2), UnitCost(0, 0, 0)),
    "uneven cost": simulate(StreamK(7, 5, 3), UnitCost(0.3, 1.7, 0.123456)),
    "nothing": simulate(DataParallel(0, 0)),
}

_SVG = "{http://www.w3.org/2000/svg}"
_TOLD = re.compile(
    r"(?P<row>unit|fold) (?P<number>\d+): (?P<kind>\w+) tile (?P<tile>\d+)"
    r"(?:, panels (?P<k0>\d+)\.\.(?P<k1>\d+))?, time (?P<start>\S+)\.\.(?P<end>\S+)"
)
CHARACTER = 6.5  # width of a character of 11 px in a wide sans-serif font, on average


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box", slack: float = 0.02) -> bool:
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > slack and down > slack

    def holds(self, other: "Box", slack: float = 0.02) -> bool:
        return (
            self.left <= other.left + slack
            and self.top <= other.top + slack
            and self.right >= other.right - slack
            and self.bottom >= other.bottom - slack
        )


@dataclass(frozen=True)
class Bar:
    """A drawn event; `told`: the groups of its tooltip, by name."""

    told: dict[str, str]
    box: Box
    fill: str | None

    @property
    def row(self) -> str:
        return f"{self.told['row']} {self.told['number']}"


@dataclass(frozen=True)
class Page:
    box: Box
    bars: tuple[Bar, ...]
    texts: tuple[tuple[str, Box], ...]
    tags: frozenset[str]
    attributes: frozenset[str]


def read(svg: str) -> Page:
    """What a drawing shows. Raises if it is no XML."""
    root = ET.fromstring(svg)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    titled = [e for e in root.iter() if e.find(f"{_SVG}title") is not None]
    return Page(
        box=Box(0, 0, width, height),
        bars=tuple(map(_bar, titled)),
        texts=tuple((e.text or "", text_box(e)) for e in root.iter(f"{_SVG}text")),
        tags=frozenset(e.tag.removeprefix(_SVG) for e in root.iter()),
        attributes=frozenset(name for e in root.iter() for name in e.attrib),
    )


def faults(page: Page) -> list[str]:
    """What makes a drawing illegible."""
    shapes = [b.box for b in page.bars] + [box for _, box in page.texts]
    found = ["outside the page" for box in shapes if not page.box.holds(box)]
    rows: dict[str, list[Bar]] = {}
    for bar in page.bars:
        rows.setdefault(bar.row, []).append(bar)
    found += [
        f"bars of {row} overlap"
        for row, bars in rows.items()
        for a, b in pairwise(bars)
        if a.box.meets(b.box)
    ]
    bands = [(min(b.box.top for b in bars), max(b.box.bottom for b in bars))
             for bars in rows.values()]  # fmt: skip
    found += ["rows overlap" for a, b in pairwise(bands) if a[1] > b[0] + 0.01]
    found += [
        f"texts overlap: {a[0]} and {b[0]}"
        for a, b in combinations(page.texts, 2)
        if a[1].meets(b[1])
    ]
    return found


def _bar(element: ET.Element) -> Bar:
    title = element.find(f"{_SVG}title")
    match = _TOLD.fullmatch((title.text if title is not None else None) or "")
    assert match, ET.tostring(element)
    if element.tag == f"{_SVG}g":  # a wait: a dashed line
        line = element.find(f"{_SVG}line")
        assert line is not None
        x1, x2, y = (float(line.attrib[n]) for n in ("x1", "x2", "y1"))
        return Bar(match.groupdict(), Box(x1, y, x2, y + 0.5), None)
    x, y, w, h = (float(element.attrib[n]) for n in ("x", "y", "width", "height"))
    if "stroke" in element.attrib:  # half of its outline is outside
        x, y, w, h = x - 0.5, y - 0.5, w + 1, h + 1
    return Bar(match.groupdict(), Box(x, y, x + w, y + h), element.attrib["fill"])


def text_box(element: ET.Element) -> Box:
    x, y = float(element.attrib["x"]), float(element.attrib["y"])
    width = CHARACTER * len(element.text or "")
    shift = {"middle": width / 2, "end": width}.get(element.attrib.get("text-anchor", ""), 0)
    return Box(x - shift, y - 8, x - shift + width, y + 2)
