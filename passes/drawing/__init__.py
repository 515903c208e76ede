"""Timelines of units against time: as text, as SVG, as a trace for Chrome and Perfetto."""

from passes.drawing.svg import to_svg
from passes.drawing.text import to_text
from passes.drawing.trace import to_trace

__all__ = ["to_svg", "to_text", "to_trace"]
