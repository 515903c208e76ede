"""Loops that fold slots of a workspace: their loads run ahead of the sums, through shared memory.

A block that folds few slots after another waits for each from L2; the ring keeps several under way.
"""

from collections.abc import Collection, Mapping
from math import prod

from backends.triton_codegen.tiles import Tile
from loopir.effects import buffers_written
from loopir.nodes import Ewise, For, Load, Program
from loopir.walk import walk

#: that a block has under way, and the slots that they may be of
RING_BYTES = 48 * 1024
MOST_SLOTS = 8


def slots_of_others(program: Program, index: int) -> frozenset[str]:
    """The workspaces that an earlier kernel has filled. What blocks of the same kernel have stored
    is read by ordinary loads: an asynchronous copy may come from the cache of one
    multiprocessor."""
    written = {b for _, s in walk(program.kernels[index].body) for b in buffers_written(s)}
    return frozenset(w.name for w in program.workspaces) - written


def ring_stages(
    loop: For, trips: int | None, tiles: Mapping[str, Tile], workspaces: Collection[str]
) -> int:
    """`num_stages` of a loop that loads slots and combines them, and does nothing else; 0 of other
    loops, and where there is nothing to run ahead of. `trips`: None where the launch says."""
    loads = [s for s in loop.body if isinstance(s, Load)]
    is_fold = all(isinstance(s, Load | Ewise) for s in loop.body)
    if not (loads and is_fold and all(s.source.buffer in workspaces for s in loads)):
        return 0
    slot_bytes = sum(prod(tiles[s.tile].shape) * tiles[s.tile].dtype.bytes for s in loads)
    slots = min(MOST_SLOTS, RING_BYTES // slot_bytes)
    is_short = trips is not None and trips <= 2
    return 0 if is_short or slots < 2 else slots + 1
