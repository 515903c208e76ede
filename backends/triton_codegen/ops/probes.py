"""Small kernels that do one thing each, to be timed: nothing, reading."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

Arm: TypeAlias = Callable[[], object]

CHUNK = 8192  # int32 elements that a block of `_read` loads at a time


@triton.jit
def _nothing(x):
    pass


@triton.jit
def _read(source, target, chunks, CHUNK: tl.constexpr):
    """Blocks read chunks in turn."""
    offsets = tl.arange(0, CHUNK)
    seen = tl.zeros((CHUNK,), tl.int32)
    for i in range(tl.program_id(0), chunks, tl.num_programs(0)):
        seen ^= tl.load(source + i * CHUNK + offsets)
    tl.store(target + tl.program_id(0), tl.max(seen, 0))


def nothing() -> Arm:
    """An empty kernel."""
    return _launch(_nothing, 1, 1, (_ints(1),))


def read(megabytes: int, blocks: int) -> Arm:
    """A read of so many MB, each byte once."""
    chunks = (megabytes << 20) // (4 * CHUNK)
    arguments = _ints(chunks * CHUNK), _ints(blocks), chunks
    return _launch(_read, blocks, 8, arguments, CHUNK=CHUNK)


def _launch(kernel: Any, blocks: int, warps: int, arguments: tuple[Any, ...], **sizes: int) -> Arm:
    return lambda: kernel[(blocks,)](*arguments, **sizes, num_warps=warps)


def _ints(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, device="cuda")
