"""What a run prints: a line a shape, a geometric mean a set."""

from collections.abc import Mapping, Sequence

from backends.bench.arms import Group
from backends.bench.results import OK, Case, Result, chosen, one_line, with_times
from backends.bench.stats import Ratio, Verdict, geometric_mean
from backends.bench.stopwatch import Part

_SHOWN_FAILURES, _REASON = 4, 100


def line(found: Sequence[Result]) -> str:
    """Of one shape: set, sizes, us, TFLOP/s, GB/s, ratio to the fastest library, what was run."""
    best = chosen(found)
    if best is None:
        case = found[0].case
        return f"{_head(case)}  no arm has a time"
    return f"{_head(best.case)} {figures(best)}  {_what(best)}"


def figures(r: Result) -> str:
    us, tflops, gbs = r.us or 0.0, r.tflops or 0.0, r.gbs or 0.0
    ratio = ratio_text(r.ratios.get(Group.BLAS))
    return f"{us:9.2f} us {tflops:6.1f} TFLOP/s {gbs:5.0f} GB/s  {ratio:27}"


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    tie = " tie" if ratio.is_tie else ""
    return f"x{ratio.value:.3f} ({ratio.low:.3f}..{ratio.high:.3f}){tie}"


def arm_lines(found: Sequence[Result]) -> list[str]:
    """Every arm of a shape that has times, the fastest first, with the host's time of a launch."""
    return [
        f"{'':12}{r.arm.group.value:>14} {figures(r)}  host {r.host_us or 0.0:5.1f} us  {_what(r)}"
        for r in with_times(found)
    ]


def failure_lines(found: Sequence[Result], shown: int = _SHOWN_FAILURES) -> list[str]:
    """Of the arms that have no times, the first few with the reason."""
    failed = [r for r in found if r.status != OK]
    lines = [_failure(r) for r in failed[:shown]]
    if len(failed) > shown:
        lines.append(f"{'':27}and {len(failed) - shown} more without times")
    return lines


def _failure(r: Result) -> str:
    return f"{'':12}{r.status:>14} {r.arm.name}: {one_line(r.reason, _REASON)}"


def mean_lines(found: Sequence[Sequence[Result]]) -> list[str]:
    """A line a set and peer: the geometric mean of the chosen arms' ratios, with how many won."""
    by_set: dict[tuple[str, Group], list[Ratio]] = {}
    for best in filter(None, map(chosen, found)):
        for group, ratio in best.ratios.items():
            by_set.setdefault((best.case.set, group), []).append(ratio)
    return [
        f"{name:12} against {group.value:14} geometric mean {mean_text(ratios)}"
        for (name, group), ratios in by_set.items()
    ]


def mean_text(ratios: Sequence[Ratio]) -> str:
    """The geometric mean, how many were won, tied and lost, and the least of them."""
    verdicts = [r.verdict for r in ratios]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict.value}" for verdict in Verdict)
    mean, least = geometric_mean(ratios), min(r.value for r in ratios)
    ends = f"({mean.low:.3f}..{mean.high:.3f})"
    return f"x{mean.value:.3f} {ends} of {len(ratios)}: {counts}; least x{least:.3f}"


def profile_line(seconds: Mapping[Part, float]) -> str:
    """Where the seconds of a run went."""
    parts = ", ".join(f"{part.value} {value:.1f}" for part, value in seconds.items())
    return f"{sum(seconds.values()):.1f} s: {parts}"


def _head(case: Case) -> str:
    return f"{case.set:12} {case.sizes_text:>17}"


def _what(r: Result) -> str:
    text = str(r.arm.config or "")
    return text if r.arm.name == text else f"{r.arm.name} {text}".rstrip()
