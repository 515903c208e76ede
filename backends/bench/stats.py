"""Figures of paired samples: medians, ratios with their interval, geometric means."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

CONFIDENCE = 0.95


class Verdict(Enum):
    """What a ratio says of our side; the value is the text form."""

    WIN = "won"
    TIE = "tied"
    LOSS = "lost"


@dataclass(frozen=True)
class Ratio:
    """A median with the ends of its confidence interval; above 1 is faster than the baseline."""

    low: float
    value: float
    high: float

    @property
    def is_tie(self) -> bool:
        """Whether the difference lies inside the interval."""
        return self.low <= 1 <= self.high

    @property
    def verdict(self) -> "Verdict":
        if self.is_tie:
            return Verdict.TIE
        return Verdict.WIN if self.low > 1 else Verdict.LOSS


def paired_ratio(baselines: Sequence[Sequence[float]], own: Sequence[float]) -> Ratio:
    """Baseline time over own time: of each round the fastest baseline of that round; the median of
    the rounds, and its interval by the sign test.

    `baselines`: the times of each, `own`: ours, all in the order of the rounds.
    """
    best = (min(times) for times in zip(*baselines, strict=True))
    return median_interval([base / time for base, time in zip(best, own, strict=True)])


def median_interval(values: Sequence[float]) -> Ratio:
    """The median with the two order statistics that enclose it with 95 % confidence, whatever the
    distribution; the extremes, where fewer than 6 values cannot. (Conover, Practical Nonparametric
    Statistics, 3.2.)"""
    ordered = sorted(values)
    cut = sign_rank(len(ordered))
    return Ratio(ordered[cut], statistics.median(ordered), ordered[-1 - cut])


def sign_rank(count: int) -> int:
    """How many of `count` sorted values may be cut from each end, so that what is left encloses the
    median with 95 % confidence: the largest r with P(Binomial(count, 1/2) <= r) <= 2.5 %."""
    tail, rank = 0.0, 0
    for i in range(count // 2):
        tail += math.comb(count, i) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        rank = i
    return rank


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    """Of the medians; its interval as of independent shapes: half widths of the logarithms add as
    squares."""
    logs = [math.log(r.value) for r in ratios]
    lows = [math.log(r.value / r.low) for r in ratios]
    highs = [math.log(r.high / r.value) for r in ratios]
    middle, count = math.fsum(logs) / len(logs), len(logs)
    return Ratio(
        math.exp(middle - math.hypot(*lows) / count),
        math.exp(middle),
        math.exp(middle + math.hypot(*highs) / count),
    )
