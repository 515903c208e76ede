"""The untiled nest of a convolution: an implicit GEMM of (batch, output pixels) by output channels,
summed over input channels and the window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from loopir.build.arguments import check_name, check_sizes, choice, dtypes
from loopir.build.epilogue import Epilogue, Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp


class ConvLayout(Enum):
    """The order of dimensions of input and output: n batch, c channel, h and w pixel."""

    NCW = "ncw"
    NWC = "nwc"
    NCHW = "nchw"
    NHWC = "nhwc"

    def order(self, channel: str, pixel: Sequence[str]) -> str:
        """The texts of a channel and of a pixel's dimensions, in this order, without the batch."""
        return ", ".join((*pixel, channel) if self.channels_last else (channel, *pixel))

    @property
    def channels_last(self) -> bool:
        return self.value.endswith("c")


def conv_nest(
    batch: int | None,
    in_channels: int | None,
    size: Sequence[int | None],
    out_channels: int | None,
    window: Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: ConvLayout | str | None = None,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    epilogue: Epilogue | None = None,
    name: str = "conv",
) -> Program:
    """Y = epilogue(cross-correlation of X with F), as torch's `conv1d` and `conv2d` define it,
    accumulated in f32 (f64 for f64, i32 for i8).

    `size` (W,) or (H, W), `window` (S,) or (R, S); `stride`, `padding` (zeros on both sides) and
    `dilation`: one int, or one for each dimension of a pixel. Batch, channels and size may be None,
    to be left open. `layout`: ncw or nchw if None. Parameters X[NB, channels, H, W],
    F[out channels, channels / groups, R, S], `bias`[out channels], `residual` like Y, Y[NB, out
    channels, OH, OW]; with nwc and nhwc the channels of X, F and Y come last (of F, those of X).
    ValueError names a bad argument.
    """
    check_name(name)
    types = dtypes(dtype, out_dtype)
    axes = _axes(size, window, stride=stride, padding=padding, dilation=dilation)
    layout = _layout(layout, len(axes))
    channels = _channels(in_channels, out_channels, groups)
    check_sizes({"batch": batch})
    where = {"NB": batch, **channels, **{n: v for axis in axes for n, v in axis.where.items()}}
    return _nest(name, types, layout, axes, where, epilogue)


@dataclass(frozen=True)
class _Axis:
    """A dimension of a pixel, as text: H, R, oh, OH, r, where the input pixel lies, and the sizes;
    or W, S, and so on."""

    size: str
    window: str
    out: str
    out_size: str
    tap: str
    index: str
    where: Mapping[str, int | str | None]


def _axes(
    size: Sequence[int | None], window: Sequence[int], **steps: int | Sequence[int]
) -> tuple[_Axis, ...]:
    rank = len(window)
    if rank not in (1, 2) or any(type(n) is not int or n < 1 for n in window):
        raise ValueError(f"window: one or two ints >= 1, not {window!r}")
    if len(size) != rank:
        raise ValueError(f"size: as many as the window has, {rank}, not {size!r}")
    for n in size:
        check_sizes({"size": n})
    values = [_each(rank, name, value) for name, value in steps.items()]
    letters = ("HR", "WS")[-rank:]
    return tuple(map(_axis, letters, size, window, *values))


def _each(rank: int, name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """A stride, a padding or a dilation for each dimension of a pixel."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    least = 0 if name == "padding" else 1
    if len(values) != rank or any(type(v) is not int or v < least for v in values):
        raise ValueError(f"{name}: an int >= {least}, or {rank} of them, not {value!r}")
    return values


def _axis(
    letters: str, size: int | None, window: int, stride: int, padding: int, dilation: int
) -> _Axis:
    x, w = letters
    span = dilation * (window - 1) + 1
    if size is not None and size + 2 * padding < span:
        raise ValueError(f"window: {span} do not fit in {size} + 2 * {padding}")
    where = {x: size, w: window, f"S{x}": stride, f"P{x}": padding, f"D{x}": dilation}
    where[f"O{x}"] = f"({x} + 2 * P{x} - D{x} * ({w} - 1) - 1) // S{x} + 1"
    out, tap = f"o{x.lower()}", w.lower()
    index = f"{out} * S{x} + {tap} * D{x} - P{x}"
    return _Axis(x, w, out, f"O{x}", tap, index, where)


def _layout(layout: ConvLayout | str | None, rank: int) -> ConvLayout:
    if layout is None:
        return ConvLayout.NCW if rank == 1 else ConvLayout.NCHW
    layout = choice(ConvLayout, layout, "layout")
    if len(layout.value) != rank + 2:
        raise ValueError(f"layout: {layout.value} is not of {rank} dimension(s) a pixel")
    return layout


def _channels(ins: int | None, outs: int | None, groups: int) -> dict[str, int | None]:
    """The channels of one group: C in, OC out; and G, if there are several."""
    check_sizes({"in_channels": ins, "out_channels": outs})
    if type(groups) is not int or groups < 1:
        raise ValueError(f"groups: an int >= 1, not {groups!r}")
    for name, count in (("in_channels", ins), ("out_channels", outs)):
        if count is not None and count % groups:
            raise ValueError(f"{name}: {count} is no multiple of {groups} groups")
    each = {"C": ins, "OC": outs}
    each = {name: count and count // groups for name, count in each.items()}
    return {"G": groups, **each} if groups > 1 else each


def _nest(
    name: str,
    types: tuple[DType, DType, DType],
    layout: ConvLayout,
    axes: tuple[_Axis, ...],
    where: Mapping[str, int | str | None],
    epilogue: Epilogue | None,
) -> Program:
    dtype, acc, out_dtype = types
    times, group, outs = ("G * ", {"g": "G"}, "g * OC + oc") if "G" in where else ("", {}, "oc")
    ins = outs.replace("OC", "C").replace("oc", "c")
    masked = " masked" if any(where[f"P{axis.size}"] for axis in axes) else ""
    pixels, taps = [axis.index for axis in axes], [axis.tap for axis in axes]
    x = Operand("x", dtype, f"X[n, {layout.order(ins, pixels)}]{masked}")
    f = Operand("f", dtype, f"F[{outs}, {layout.order('c', taps)}]")
    shapes = {
        "X": "NB, " + layout.order(f"{times}C", [axis.size for axis in axes]),
        "F": f"{times}OC, " + layout.order("C", [axis.window for axis in axes]),
        "Y": "NB, " + layout.order(f"{times}OC", [axis.out_size for axis in axes]),
    }
    at = "n, " + layout.order(outs, [axis.out for axis in axes])
    out = Output("Y", out_dtype, shapes["Y"], Place(f"[{at}]"), f"{times}OC", Place(f"[{outs}]"))
    back = writeback("acc", acc, out, epilogue)
    windows = {axis.tap: axis.window for axis in axes}
    return Nest(
        name,
        (param("X", dtype, shapes["X"]), param("F", dtype, shapes["F"]), *back.params),
        where,
        {**group, "n": "NB", **{axis.out: axis.out_size for axis in axes}, "oc": "OC"},
        {**windows, "c": "C"} if layout.channels_last else {"c": "C", **windows},
        (x, f),
        (Accumulated("acc", ReduceOp.ADD, acc, f"{x.as_(acc)} * {f.as_(acc)}"),),
        back.lines,
    ).program()
