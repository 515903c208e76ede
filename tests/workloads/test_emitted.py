"""The emitted kernel of every builder, in Triton's interpreter, on padded and shifted tensors: the
bits of the reference interpreter and of the oracle."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from backends.triton_codegen import compile
from loopir.build import batched_gemm_nest, conv_nest
from loopir.interp import run
from loopir.nodes import Program
from passes.stream_k import Merge
from tests.support.launches import launched
from tests.support.workload_cases import CASES, MERGED
from tests.support.workloads import Arrays, Case, check, open_sizes


def check_emitted(case: Case, program: Program) -> None:
    """AssertionError: the emitted kernel differs from the reference interpreter, or from the
    oracle."""
    arrays = case.inputs(3)
    found = launched(program, arrays, sizes=case.sizes)
    check(case, found, arrays)
    run(program, arrays, open_sizes(case))
    for name in case.outputs:
        np.testing.assert_array_equal(found[name], arrays[name], name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_emitted_kernel_gives_the_bits_of_the_reference_and_the_oracle(case: Case):
    check_emitted(case, case.canonical)


#: tiles cut in two at most, all of them in two, in a piece a panel
SCHEDULES = ({"units": 3}, {"decomposition": "split-k", "splits": 2}, {"units": 40})


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("case", "merge", "options"),
    [(*pair, SCHEDULES[i % len(SCHEDULES)]) for i, pair in enumerate(MERGED)],
    ids=lambda v: v.value if isinstance(v, Merge) else str(v),
)
def test_emitted_merge_gives_the_bits_of_the_reference_and_the_oracle(
    case: Case, merge: Merge, options: dict[str, Any]
):
    check_emitted(case, case.stream_k(merge, **options).apply(case.canonical))


# --- which pixels reach which

REACHES = (
    Case("skipped", conv_nest, (1, 1, (5, 6), 2, (2, 2)), {"stride": 3, "dtype": "f32"}),
    Case("dilated", conv_nest, (2, 1, (5, 5), 1, (2, 3)),
         {"dilation": (3, 2), "padding": 1, "layout": "nhwc"}),
    Case("padded", conv_nest, (1, 3, (4, 4), 3, (2, 2)),
         {"padding": 1, "groups": 3, "dtype": "f16"}),
    Case("in a line", conv_nest, (1, 2, (17,), 3, (2,)), {"stride": 3}),
)  # fmt: skip


@pytest.mark.parametrize("merge", [None, Merge.WORKSPACE, Merge.ATOMIC], ids=str)
@pytest.mark.parametrize("case", REACHES, ids=str)
def test_a_nan_reaches_the_outputs_whose_window_touches_it_and_no_other(
    case: Case, merge: Merge | None
):
    program = case.canonical
    program = case.stream_k(merge, units=3).apply(program) if merge else program
    arrays, spared = case.inputs(4), 0
    for pixel in pixels(arrays["X"].shape):
        touched = touches(case, arrays, pixel)
        poisoned = arrays["X"].copy()
        poisoned[pixel] = np.nan
        found = launched(program, arrays | {"X": poisoned})
        np.testing.assert_array_equal(np.isnan(found["Y"]), touched)
        spared += not touched.any()
    assert bool(spared) == ("stride" in case.options)


def pixels(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Some of an image's, one among them that windows three apart leave out."""
    count = int(np.prod(shape))
    return iter([np.unravel_index(n % count, shape) for n in (0, 2, 8, 20, count - 1)])


def touches(case: Case, arrays: Arrays, pixel: tuple[int, ...]) -> np.ndarray:
    """Which outputs have a window over the pixel: a convolution with ones counts the taps."""
    marked = np.zeros(arrays["X"].shape)
    marked[pixel] = 1
    return case.expected({"X": marked, "F": np.ones(arrays["F"].shape)})["Y"] > 0


def test_operand_of_stride_zero_is_one_for_all_batches():
    case = Case("shared", batched_gemm_nest, (3, 5, 6, 20, "f32"))
    arrays = case.inputs(5)
    arrays["A"][:] = arrays["A"][:1]
    a = torch.from_numpy(arrays["A"][:1].copy()).expand(3, 5, 20)
    c = torch.full((3, 5, 6), torch.nan)
    compile(case.canonical, "interpret")(a, torch.from_numpy(arrays["B"]), c)
    check(case, {"C": c.numpy()}, arrays)
