"""`loopir-triton bench`: times of products on the GPU of this machine.

Exit codes: 0 done; 1 an arm was wrong, hung or crashed, or time was up before the last shape; 2
usage, or no GPU; 3 a bug of ours.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from backends.bench.channel import Channel, Lost
from backends.bench.columns import About
from backends.bench.crew import Crew, Worker
from backends.bench.messages import Ending, Facts
from backends.bench.options import parser
from backends.bench.progress import Progress
from backends.bench.record import Record
from backends.bench.report import arm_lines, failure_lines, line, mean_lines, profile_line
from backends.bench.request import Request, request
from backends.bench.results import Result
from backends.bench.session import Session
from backends.bench.stopwatch import Part, Stopwatch
from backends.bench.worker import Lab
from loopir.errors import LoopIRError
from passes.cli import DONE, REFUSED, USAGE, complain

PROGRAM = "loopir-triton bench"
_BAD = {ending.value for ending in Ending} - {Ending.REFUSED.value}


def gpu_lab() -> Lab:
    """What a worker measures with; imported where it runs."""
    from backends.bench.gpu import GpuLab

    return GpuLab()


def gpu_worker() -> Channel:
    return Channel(gpu_lab, preload="backends.bench.gpu")


def main(argv: Sequence[str], connect: Callable[[], Channel] = gpu_worker) -> int:
    """Run with the arguments behind `bench`; the exit code. `connect`: starts a worker."""
    arguments = parser(PROGRAM)
    try:
        asked = request(arguments.parse_args(argv))
    except (ValueError, LoopIRError) as error:
        arguments.error(str(error))
    timer, crew = Worker(connect), Crew([Worker(connect) for _ in range(asked.jobs)])
    try:
        return _measured(asked, shlex.join(argv), timer, crew)
    except Lost as lost:
        complain(f"{PROGRAM}: error: {lost}")
        return USAGE
    finally:
        timer.kill()
        crew.kill()


def _measured(asked: Request, arguments: str, timer: Worker, crew: Crew) -> int:
    watch = Stopwatch()
    watch.begin(Part.START)
    facts = timer.start()
    watch.begin(Part.PLAN)
    tasks = asked.tasks(facts.device)
    watch.begin(Part.REST)
    record = Record(asked.output, _about(asked, arguments, facts)) if asked.output else None
    progress = Progress(len(tasks))
    session = Session(asked.method, timer, crew, progress, watch)
    try:
        found = _told(session.run(tasks), progress, record, asked.is_verbose)
    finally:
        watch.begin(Part.REST)
        if record:
            record.close(asked.cases, watch.seconds)
    code = _ended(found, len(tasks), record)
    if asked.is_profiled:
        print(profile_line(watch.seconds))
    return code


def _told(
    run: Iterator[tuple[Result, ...]], progress: Progress, record: Record | None, is_verbose: bool
) -> list[tuple[Result, ...]]:
    """All results, each printed and on disk before the next is waited for."""
    found = []
    try:
        for results in run:
            progress.clear()
            _print(results, is_verbose)
            found.append(results)
            if record:
                record.add(results)
    finally:
        progress.clear()
    return found


def _about(asked: Request, arguments: str, facts: Facts) -> About:
    return About(
        device=facts.device.name,
        versions=facts.versions,
        commit=asked.commit or _commit(),
        arguments=arguments,
        common=asked.common,
        pack=asked.method.pack,
        seed=asked.method.seed,
    )


def _print(results: Sequence[Result], is_verbose: bool) -> None:
    print(line(results))
    for text in (*(arm_lines(results) if is_verbose else ()), *failure_lines(results)):
        print(text)
    sys.stdout.flush()


def _ended(found: Sequence[Sequence[Result]], total: int, record: Record | None) -> int:
    for text in mean_lines(found):
        print(text)
    if record:
        print(f"{record.csv}, {record.manifest.name}")
    if len(found) < total:
        complain(f"{PROGRAM}: time was up before {total - len(found)} of {total} shapes")
    is_bad = any(r.status in _BAD for results in found for r in results)
    return REFUSED if is_bad or len(found) < total else DONE


def _commit() -> str:
    """Of this package's sources; `-dirty` behind it where they are changed."""
    run = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    try:
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
