"""Every pass that a pipeline string can name."""

from passes.base import Pass
from passes.stream_k import StreamKPass
from passes.tile_order import TileOrderPass

PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in (StreamKPass, TileOrderPass)}
