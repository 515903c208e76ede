"""Pieces of what follows the reduce of a tile: which axes go together, and statements on a part."""

from passes.pieces.cut import Knife
from passes.pieces.ties import Dim, Obstacle, Tie, memory_ties, obstacles, reached, statement_ties

__all__ = [
    "Dim",
    "Knife",
    "Obstacle",
    "Tie",
    "memory_ties",
    "obstacles",
    "reached",
    "statement_ties",
]
