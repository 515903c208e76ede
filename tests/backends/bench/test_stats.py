import math
import random
import statistics

import pytest

from backends.bench.stats import (
    Ratio,
    Verdict,
    geometric_mean,
    median_interval,
    paired_ratio,
    sign_rank,
)


@pytest.mark.parametrize(
    ("count", "rank"),
    # Conover's and Wilcoxon's tables for the sign test, two-sided 5 %: ranks r + 1 and n - r
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (20, 5), (25, 7), (60, 21)],
)
def test_the_ranks_of_the_interval_are_those_of_the_tables(count: int, rank: int):
    assert sign_rank(count) == rank


def test_the_interval_is_made_of_order_statistics():
    values = [5.0, 1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.0, 10.0, 6.0]
    assert median_interval(values) == Ratio(2.0, 5.5, 9.0)


def test_the_interval_encloses_the_median_as_often_as_it_says():
    rng = random.Random(1)
    samples = [median_interval([rng.expovariate(1) for _ in range(30)]) for _ in range(2000)]
    inside = sum(s.low <= math.log(2) <= s.high for s in samples) / len(samples)
    assert 0.945 < inside < 0.985  # exactly 0.957 for 30 values
    control = sum(s.low <= 2 * math.log(2) <= s.high for s in samples) / len(samples)
    assert control < 0.6


def test_a_ratio_takes_the_fastest_baseline_of_each_round():
    ratio = paired_ratio([[10, 30, 10], [20, 20, 40]], [10, 10, 10])
    assert ratio == Ratio(1, 1, 2)  # 10, 20 and 10 over 10: never a median of one baseline


def test_drift_that_all_arms_share_leaves_the_ratio_alone():
    drift = [1 + 0.2 * math.sin(r / 7) for r in range(60)]
    ratio = paired_ratio([[20 * d for d in drift]], [16 * d for d in drift])
    assert ratio.high - ratio.low < 1e-9
    unpaired = statistics.median(drift[:30]) / statistics.median(drift[30:])
    assert abs(unpaired - 1) > 0.02


def test_what_lies_inside_the_interval_is_a_tie():
    verdicts = [
        Ratio(*ends).verdict for ends in [(0.9, 1, 1.1), (1.01, 1.1, 1.2), (0.8, 0.9, 0.99)]
    ]
    assert verdicts == [Verdict.TIE, Verdict.WIN, Verdict.LOSS]


def test_a_geometric_mean_has_a_narrower_interval_than_its_parts():
    mean = geometric_mean([Ratio(1.9, 2, 2.1), Ratio(0.475, 0.5, 0.525)])
    assert mean.value == pytest.approx(1)
    assert mean.high == pytest.approx(1.05 ** (2**0.5 / 2))
    assert geometric_mean([Ratio(1.9, 2, 2.1)]).low == pytest.approx(1.9)
