"""Doing what follows the reduce of a tile for one piece of the tile after another: where it stands,
which axes go together, and the statements on a part of them."""

from passes.pieces.columns import Columns
from passes.pieces.cut import Knife
from passes.pieces.tails import Tail, tails_of, with_tails
from passes.pieces.ties import Dim, Obstacle, Tie, memory_ties, obstacles, reached, statement_ties

__all__ = [
    "Columns",
    "Dim",
    "Knife",
    "Obstacle",
    "Tail",
    "Tie",
    "memory_ties",
    "obstacles",
    "reached",
    "statement_ties",
    "tails_of",
    "with_tails",
]
