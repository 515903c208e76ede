"""Colours of tiles: neighbours apart in hue and in lightness, black text legible on each."""

from colorsys import hls_to_rgb

_GOLDEN = 0.6180339887498949  # of the circle of hues, so that no two of many tiles share one
_LIGHTNESS = (0.74, 0.66, 0.85)
_SATURATION = 0.62


def tile_colour(tile: int) -> str:
    """`#rrggbb`, the same for a tile in every drawing."""
    lightness = _LIGHTNESS[tile % len(_LIGHTNESS)]
    rgb = hls_to_rgb(tile * _GOLDEN % 1, lightness, _SATURATION)
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)
