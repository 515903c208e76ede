"""The nest of a convolution: against torch in fp64, and which pixels reach which."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from loopir.build import ConvLayout, Epilogue, conv_nest
from loopir.interp import random_inputs, run
from loopir.nodes import For, Program
from loopir.printer import to_text
from loopir.walk import is_parallel_loop, walk
from tests.support import oracles

Each = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Channels are those of one group."""

    batch: int = 1
    ins: int = 2
    size: tuple[int, ...] = (4, 5)
    outs: int = 2
    window: tuple[int, ...] = (3, 2)
    stride: Each = 1
    padding: Each = 0
    dilation: Each = 1
    groups: int = 1

    def program(self, layout: ConvLayout, *, is_open: bool = False, **options) -> Program:
        ins, outs = self.ins * self.groups, self.outs * self.groups
        sizes = (self.batch, ins, self.size, outs)
        sizes = (None, None, (None,) * len(self.size), None) if is_open else sizes
        steps = (self.stride, self.padding, self.dilation, self.groups)
        return conv_nest(*sizes, self.window, *steps, layout, **options)

    def oracle(self, x: oracles.Arrays, layout: ConvLayout) -> np.ndarray:
        steps = (self.stride, self.padding, self.dilation, self.groups)
        return oracles.conv(x["X"], x["F"], layout, *steps)

    @property
    def layouts(self) -> tuple[ConvLayout, ConvLayout]:
        return _LAYOUTS[len(self.size)]

    def __str__(self) -> str:
        changed = (f"{k}={v}" for k, v in vars(self).items() if v != getattr(Case, k))
        return " ".join(changed) or "plain"


_LAYOUTS = {
    1: (ConvLayout.NCW, ConvLayout.NWC),
    2: (ConvLayout.NCHW, ConvLayout.NHWC),
}

