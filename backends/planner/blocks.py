"""What a block of a configuration takes of a multiprocessor: shared memory, registers, threads."""

from itertools import product
from math import prod

from backends.planner.config import Config, Extent
from backends.planner.device import Device
from backends.planner.passes_of import descriptors, epilogue_pieces, stream_k_of, walks_tiles
from backends.planner.problem import Problem
from passes.stream_k import Decomposition, Merge

_SM_REGISTERS, _SM_THREADS, _SM_BLOCKS = 65536, 2048, 32
_OTHER_REGISTERS = 32  # of a thread, beside the accumulator
_VECTOR_REGISTERS = 22  # the same, of a GEMV
MOST_REGISTERS = 255  # of a thread
GROUP_ROWS = 64  # of the products of a warp group
_WORD_BYTES = 4  # of a register
_OTHER_SHARED = 1024  # bytes that a block has beside its stages: barriers, and the system's own


def residents(config: Config, problem: Problem, device: Device) -> int:
    """Blocks that an SM can have at a time, by shared memory, registers and threads; at least one.
    An estimate: the compiler says what it really takes."""
    threads = 32 * config.num_warps
    registers = min(MOST_REGISTERS, config.bm * config.bn // threads + _OTHER_REGISTERS)
    by_shared = device.shared_bytes // (shared_bytes(config, problem) + _OTHER_SHARED)
    by_registers = _SM_REGISTERS // (registers * threads)
    return max(1, min(by_shared, by_registers, _SM_THREADS // threads, _SM_BLOCKS))


def shared_bytes(config: Config, problem: Problem) -> int:
    """Bytes of the stages of a block, and of the part of a tile that a descriptor stores while the
    next one's panels are under way."""
    stages = config.num_stages - (0 if computes_in_groups(config) else 1)
    is_staged = descriptors(config) and _stores_whole_tiles(config, problem)
    staged = _staged_elements(config) * problem.result.bytes if is_staged else 0
    return stages * stage_bytes(config, problem) + staged


def _stores_whole_tiles(config: Config, problem: Problem) -> bool:
    """Whether a block may store a tile and go on; where a k-aligned tail is all there is, a second
    kernel stores."""
    walk = stream_k_of(config)
    if walk is None or not walks_tiles(config):
        return False
    tiles = problem.batch * -(-problem.m // config.bm) * -(-problem.n // config.bn)
    is_tail = walk.decomposition is Decomposition.K_ALIGNED and tiles < (walk.units or 0)
    return not (is_tail and walk.merge is Merge.FIXUP)


def _staged_elements(config: Config) -> int:
    """Of the pieces of a tile that are stored one after the other, those of one shape in one
    place."""
    shapes = set(product(*map(pieces, config.tile[:2])))
    return sum(map(prod, shapes)) // epilogue_pieces(config)


def pieces(extent: Extent) -> tuple[int, ...]:
    """The sizes that an extent is made of."""
    return extent if isinstance(extent, tuple) else (extent,)


def computes_in_groups(config: Config) -> bool:
    """Whether a tile has the rows that warp groups (wgmma) multiply; else warps do (mma)."""
    rows = config.tile[1 if config.swapped else 0]
    return min(pieces(rows)) >= GROUP_ROWS


def stage_bytes(config: Config, problem: Problem) -> int:
    """Bytes of the panels of A and B that a block loads at a time."""
    return (config.bm + config.bn) * config.bk * problem.dtype.bytes


def vector_registers(config: Config, problem: Problem) -> float:
    """Of a thread of a GEMV: sums for each vector, loads, and the rest."""
    vectors, many = sorted((config.bm, config.bn))
    elements = many * config.bk / (32 * config.num_warps)
    words = vectors * problem.accumulator.bytes + problem.dtype.bytes
    return elements * words / _WORD_BYTES + _VECTOR_REGISTERS


def vector_residents(config: Config, problem: Problem) -> int:
    """Blocks of a GEMV that an SM has at a time; none if they do not fit without spills."""
    registers = vector_registers(config, problem)
    if registers > MOST_REGISTERS:
        return 0
    return min(_SM_BLOCKS, int(_SM_REGISTERS / (registers * 32 * config.num_warps)))


def slot_bytes(config: Config, problem: Problem) -> int:
    """Bytes of a partial tile."""
    return config.bm * config.bn * problem.accumulator.bytes
