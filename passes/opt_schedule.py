"""`loopir-opt --timeline` and `--trace`: what each unit of a schedule does when."""

from dataclasses import dataclass, field
from pathlib import Path

from loopir.nodes import Program
from passes.base import Refused
from passes.decomposition import Schedule, Timeline
from passes.drawing import to_svg, to_text, to_trace
from passes.explain import ASSUMED_SMS
from passes.opt_sizes import UsageError
from passes.pipeline import PassPipeline, PassTrace
from passes.stream_k import StreamKPass
from passes.stream_k.report import plan_timeline
from passes.stream_k.rewrite import Plan

COMMENTS = "-"
SVG, TEXT, JSON = ".svg", ".txt", ".json"
MOST_SMS = 2**20
MOST_ROWS = 2048  # of a drawing that anyone would look at
MOST_PARTS = 10**6  # tiles and units of a schedule that is simulated, in some ten seconds
_COMMENT_COLUMNS = 98  # what `# ` leaves of 100


def has_schedule(pipeline: PassPipeline) -> bool:
    return any(isinstance(p, StreamKPass) for p in pipeline.passes)


def check(pipeline: PassPipeline, timeline: str | None, trace: str | None, sms: int | None) -> None:
    """ValueError: an output that has no form, or nothing to draw."""
    if sms is not None and not 1 <= sms <= MOST_SMS:
        raise ValueError(f"--sms: 1 to {MOST_SMS}, not {sms}")
    if timeline not in (None, COMMENTS):
        _check_name("--timeline", timeline, (SVG, TEXT))
    if trace is not None:
        _check_name("--trace", trace, (JSON,))
    for option, name in (("--timeline", timeline), ("--trace", trace)):
        if name is not None and not has_schedule(pipeline):
            raise ValueError(
                f"{option}: no pass of the pipeline makes a schedule; add -p 'stream-k{{units=N}}'"
            )


def _check_name(option: str, name: str, endings: tuple[str, ...]) -> None:
    if Path(name).suffix not in endings or "\0" in name:
        wanted = " or ".join(f"NAME{ending}" for ending in endings)
        raise ValueError(f"{option}: {wanted}, not {name!r}")


@dataclass
class Drawings:
    """Gathers the plan of a program's stream-k pass, and draws it: `timeline` and `trace` are names
    of files, `timeline` may be `-`; `prefix` tells one program from another."""

    timeline: str | None
    trace: str | None
    sms: int | None
    prefix: str = ""
    plans: list[tuple[str, Plan]] = field(default_factory=list)

    def observe(self, trace: PassTrace) -> None:
        """An observer of the pipeline."""
        if (self.timeline or self.trace) and isinstance(trace.applied, StreamKPass):
            verdict = trace.applied.can_be_applied(trace.before)
            assert not isinstance(verdict, Refused)  # it has been applied
            self.plans.append((str(trace.applied), verdict.plan))

    def finish(self, program: Program) -> list[str]:
        """Write the files; the texts that are to be comments of the result. UsageError: a schedule
        that cannot be drawn. OSError: a file cannot be written."""
        return [text for applied, plan in self.plans for text in self._draw(program, applied, plan)]

    def _draw(self, program: Program, applied: str, plan: Plan) -> list[str]:
        title = f"@{program.kernels[0].name}, {applied}"
        _check_parts(plan.schedule)
        drawn = plan_timeline(plan, self.sms or ASSUMED_SMS)
        if drawn is None:
            raise UsageError(
                f"{applied}: the launch completes the schedule; to draw it, say units=N and bind "
                "the sizes in `where`"
            )
        if self.trace is not None:
            self._write(self.trace, to_trace(drawn, title))
        if self.timeline is None:
            return []
        _check_rows(drawn)
        if self.timeline == COMMENTS:
            return [to_text(drawn, title, columns=_COMMENT_COLUMNS)]
        is_svg = Path(self.timeline).suffix == SVG
        self._write(self.timeline, to_svg(drawn, title) if is_svg else to_text(drawn, title))
        return []

    def _write(self, name: str, text: str) -> None:
        path = Path(name)
        with open(
            path.with_name(self.prefix + path.name), "w", encoding="utf-8", newline="\n"
        ) as f:
            f.write(text)


def _check_parts(schedule: Schedule | None) -> None:
    if schedule is not None and schedule.tiles + schedule.units > MOST_PARTS:
        raise UsageError(
            f"{schedule.tiles} tiles and {schedule.units} units are too many to play, "
            f"{MOST_PARTS} at most"
        )


def _check_rows(drawn: Timeline) -> None:
    if len(drawn.events) > MOST_ROWS:
        raise UsageError(
            f"--timeline: {len(drawn.events)} units, {MOST_ROWS} at most; --trace takes them"
        )
