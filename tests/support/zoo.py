"""Hand-written canonical programs of kinds that no builder makes, each with what it computes.

`tests/zoo/NAME.lir` is the program; `CASES` has an oracle for each that shares nothing with the
toolkit, and what Stream-K says of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from loopir.interp import random_inputs
from loopir.nodes import Program
from loopir.parser import parse
from loopir.types import Direction
from passes.stream_k import Merge

Arrays = dict[str, np.ndarray]
#: inputs by name, in f64 or i64 -> outputs by name
Oracle = Callable[[Mapping[str, np.ndarray]], Arrays]

ZOO = Path(__file__).parents[1] / "zoo"


@dataclass(frozen=True)
class Case:
    """`by_atomic`: the codes of `stream-k{merge=atomic units=U}`, none if it applies; `by_slots`:
    of merge=workspace and fixup. `sizes`: of launch symbols. `adjust` makes the inputs from
    integers in -4 .. 4."""

    name: str
    oracle: Oracle
    by_atomic: frozenset[str] = frozenset()
    by_slots: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    adjust: Callable[[np.ndarray], np.ndarray] | None = None

    def refused(self, merge: Merge) -> frozenset[str]:
        """The codes of a merge; atomic sums in a workspace add only, and run any epilogue."""
        if merge is Merge.ATOMIC:
            return self.by_atomic
        adds = self.by_atomic & {"SK03"} if merge is Merge.ATOMIC_WORKSPACE else frozenset()
        return self.by_slots | adds

    @property
    def text(self) -> str:
        return (ZOO / f"{self.name}.lir").read_text()

    @property
    def program(self) -> Program:
        return _parsed(self.text)

    def inputs(self, seed: int) -> Arrays:
        """Arrays of integers for every parameter, outputs poisoned."""
        arrays = random_inputs(self.program, seed, sizes=self.sizes)
        for param in self.program.kernels[0].params:
            if self.adjust is not None and param.direction is Direction.IN:
                arrays[param.name][...] = self.adjust(arrays[param.name])
        return arrays

    def expected(self, arrays: Arrays) -> Arrays:
        """The outputs in f64 or i64, from the inputs among `arrays`."""
        wide = {
            name: a.astype(np.float64 if a.dtype.kind == "f" else np.int64)
            for name, a in arrays.items()
        }
        return self.oracle(wide)


_parsed = cache(parse)


# --- oracles


def three_axes_row_max(x: Mapping[str, np.ndarray]) -> Arrays:
    gate = np.maximum(x["A"] @ x["D"], 0)
    return {"C": x["A"] @ x["B"] * gate + x["A"].max(2)[:, :, None]}


def two_outputs(x: Mapping[str, np.ndarray]) -> Arrays:
    total = x["A"] @ x["B"] + x["bias"][:, None]
    return {"C": total, "R": np.maximum(total, 0).T}


def complex_product(x: Mapping[str, np.ndarray]) -> Arrays:
    a, b = (x[n][..., 0] + 1j * x[n][..., 1] for n in "AB")
    return {"C": np.stack([(a @ b).real, (a @ b).imag], -1)}


def symmetric_gather(x: Mapping[str, np.ndarray]) -> Arrays:
    rows = x["A"].reshape(len(x["order"]), -1, x["A"].shape[1])[x["order"]]
    flat = rows.reshape(x["A"].shape)
    return {"C": flat @ flat.T}


def scattered_rows(x: Mapping[str, np.ndarray]) -> Arrays:
    sums = x["X"].sum(1).reshape(len(x["order"]), -1)
    result = np.empty_like(sums)
    result[x["order"]] = sums
    return {"Y": result.ravel()}


def diagonals(x: Mapping[str, np.ndarray]) -> Arrays:
    found = [np.trace(x["X"], offset=3 * d - 7) for d in range(11)]
    return {"Y": np.array(found)}


def weighted_moments(x: Mapping[str, np.ndarray]) -> Arrays:
    rows, w = x["X"], x["w"]
    return {"W": np.full(len(rows), w.sum()), "S": rows @ w, "Q": (rows * rows) @ w}


def bits(x: Mapping[str, np.ndarray]) -> Arrays:
    return {
        "A": np.bitwise_and.reduce(x["X"], axis=1),
        "O": np.bitwise_or.reduce(x["X"], axis=1),
    }


def conv2d(
    x: np.ndarray, f: np.ndarray, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1
) -> np.ndarray:
    """`x` [NB, C, H, W], `f` [OC, C // groups, R, S]: window by window, the definition."""
    batch, _, height, width = x.shape
    outputs, inputs, rows, columns = f.shape
    padded = np.zeros((batch, x.shape[1], height + 2 * pad, width + 2 * pad))
    padded[:, :, pad : pad + height, pad : pad + width] = x
    oh = (padded.shape[2] - dilation * (rows - 1) - 1) // stride + 1
    ow = (padded.shape[3] - dilation * (columns - 1) - 1) // stride + 1
    y = np.zeros((batch, outputs, oh, ow))
    for o, i, j in np.ndindex(outputs, oh, ow):
        first = o // (outputs // groups) * inputs
        window = padded[
            :,
            first : first + inputs,
            i * stride : i * stride + dilation * rows : dilation,
            j * stride : j * stride + dilation * columns : dilation,
        ]
        y[:, o, i, j] = (window[:, :, :rows, :columns] * f[o]).sum((1, 2, 3))
    return y


def conv2d_nhwc(x: Mapping[str, np.ndarray]) -> Arrays:
    image, filters = x["X"].transpose(0, 3, 1, 2), x["F"].transpose(3, 2, 0, 1)
    return {"Y": conv2d(image, filters, stride=2, pad=1).transpose(0, 2, 3, 1)}


def depthwise_conv1d(x: Mapping[str, np.ndarray]) -> Arrays:
    padded = np.pad(x["X"], ((0, 0), (0, 0), (1, 1)))
    taps = x["F"].shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=2)
    return {"Y": (windows * x["F"][None, :, None, :]).sum(3)}


