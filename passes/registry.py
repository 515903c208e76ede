"""Every pass that a pipeline string can name."""

from passes.base import Pass
from passes.mma_expand import MmaExpandPass
from passes.stream_k import StreamKPass
from passes.tile_order import TileOrderPass

_ALL = (MmaExpandPass, StreamKPass, TileOrderPass)
PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in _ALL}