CASES = [
    Case(),
    Case(batch=3, ins=1, outs=3),
    Case(window=(1, 1), stride=2),
    Case(size=(5, 5), window=(3, 3), padding=1),
    Case(size=(5, 7), window=(3, 3), stride=2, padding=1),
    Case(size=(3, 4), window=(2, 3), padding=(2, 0)),
    Case(size=(6, 7), window=(2, 3), dilation=(3, 2)),
    Case(size=(5, 4), window=(3, 2), stride=(1, 2), padding=(0, 3), dilation=(2, 1)),
    Case(ins=1, outs=1, groups=4, window=(3, 3), padding=1),
    Case(batch=2, ins=2, outs=3, size=(3, 3), window=(2, 2), groups=2, stride=2, padding=1),
    Case(size=(1, 1), window=(3, 3), padding=2),
    Case(size=(7, 7), window=(1, 2), stride=(3, 4)),
    Case(batch=3, size=(7,), window=(3,), padding=1),
    Case(size=(9,), window=(3,), stride=2, padding=3, dilation=2, groups=3),
    Case(size=(4,), window=(4,), ins=3, outs=1),
    Case(batch=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv_is_torchs(case: Case):
    for layout in case.layouts:
        oracles.check(case.program(layout), lambda x, y=layout: case.oracle(x, y))


def test_a_sum_over_no_channels_is_zero():
    program = Case(ins=0).program(ConvLayout.NCHW)
    oracles.check(program, lambda x: np.zeros(x["Y"].shape))


@pytest.mark.parametrize("dtype", ["f8e4m3", "f16", "bf16", "f32", "f64", "i8"])
def test_conv_of_every_dtype(dtype: str):
    case = Case(size=(3, 3), window=(2, 2), padding=1)
    for layout in case.layouts:
        program = case.program(layout, dtype=dtype)
        oracles.check(program, lambda x, y=layout: case.oracle(x, y))


def test_conv_of_any_floats_is_near_torchs():
    case = Case(size=(3, 3), window=(3, 3), padding=1, stride=2)
    program = case.program(ConvLayout.NCHW)
    tolerance = oracles.root_of(case.ins * 9)
    oracles.check(program, lambda x: case.oracle(x, ConvLayout.NCHW), tolerance=tolerance)


@pytest.mark.parametrize("case", [CASES[5], CASES[9], CASES[13]], ids=str)
def test_open_sizes_are_measured_at_launch(case: Case):
    names = ("H", "W")[-len(case.size) :]
    sizes = dict(zip(names, case.size, strict=True))
    sizes |= {"NB": case.batch, "C": case.ins, "OC": case.outs}
    for layout in case.layouts:
        program = case.program(layout, is_open=True)
        oracles.check(program, lambda x, y=layout: case.oracle(x, y), sizes=sizes)


@pytest.mark.parametrize("groups", [1, 2])
def test_bias_belongs_to_output_channels(groups: int):
    e = Epilogue(bias="f32", activation="relu", beta=1, residual="f16")
    case = Case(size=(3, 3), window=(2, 2), groups=groups)
    for layout in case.layouts:
        axis = -1 if layout.channels_last else 1
        program = case.program(layout, epilogue=e, out_dtype="bf16")
        oracles.check(
            program, lambda x, y=layout, a=axis: oracles.epilogue(e, case.oracle(x, y), x, "Y", a)
        )


# --- which pixels reach which

REACHES = [
    Case(ins=1, outs=1, size=(5, 6), window=(2, 2), stride=3),
    Case(ins=1, outs=1, size=(5, 5), window=(2, 3), dilation=(3, 2), padding=1),
    Case(ins=1, outs=1, size=(4, 5), window=(3, 3), stride=(2, 1), padding=2),
    Case(ins=1, outs=1, size=(4, 4), window=(2, 2), padding=1, groups=2),
]


@pytest.mark.parametrize("case", REACHES, ids=str)
def test_a_nan_reaches_the_outputs_whose_window_touches_it_and_no_other(case: Case):
    layout, spared = ConvLayout.NCHW, 0
    program = case.program(layout, dtype="f32")
    for pixel in _pixels(case):
        arrays = random_inputs(program, 0)
        touches = _touches(case, arrays, pixel)
        arrays["X"][pixel] = np.nan
        run(program, arrays)
        np.testing.assert_array_equal(np.isnan(arrays["Y"]), touches)
        spared += not touches.any()
    assert touches.any()
    assert bool(spared) == (case.stride == 3)


def _pixels(case: Case) -> Iterator[tuple[int, ...]]:
    """Every third pixel, and the last."""
    shape = (case.batch, case.ins * case.groups, *case.size)
    found = list(np.ndindex(shape))
    return iter([*found[::3], found[0]])


def _touches(case: Case, arrays: oracles.Arrays, pixel: tuple[int, ...]) -> np.ndarray:
    """Which outputs have a window over the pixel: a convolution with ones counts the taps."""
    marked = np.zeros(arrays["X"].shape)
    marked[pixel] = 1
    ones = {"X": marked, "F": np.ones(arrays["F"].shape)}
    return case.oracle(ones, ConvLayout.NCHW) > 0


# --- text, refusals


def test_only_padding_needs_a_mask():
    assert "masked" not in to_text(Case().program(ConvLayout.NCHW))
    text = to_text(Case(padding=(0, 1)).program(ConvLayout.NHWC))
    assert "load x, X[n, oh * SH + r * DH - PH, ow * SW + s * DW - PW, c] masked\n" in text


@pytest.mark.parametrize(
    ("layout", "band", "summed"),
    [
        (ConvLayout.NCHW, "g n oh ow oc", "c r s"),
        (ConvLayout.NHWC, "g n oh ow oc", "r s c"),
    ],
)
def test_pixels_come_before_channels_and_summed_loops_follow_memory(
    layout: ConvLayout, band: str, summed: str
):
    (kernel,) = Case(groups=2).program(layout).kernels
    loops = [s for _, s in walk(kernel.body) if isinstance(s, For)]
    assert " ".join(s.iv for s in loops if is_parallel_loop(s)) == band
    assert " ".join(s.iv for s in loops if not is_parallel_loop(s)) == summed


def test_layout_is_channels_first_unless_said():
    for case in (Case(), Case(size=(4,), window=(3,))):
        plain = conv_nest(case.batch, case.ins, case.size, case.outs, case.window)
        assert plain == case.program(case.layouts[0])


BASE = {
    "batch": 1,
    "in_channels": 4,
    "size": (5, 5),
    "out_channels": 4,
    "window": (3, 3),
}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"batch": -1}, "batch"),
        ({"in_channels": 1.5}, "in_channels"),
        ({"out_channels": "4"}, "out_channels"),
        ({"size": (5,)}, "size"),
        ({"size": (5, -5)}, "size"),
        ({"window": (3, 3, 3)}, "window"),
        ({"window": (3, 0)}, "window"),
        ({"window": ()}, "window"),
        ({"window": (3, 6)}, "window"),
        ({"dilation": (3, 1)}, "window"),
        ({"stride": 0}, "stride"),
        ({"stride": (1, 1, 1)}, "stride"),
        ({"stride": True}, "stride"),
        ({"padding": -1}, "padding"),
        ({"dilation": (1, 0)}, "dilation"),
        ({"groups": 0}, "groups"),
        ({"groups": 3}, "in_channels"),
        ({"groups": 4, "out_channels": 6}, "out_channels"),
        ({"layout": "ncw"}, "layout"),
        ({"layout": "chwn"}, "layout"),
        ({"dtype": "i32"}, "dtype"),
        ({"out_dtype": "x"}, "out_dtype"),
        ({"name": "a-b"}, "name"),
    ],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        conv_nest(**(BASE | arguments))


def test_the_largest_window_that_fits_is_accepted():
    case = replace(CASES[0], size=(5, 5), window=(3, 5), dilation=(2, 1))
    oracles.check(case.program(ConvLayout.NCHW), lambda x: case.oracle(x, ConvLayout.NCHW))
