"""A convolution without its tensors, and how it is cut up: where tensor cores multiply whole rows
of channels as the planner would cut that product by pointer loads, else by a rule of thumb."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from backends.planner import Config, Device, Kind, Problem, family, predict
from backends.triton_codegen.settings import Settings
from loopir.build import ConvLayout, Epilogue, conv_nest
from loopir.nodes import Program
from loopir.types import DType

Pair: TypeAlias = tuple[int, int]
_HALVES = (DType.F16, DType.BF16)
_LEAST_PANELS = 4  # of a slice of a tile's sum, to be worth sharing out
_STEP_BYTES = 16  # of channels, that one load takes
_TRIED = 3  # of the planner's, where the compiler refuses the first
_BOX_PASSES = ("descriptors", "epilogue-pieces", "flatten")  # for operands that move as boxes
_WALK = "decomposition=data-parallel"  # whose loop takes the registers that addresses need


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
    """A tile of rows (pixels) and columns (output channels), a panel of the sum, the passes behind
    the tiling, and how the kernel is compiled."""

    rows: int
    columns: int
    panel: int
    schedule: str
    settings: Settings

    @property
    def pipeline(self) -> str:
        tile = f"tile{{m={self.rows} n={self.columns} k={self.panel}}}"
        return ",".join(filter(None, (tile, "offload,local-storage", self.schedule)))


def cuts(c: Convolution, device: Device) -> Iterator[Cut]:
    """The best first."""
    if c.dtype not in _HALVES:  # no tensor core: products of elements
        return iter((_ruled(c, (64, 64, 32), 2 if c.dtype is DType.F64 else 3, device),))
    if not c.layout.channels_last:  # addressed element by element, which takes registers
        return iter((_ruled(c, (128, 64, 32), 3, device),))
    if c.channels * c.dtype.bytes % _STEP_BYTES:
        return iter((_ruled(c, (128, 64, 64), 3, device),))
    return chain(_planned(c, device), (_ruled(c, (128, 128, 64), 3, device),))


def _planned(c: Convolution, device: Device) -> Iterator[Cut]:
    problem = Problem(c.pixels, c.outputs, c.terms, dtype=c.dtype, epilogue=c.epilogue)
    found = {_by_pointers(config): None for config in family(problem, device) if _is_plain(config)}
    for config in sorted(found, key=lambda c: predict(c, problem, device).time)[:_TRIED]:
        settings = Settings(**config.settings())
        yield Cut(config.bm, config.bn, config.bk, config.pipeline, settings)


def _is_plain(config: Config) -> bool:
    sizes = (isinstance(extent, int) for extent in config.tile)
    is_tile = config.kind is Kind.GEMM and not config.swapped and all(sizes)
    return is_tile and _WALK not in config.pipeline


def _by_pointers(config: Config) -> Config:
    passes = (name for name in config.pipeline.split(",") if name not in _BOX_PASSES)
    return replace(config, pipeline=",".join(passes))


def _ruled(c: Convolution, tile: tuple[int, int, int], stages: int, device: Device) -> Cut:
    """No larger than the product, in steps that a `dot` has; the sums of few tiles are shared
    out."""
    rows, columns, panel = tile
    rows, columns = min(rows, _power(c.pixels)), min(columns, _power(c.outputs))
    tiles = -(-c.pixels // rows) * -(-c.outputs // columns)
    splits = min(device.sms // max(1, tiles), c.terms // (_LEAST_PANELS * panel))
    options = f"merge=fixup decomposition=split-k splits={splits} slot-order=split-slowest"
    schedule = f"stream-k{{{options} slot-layout=auto}}" if splits > 1 else ""
    return Cut(rows, columns, panel, schedule, Settings(num_warps=8, num_stages=stages))


def _power(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())
