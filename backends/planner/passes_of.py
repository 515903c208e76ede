"""What the passes of a configuration say of its kernel."""

from functools import lru_cache

from backends.planner.config import Config
from passes.base import Pass
from passes.descriptors import DescriptorsPass
from passes.epilogue_pieces import EpiloguePiecesPass
from passes.evict_first import EvictFirstPass
from passes.flatten import FlattenPass
from passes.pipeline import parse_pipeline
from passes.stream_k import StreamKPass
from passes.stream_k.options import SlotLayout, is_split_k, splits_tiles


def stream_k_of(config: Config) -> StreamKPass | None:
    """The pass that shares out its panels; None: a block a tile."""
    return next((p for p in _passes(config.pipeline) if isinstance(p, StreamKPass)), None)


def walks_tiles(config: Config) -> bool:
    """Whether a block may compute several tiles, one after the other."""
    walk = stream_k_of(config)
    return walk is not None and not is_split_k(walk)


def shares_tiles(config: Config) -> bool:
    """Whether blocks may meet in a tile, so that parts of it are put together."""
    walk = stream_k_of(config)
    return walk is not None and splits_tiles(walk)


def descriptors(config: Config) -> bool:
    """Whether tiles move by descriptors."""
    return any(isinstance(p, DescriptorsPass) for p in _passes(config.pipeline))


def reads_once(config: Config) -> bool:
    """Whether some of its loads say that caches need not keep what they read."""
    return any(isinstance(p, EvictFirstPass) for p in _passes(config.pipeline))


def overlaps_tiles(config: Config) -> bool:
    """Whether the first panels of a tile are loaded while the one before is finished."""
    return any(isinstance(p, FlattenPass) for p in _passes(config.pipeline))


def epilogue_pieces(config: Config) -> int:
    """In how many pieces a tile is finished."""
    found = (p.columns for p in _passes(config.pipeline) if isinstance(p, EpiloguePiecesPass))
    return next(found, 1)


def keeps_fragments(config: Config) -> bool:
    """Whether partial tiles lie in their slots as an accumulator has them."""
    walk = stream_k_of(config)
    return walk is not None and walk.slot_layout is not SlotLayout.ROW


@lru_cache(maxsize=4096)
def _passes(pipeline: str) -> tuple[Pass, ...]:
    return parse_pipeline(pipeline).passes
