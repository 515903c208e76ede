"""The words of the pass's options, and what the criteria may ask of them."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

from passes.decomposition import Bounds, Direction, HybridKind, SlotOrder


class Merge(Enum):
    """How the partial tiles of a split output tile meet.

    WORKSPACE: slots and a counter, the last unit to arrive folds them in k order; what AUTO is.
    FIXUP: slots, folded by a second kernel. ATOMIC_WORKSPACE: atomic adds into one zeroed slot, the
    last unit takes it. ATOMIC: atomic adds into the zeroed output.
    """

    AUTO = "auto"
    WORKSPACE = "workspace"
    FIXUP = "fixup"
    ATOMIC_WORKSPACE = "atomic-workspace"
    ATOMIC = "atomic"


class Decomposition(Enum):
    """Which schedule of `passes.decomposition` the units follow; the value is the text form.

    AUTO is STREAM_K; with Merge.AUTO, and nothing said of how ranges are cut, it is equal slices of
    every tile for accumulators in MMA fragments, where `fragments` finds some.
    """

    AUTO = "auto"
    STREAM_K = "stream-k"
    SPLIT_K = "split-k"
    HYBRID = "hybrid"
    K_ALIGNED = "k-aligned"
    DATA_PARALLEL = "data-parallel"


class Part(Enum):
    """A part of a hybrid schedule."""

    STREAM_K = "stream-k"
    DATA_PARALLEL = "data-parallel"


class SlotLayout(Enum):
    """How a partial tile lies in its slot; the value is the text form.

    FRAGMENTS: as a thread has it in an MMA accumulator (`loopir.fragment_order`), 16 bytes a store,
    which its shape must let it. AUTO: that, of accumulators that a `dot` makes, where it does.
    """

    ROW = "row"
    FRAGMENTS = "fragments"
    AUTO = "auto"


class Options(Protocol):
    """The fields of `StreamKPass` that the criteria and the planning read; documented there."""

    @property
    def merge(self) -> Merge: ...
    @property
    def decomposition(self) -> Decomposition: ...
    @property
    def units(self) -> int | None: ...
    @property
    def splits(self) -> int | None: ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def min_panels(self) -> int: ...
    @property
    def cost(self) -> int: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def slot_order(self) -> SlotOrder: ...
    @property
    def tail(self) -> HybridKind: ...
    @property
    def first(self) -> Part: ...
    @property
    def pieces(self) -> int | None: ...
    @property
    def slot_layout(self) -> SlotLayout: ...
    @property
    def permuted(self) -> bool: ...
    @property
    def launch_constants(self) -> bool: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def target(self) -> str: ...


def splits_tiles(options: Options) -> bool:
    """Whether two units can meet in a tile, so that a merge asks something of the program."""
    return options.decomposition is not Decomposition.DATA_PARALLEL


def merge_of(options: Options) -> Merge:
    """The merge that the options ask for."""
    return Merge.WORKSPACE if options.merge is Merge.AUTO else options.merge


def adds_atomically(options: Options) -> bool:
    """Whether the order of arrival is the order of the additions."""
    return merge_of(options) in (Merge.ATOMIC, Merge.ATOMIC_WORKSPACE)


def is_stream_k(options: Options) -> bool:
    """Whether the units walk equal ranges of all tiles."""
    kinds = (Decomposition.AUTO, Decomposition.STREAM_K)
    return options.decomposition in kinds and options.splits is None


def is_split_k(options: Options) -> bool:
    """Whether every tile is cut alike: `splits` alone asks for it too."""
    return options.decomposition is Decomposition.SPLIT_K or options.splits is not None


def conflicts(options: Options) -> Iterator[str]:
    """What the options say that no schedule can do, as texts that start with the option's name."""
    kind = options.decomposition
    ranges = is_stream_k(options) or kind is Decomposition.HYBRID
    in_waves = kind in (Decomposition.HYBRID, Decomposition.K_ALIGNED)
    if kind is Decomposition.SPLIT_K and options.splits is None:
        yield "splits: decomposition=split-k needs it"
    if (in_waves or kind is Decomposition.DATA_PARALLEL) and options.splits is not None:
        yield f"splits: not with decomposition={kind.value}"
    if in_waves and options.units is None:
        yield f"units: decomposition={kind.value} needs it"
    if kind is Decomposition.SPLIT_K and options.units is not None:
        yield "units: not with decomposition=split-k, which has tiles * splits"
    if options.permuted and is_stream_k(options) and options.units is None:
        yield "permuted: the launch must not pick the units; say units or splits"
    if not ranges:
        yield from _said(options, _OF_RANGES, "only of stream-k and hybrid, without splits")
    if not (ranges or in_waves):
        yield from _said(options, _OF_PARTS, "only of stream-k, hybrid and k-aligned")
    if options.splits is None:
        yield from _said(options, _OF_SLICES, "only with splits")
    if kind is not Decomposition.HYBRID:
        yield from _said(options, _OF_HYBRIDS, "only of hybrid")
    if kind is not Decomposition.K_ALIGNED:
        yield from _said(options, _OF_K_ALIGNED, "only of k-aligned")
    if options.merge is not Merge.FIXUP:
        yield from _said(options, _OF_FIXUP, "only of merge=fixup")
    if options.merge is Merge.ATOMIC:
        yield from _said(options, _OF_SLOTS, "not with merge=atomic, which has no slots")


_OF_RANGES = {"bounds": Bounds.FLOOR, "direction": Direction.FORWARD}
_OF_PARTS = {"min_panels": 1}
_OF_SLICES = {"slot_order": SlotOrder.SPLIT_FASTEST}
_OF_HYBRIDS = {"tail": HybridKind.TWO_TILE, "first": Part.STREAM_K}
_OF_K_ALIGNED = {"cost": 0}
_OF_FIXUP = {"pieces": None}
_OF_SLOTS = {"slot_layout": SlotLayout.ROW}


def _said(options: Options, defaults: Mapping[str, object], where: str) -> Iterator[str]:
    """The options that are not as they were left, each with where it has a meaning."""
    said = (name for name, default in defaults.items() if getattr(options, name) != default)
    return (f"{name}: {where}" for name in said)
