"""Times of several functions on the GPU, interleaved round by round, each behind work that hides
its launch and flushes L2."""

import statistics
from collections.abc import Callable, Sequence

import torch

_FLUSH_BYTES = 256 << 20


def medians_us(arms: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The median time of each arm in us, on the current device. Each arm runs three times before;
    rounds rotate, the second half in reverse."""
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times: list[list[float]] = [[] for _ in arms]
    for arm in [*arms] * 3:
        arm()
    for turn in range(rounds):
        order = [(turn + i) % len(arms) for i in range(len(arms))]
        for i in order if turn < rounds // 2 else reversed(order):
            times[i].append(_time_us(arms[i], flush))
    return [statistics.median(of_arm) for of_arm in times]


def _time_us(arm: Callable[[], object], flush: torch.Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.fill_(0)
    flush.fill_(1)
    start.record()
    arm()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3
