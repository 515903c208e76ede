"""How convolutions are cut up: the rule, in both directions of each step, and that what it says
compiles."""

from dataclasses import replace

import pytest

from backends.torch_ops.conv_tiles import Convolution, cut
from backends.triton_codegen import compile
from loopir.build import ConvLayout, Epilogue
from loopir.types import DType
from passes.pipeline import parse_pipeline

SMS = 132
BASE = Convolution(
    batch=32,
    channels=64,
    size=(56, 56),
    outputs=256,
    window=(3, 3),
    stride=(1, 1),
    padding=(1, 1),
    dilation=(1, 1),
    layout=ConvLayout.NHWC,
    dtype=DType.BF16,
    epilogue=Epilogue(bias=DType.BF16, activation="relu"),
)

TILES = {
    "base": ({}, (128, 128, 64)),
    "few channels": ({"outputs": 40}, (128, 64, 64)),
    "one channel": ({"outputs": 1}, (128, 16, 64)),
    "few pixels": ({"batch": 1, "size": (5, 5)}, (32, 128, 64)),
    "one pixel": ({"batch": 1, "size": (1, 1)}, (16, 128, 64)),
    "channels first": ({"layout": ConvLayout.NCHW}, (128, 64, 32)),
    "no tensor core": ({"dtype": DType.F32}, (64, 64, 32)),
}


@pytest.mark.parametrize("name", TILES)
def test_tiles_are_no_larger_than_the_product(name: str):
    changes, tile = TILES[name]
    found = cut(replace(BASE, **changes))
    assert (found.rows, found.columns, found.panel) == tile


def test_pixels_of_the_result_and_terms_of_a_sum():
    steps = {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 3), "size": (9, 11)}
    found = replace(BASE, **steps)
    assert found.pixels == 32 * 4 * 9
    assert found.terms == 64 * 9


@pytest.mark.parametrize(
    ("batch", "channels", "is_shared"),
    [(1, 256, True), (5, 256, True), (6, 256, False), (1, 56, False), (1, 57, True)],
)
def test_sums_of_few_tiles_are_shared_out(batch: int, channels: int, is_shared: bool):
    """Of 14 x 14 pixels and 128 x 128 tiles: 4, 16 and 20 of them on 36 SMs; 512 terms are eight
    panels."""
    what = replace(BASE, batch=batch, channels=channels, size=(14, 14))
    assert ("stream-k" in cut(what).pipeline(what, 36)) is is_shared


@pytest.mark.parametrize("layout", [ConvLayout.NHWC, ConvLayout.NCHW], ids=str)
@pytest.mark.parametrize("changes", [{}, {"batch": 1, "size": (14, 14)}], ids=str)
def test_what_the_rule_says_compiles_and_spills_nothing(layout: ConvLayout, changes: dict):
    what = replace(BASE, layout=layout, **changes)
    tile = cut(what)
    program = parse_pipeline(tile.pipeline(what, SMS)).run(what.nest())
    kernel = compile(program, "cuda:90", settings=tile.settings)
    assert kernel.spill_bytes == 0
