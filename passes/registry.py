"""Every pass that a pipeline string can name."""

from passes.base import Pass
from passes.descriptors import DescriptorsPass
from passes.epilogue_pieces import EpiloguePiecesPass
from passes.evict_first import EvictFirstPass
from passes.flatten import FlattenPass
from passes.local_storage import LocalStoragePass
from passes.mma_expand import MmaExpandPass
from passes.offload import OffloadPass
from passes.stream_k import StreamKPass
from passes.tile import TilePass
from passes.tile_order import TileOrderPass

_ALL = (
    DescriptorsPass,
    EpiloguePiecesPass,
    EvictFirstPass,
    FlattenPass,
    LocalStoragePass,
    MmaExpandPass,
    OffloadPass,
    StreamKPass,
    TileOrderPass,
    TilePass,
)
PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in _ALL}
