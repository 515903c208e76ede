"""What a pass will do to a program, in figures: tiles, waves, shares, workspace, determinism."""

from loopir.nodes import Program
from passes.base import Pass, Refused
from passes.decomposition.figures import ScheduleSummary

Rows = tuple[tuple[str, str], ...]


def explain(program: Program, p: Pass) -> str:
    """The rows that the pass reports for its plan, under its text, one a line; only the text if it
    reports none; the verdict's reasons if it refuses `program`."""
    verdict = p.can_be_applied(program)
    if isinstance(verdict, Refused):
        return verdict.explain()
    rows = p.report(verdict.plan)
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join((str(p), *(f"  {label:<{width}}  {text}" for label, text in rows)))


def schedule_rows(s: ScheduleSummary) -> Rows:
    """The figures of a decomposition, as rows (label, text)."""
    waves = s.data_parallel
    return (
        ("tiles", f"{s.tiles}, of {_count(s.panels, 'panel')} each"),
        ("panels in all", str(s.total)),
        ("waves, a block a tile", str(waves.count)),
        ("last wave", f"{waves.last} of {_count(waves.places, 'block')}"),
        ("utilisation", f"{100 * waves.utilization:.1f} %"),
        ("units", str(s.units)),
        ("panels a unit", _span(s.panels_per_unit_min, s.panels_per_unit_max)),
        ("largest over mean share", f"{s.load_ratio:.4f}"),
        ("split tiles", f"{s.split_tiles} of {s.tiles}"),
        ("contributors", f"at most {s.contributors_max} ({_histogram(s.contributors)})"),
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _histogram(pairs: tuple[tuple[int, int], ...]) -> str:
    texts = (f"{_count(tiles, 'tile')} with {contributors}" for contributors, tiles in pairs)
    return ", ".join(texts) or "no tile"
