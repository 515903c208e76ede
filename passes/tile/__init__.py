"""The pass `tile`, from a nest of single elements to tiles."""

from passes.tile.tile import TilePass

__all__ = ["TilePass"]
