"""Small kernels that do one thing each, to be timed: nothing, reading."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

Arm: TypeAlias = Callable[[], object]

CHUNK = 8192  # int32 elements that a block of `_read` loads at a time
PANEL_A, PANEL_B = 4096, 8192  # int32 elements of 128 x 64 and of 256 x 64 in bf16
SHARE = 4  # blocks that load a panel together, and panels that a block has on the way


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


@triton.jit
def _panels(
    a, b, target, panels, ROWS: tl.constexpr, SKEW: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    SHARE: tl.constexpr,
):  # fmt: skip
    """The loads of a product without its products: SHARE blocks read the panels of row i of A and
    of column j of B; with SKEW, each tile begins at a panel of its own."""
    unit, part = tl.program_id(0) // SHARE, tl.program_id(0) % SHARE
    i, j = unit % ROWS, unit // ROWS
    in_a = part * (A // SHARE) + tl.arange(0, A // SHARE)
    in_b = part * (B // SHARE) + tl.arange(0, B // SHARE)
    seen_a, seen_b = tl.zeros((A // SHARE,), tl.int32), tl.zeros((B // SHARE,), tl.int32)
    for k in range(0, panels, SHARE):
        for step in tl.static_range(SHARE):
            at = (k + step + SKEW * unit) % panels
            seen_a ^= tl.load(a + (i * panels + at) * A + in_a)
            seen_b ^= tl.load(b + (j * panels + at) * B + in_b)
    tl.store(target + tl.program_id(0), tl.max(seen_a, 0) + tl.max(seen_b, 0))


def nothing() -> Arm:
    """An empty kernel."""
    return _launch(_nothing, 1, 1, (_ints(1),))


def read(megabytes: int, blocks: int) -> Arm:
    """A read of so many MB, each byte once."""
    chunks = (megabytes << 20) // (4 * CHUNK)
    arguments = _ints(chunks * CHUNK), _ints(blocks), chunks
    return _launch(_read, blocks, 8, arguments, CHUNK=CHUNK)


def panels(count: int, rows: int, columns: int, skew: int) -> Arm:
    """The loads of `rows` x `columns` tiles of 128 x 256, of `count` panels of 64 in bf16."""
    blocks = SHARE * rows * columns
    a, b = _ints(rows * count * PANEL_A), _ints(columns * count * PANEL_B)
    sizes = {"ROWS": rows, "SKEW": skew, "A": PANEL_A, "B": PANEL_B, "SHARE": SHARE}
    return _launch(_panels, blocks, 8, (a, b, _ints(blocks), count), **sizes)


def _launch(kernel: Any, blocks: int, warps: int, arguments: tuple[Any, ...], **sizes: int) -> Arm:
    return lambda: kernel[(blocks,)](*arguments, **sizes, num_warps=warps)


def _ints(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, device="cuda")
