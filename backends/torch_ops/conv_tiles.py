"""A convolution without its tensors, and how it is cut up: by rules of thumb, since no cost model
knows convolutions yet."""

from dataclasses import dataclass
from typing import TypeAlias

from backends.triton_codegen.settings import Settings
from loopir.build import ConvLayout, Epilogue, conv_nest
from loopir.nodes import Program
from loopir.types import DType

Pair: TypeAlias = tuple[int, int]
_HALVES = (DType.F16, DType.BF16)
_LEAST_PANELS = 8  # of a tile, whose sum is worth sharing out


@dataclass(frozen=True)
class Convolution:
    """Of `batch` images of `channels` channels and `size` pixels, to `outputs` channels."""

    batch: int
    channels: int
    size: Pair
    outputs: int
    window: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    layout: ConvLayout
    dtype: DType
    epilogue: Epilogue

    @property
    def pixels(self) -> int:
        """Of the result, in all images: the rows of the product that it is."""
        high, wide = (
            (n + 2 * p - d * (w - 1) - 1) // s + 1
            for n, w, s, p, d in zip(
                *(self.size, self.window, self.stride, self.padding, self.dilation), strict=True
            )
        )
        return self.batch * high * wide

    @property
    def terms(self) -> int:
        """How many products an element of the result sums up."""
        return self.channels * self.window[0] * self.window[1]

    def nest(self) -> Program:
        sizes = self.batch, self.channels, self.size, self.outputs, self.window
        steps = self.stride, self.padding, self.dilation
        types = self.dtype, self.dtype
        return conv_nest(*sizes, *steps, 1, self.layout, *types, self.epilogue)


@dataclass(frozen=True)
class Cut:
    """A tile of rows (pixels) and columns (output channels), a panel of the sum, and how the kernel
    is compiled."""

    rows: int
    columns: int
    panel: int
    settings: Settings

    def pipeline(self, c: Convolution, sms: int) -> str:
        """The sums of few tiles are shared out."""
        tiles = -(-c.pixels // self.rows) * -(-c.outputs // self.columns)
        is_shared = 2 * tiles <= sms and c.terms >= _LEAST_PANELS * self.panel
        tile = f"tile{{m={self.rows} n={self.columns} k={self.panel}}}"
        return f"{tile},offload,local-storage{',stream-k' if is_shared else ''}"


def cut(c: Convolution) -> Cut:
    if c.dtype not in _HALVES:  # no tensor core: products of elements
        return _cut(c, (64, 64, 32), 2 if c.dtype is DType.F64 else 3)
    if not c.layout.channels_last:  # addressed element by element, which takes registers
        return _cut(c, (128, 64, 32), 3)
    return _cut(c, (128, 128, 64), 3)


def _cut(c: Convolution, tile: tuple[int, int, int], stages: int) -> Cut:
    """No larger than the product, in steps that a `dot` has."""
    rows, columns, panel = tile
    settings = Settings(num_warps=8, num_stages=stages)
    return Cut(min(rows, _power(c.pixels)), min(columns, _power(c.outputs)), panel, settings)


def _power(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())
