"""Small kernels that do one thing each, to be timed: nothing, reading, chasing, storing."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

Arm: TypeAlias = Callable[[], object]

CHUNK = 8192  # int32 elements that a block of `_read` loads at a time
PANEL_A, PANEL_B = 4096, 8192  # int32 elements of 128 x 64 and of 256 x 64 in bf16
SHARE = 4  # blocks that load a panel together, and panels that a block has on the way
SLOT = 128 * 128  # f32 elements of a partial tile


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


@triton.jit
def _chase(chain, target, steps):
    """Each load says where the next one is."""
    at = 0
    for _ in range(steps):
        at = tl.load(chain + at)
    tl.store(target, at)


@triton.jit
def _slots(slots, target, turns, SLOT: tl.constexpr):
    """Each block stores partial tiles, and loads those that its neighbour stored before."""
    unit, units = tl.program_id(0), tl.num_programs(0)
    offsets = tl.arange(0, SLOT)
    value = offsets.to(tl.float32)
    for turn in range(turns):
        tl.store(slots + ((turn + 1) * units + unit) * SLOT + offsets, value)
        value += tl.load(slots + (turn * units + (unit + 1) % units) * SLOT + offsets)
    tl.store(target + unit, tl.max(value, 0))


def nothing(times: int) -> Arm:
    """So many empty kernels."""
    run = _launch(_nothing, 1, 1, (_ints(1),))
    return lambda: [run() for _ in range(times)]


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


def chase(steps: int) -> Arm:
    """Loads one behind the other, each out of a row of DRAM of its own."""
    places, stride = 1 << 15, 1 << 10
    order = torch.randperm(places, generator=torch.Generator().manual_seed(0))
    chain = torch.zeros(places * stride, dtype=torch.int32)
    chain[order * stride] = (order.roll(-1) * stride).int()
    return _launch(_chase, 1, 1, (chain.cuda(), _ints(1), steps))


def slots(turns: int, blocks: int) -> Arm:
    """Partial tiles, stored and loaded `turns` times by each block."""
    memory = torch.zeros((turns + 1) * blocks * SLOT, device="cuda")
    target = torch.empty(blocks, device="cuda")
    return _launch(_slots, blocks, 8, (memory, target, turns), SLOT=SLOT)


def _launch(kernel: Any, blocks: int, warps: int, arguments: tuple[Any, ...], **sizes: int) -> Arm:
    return lambda: kernel[(blocks,)](*arguments, **sizes, num_warps=warps)


def _ints(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, device="cuda")
