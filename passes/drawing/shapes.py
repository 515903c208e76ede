"""The elements of an SVG: plain shapes and text, escaped, coordinates to a hundredth."""

from collections.abc import Iterable
from xml.sax.saxutils import escape

FONT = 11
CHARACTER = 0.62 * FONT  # a width that no letter of a sans-serif font is above on average
BLACK, WHITE = "#000000", "#ffffff"


def page(width: float, height: float, body: Iterable[str]) -> str:
    """The text of an SVG file of that many pixels, white below `body`."""
    w, h = number(width), number(height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}" font-family="sans-serif" font-size="{FONT}" fill="{BLACK}">'
    )
    return "\n".join((head, rect(0, 0, width, height, WHITE), *body, "</svg>")) + "\n"


def rect(
    x: float, y: float, w: float, h: float, fill: str, outlined: bool = False, inner: str = ""
) -> str:
    stroke = ""
    if outlined:
        inset = min(0.5, w / 2)
        x, y, w, h = x + inset, y + 0.5, max(w - 1, 0), h - 1
        stroke = f' stroke="{BLACK}"'
    box = f'x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}"'
    return _element("rect", f'{box} fill="{fill}"{stroke}', inner)


def circle(x: float, y: float, r: float, fill: str, stroke: str = "", inner: str = "") -> str:
    edge = f' stroke="{stroke}"' if stroke else ""
    place = f'cx="{number(x)}" cy="{number(y)}" r="{number(r)}"'
    return _element("circle", f'{place} fill="{fill}"{edge}', inner)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, extra: str = "") -> str:
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} stroke="{stroke}"{" " if extra else ""}{extra}/>'


def text(x: float, y: float, words: str, extra: str = "") -> str:
    place = f'x="{number(x)}" y="{number(y)}"'
    return f"<text {place}{' ' if extra else ''}{extra}>{_plain(words)}</text>"


def tooltip(words: str) -> str:
    """What a browser tells of the shape that holds it."""
    return f"<title>{_plain(words)}</title>"


def number(value: float) -> str:
    """A coordinate, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _element(name: str, attributes: str, inner: str) -> str:
    return f"<{name} {attributes}>{inner}</{name}>" if inner else f"<{name} {attributes}/>"


def _plain(words: str) -> str:
    """Without what XML has no way to write, control characters, and with the rest escaped."""
    return escape("".join(c if c.isprintable() else " " for c in words))