def filter_gradient(x: Mapping[str, np.ndarray]) -> Arrays:
    image, g = x["X"], x["G"]
    oh, ow = g.shape[2:]
    d = np.zeros((g.shape[1], image.shape[1], image.shape[2] - oh + 1, image.shape[3] - ow + 1))
    for r, s in np.ndindex(*d.shape[2:]):
        d[:, :, r, s] = np.einsum("nchw,nohw->oc", image[:, :, r : r + oh, s : s + ow], g)
    return {"D": d}


def shuffled_pixels(x: Mapping[str, np.ndarray]) -> Arrays:
    y = np.einsum("hwk,kn->hwn", x["X"], x["F"])
    height, width, channels = y.shape
    parts = y.reshape(height, width, channels // 4, 2, 2)
    return {"Y": parts.transpose(2, 0, 3, 1, 4).reshape(channels // 4, 2 * height, 2 * width)}


def einsum(spec: str, out: str, *names: str) -> Oracle:
    return lambda x: {out: np.einsum(spec, *(x[n] for n in names))}


def nonzero(values: np.ndarray) -> np.ndarray:
    """-4 .. 4 as 1, 2, -1: products of many stay exact in f32."""
    return np.choose(np.abs(values).astype(int) % 3, (1, 2, -1))


def spread(values: np.ndarray) -> np.ndarray:
    """Small integers as patterns of 31 bits and a sign that have many bits in common."""
    return (values.astype(np.int64) * 0x1234567 ^ 0x55AA0F) | 0x8001


OPEN_CONV = {
    "NB": 2, "G": 2, "CG": 2, "OCG": 18, "H": 5, "W": 4, "R": 3, "S": 2, "OH": 5, "OW": 5,
}  # fmt: skip

#: every program of the zoo
CASES = (
    Case("three_axes_row_max", three_axes_row_max, frozenset({"SK03", "SK08"})),
    Case("transposed_store", einsum("mk,kn->nm", "C", "A", "B")),
    Case("two_outputs", two_outputs, frozenset({"SK08"})),
    Case("two_products", lambda x: {"C": x["A"] @ x["B"], "E": (x["A"] @ x["D"]).T}),
    Case("conv2d_nhwc", conv2d_nhwc),
    Case("conv2d_nchw_groups",
         lambda x: {"Y": conv2d(x["X"], x["F"], pad=1, dilation=2, groups=2)}),
    Case("conv2d_groups_open", lambda x: {"Y": conv2d(x["X"], x["F"], pad=1, groups=2)},
         sizes=OPEN_CONV),
    Case("depthwise_conv1d", depthwise_conv1d),
    Case("conv_weight_gradient", filter_gradient),
    Case("shuffled_pixels", shuffled_pixels),
    Case("gemv_columns", einsum("kn,k->n", "y", "A", "x")),
    Case("batched_gemv", einsum("lmk,lk->lm", "y", "A", "x")),
    Case("min_plus", lambda x: {"C": (x["A"][:, :, None] + x["B"]).min(1)}, frozenset({"SK03"})),
    Case("bits", bits, frozenset({"SK03"}), adjust=spread),
    Case("product", lambda x: {"Y": x["X"].prod(0)}, frozenset({"SK03"}), adjust=nonzero),
    Case("sum_and_max", lambda x: {"S": x["X"].sum(1), "T": x["X"].max(1)}, frozenset({"SK03"})),
    Case("complex_product", complex_product),
    Case("symmetric_gather", symmetric_gather),
    Case("scattered_rows", scattered_rows, frozenset({"SK10"}), frozenset({"SK10"})),
    Case("diagonals", diagonals),
    Case("one_element", einsum("ik,kj->ij", "C", "A", "B")),
    Case("masked_max", lambda x: {"Y": (x["X"] * x["Z"]).max(1)}, frozenset({"SK03"})),
    Case("four_axes", einsum("lthk,luhk->lhtu", "S", "Q", "E")),
    Case("waves", einsum("mk,kn->mn", "C", "A", "B")),
    Case("gemm_km", einsum("km,kn->mn", "C", "A", "B"), sizes={"M": 19, "K": 70}),
    Case("int8_gemm", einsum("mk,kn->mn", "C", "A", "B")),
    Case("contraction", einsum("ikl,ljk->ij", "C", "A", "B")),
    Case("weighted_moments", weighted_moments),
    Case("whole_sum", lambda x: {"Y": x["X"].sum().reshape(1)}),
    Case("reversed_rows", lambda x: {"Y": x["X"].sum(1)[::-1]}),
)  # fmt: skip
