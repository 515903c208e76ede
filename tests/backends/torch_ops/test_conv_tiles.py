"""How convolutions are cut up: the rule, in both directions of each step, and that what it says
compiles."""

from dataclasses import replace
from typing import Any

import pytest

from backends.planner import shipped
from backends.torch_ops.conv_tiles import Convolution, Cut, cuts
from backends.triton_codegen import compile
from loopir.build import ConvLayout, Epilogue
from loopir.types import DType
from passes.pipeline import parse_pipeline

H200 = shipped()["NVIDIA H200"]
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

RULED = {
    "base": ({}, (128, 128, 64)),
    "few channels": ({"outputs": 40}, (128, 64, 64)),
    "one channel": ({"outputs": 1}, (128, 16, 64)),
    "few pixels": ({"batch": 1, "size": (5, 5)}, (32, 128, 64)),
    "one pixel": ({"batch": 1, "size": (1, 1)}, (16, 128, 64)),
    "channels first": ({"layout": ConvLayout.NCHW}, (128, 64, 32)),
    "no tensor core": ({"dtype": DType.F32}, (64, 64, 32)),
}


def ruled(**changes: Any) -> Cut:
    *_, last = cuts(replace(BASE, **changes), H200)
    return last


@pytest.mark.parametrize("name", RULED)
def test_tiles_of_the_rule_are_no_larger_than_the_product(name: str):
    changes, tile = RULED[name]
    found = ruled(**changes)
    assert (found.rows, found.columns, found.panel) == tile


def test_pixels_of_the_result_and_terms_of_a_sum():
    steps = {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 3), "size": (9, 11)}
    found = replace(BASE, **steps)
    assert found.pixels == 32 * 4 * 9
    assert found.terms == 64 * 9


@pytest.mark.parametrize(
    ("batch", "channels", "splits"),
    [(1, 256, 16), (5, 256, 4), (17, 256, None), (1, 28, None), (1, 57, 4)],
)
def test_sums_of_few_tiles_are_shared_out(batch: int, channels: int, splits: int | None):
    """Of 14 x 14 pixels and 128 x 64 tiles: 8, 32 and 108 on 132 SMs; slices have four panels of 32
    terms at least."""
    changes = {"batch": batch, "channels": channels, "size": (14, 14), "layout": ConvLayout.NCHW}
    schedule = ruled(**changes).schedule
    assert (f"splits={splits} " in schedule) if splits else not schedule


def test_rows_of_channels_are_cut_as_the_planner_would_cut_their_product():
    """By pointer loads, in tiles of one piece, none of them persistent."""
    what = replace(BASE, batch=1, channels=256, size=(14, 14))
    *planned, _ = cuts(what, H200)
    assert len(planned) == 3
    assert all("merge=fixup" in cut.schedule for cut in planned)
    assert not any("descriptors" in cut.pipeline for cut in planned)
    many = next(cuts(BASE, H200))
    assert (many.rows, many.columns) > (64, 64)
    assert "stream-k" not in many.schedule


CASES = [{}, {"batch": 1, "size": (14, 14)}, {"channels": 3, "window": (7, 7), "stride": (2, 2)}]


@pytest.mark.sampled
@pytest.mark.parametrize("layout", [ConvLayout.NHWC, ConvLayout.NCHW], ids=str)
@pytest.mark.parametrize("changes", CASES, ids=str)
def test_the_first_cut_compiles_and_spills_nothing(layout: ConvLayout, changes: dict[str, Any]):
    what = replace(BASE, layout=layout, **changes)
    cut = next(cuts(what, H200))
    program = parse_pipeline(cut.pipeline).run(what.nest())
    for kernel in compile(program, "cuda:90", settings=cut.settings).kernels:
        assert kernel.spill_bytes == 0
