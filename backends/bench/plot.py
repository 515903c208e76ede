"""`loopir-triton plot`: ratio and roofline charts of the CSV files that `bench` wrote.

Exit codes: 0 done; 1 a file is no table of results, or has nothing to draw; 2 usage, a file that
cannot be read or written included; 3 a bug of ours.
"""

import argparse
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from backends.bench.arms import Group
from backends.bench.charts.axis import WIDTH
from backends.bench.charts.ratio import PEER_NAMES, RatioChart
from backends.bench.charts.roofline import Point, Roof, RooflineChart
from backends.bench.report import mean_lines
from backends.bench.results import PEERS, Result, chosen, with_times
from backends.bench.table import NoTable, Table, read_tables
from backends.planner.device import shipped
from passes.cli import DONE, REFUSED, complain
from passes.drawing import shapes

PROGRAM = "loopir-triton plot"
MOST_SHAPES = 2000  # of a drawing that anyone would look at


class Chart(Enum):
    """What is drawn; the value is the text form."""

    RATIO = "ratio"
    ROOFLINE = "roofline"
    BOTH = "both"


def main(argv: Sequence[str]) -> int:
    """Run with the arguments behind `plot`; the exit code."""
    arguments = parser()
    args = arguments.parse_args(argv)
    try:
        table = read_tables(args.file)
        svg = draw(table, Chart(args.chart), Group(args.against), args.title)
    except NoTable as refusal:
        complain(f"{PROGRAM}: {refusal}")
        return REFUSED
    except OSError as error:
        arguments.error(f"cannot read {error.filename}: {error.strerror}")
    if args.output is None:
        sys.stdout.write(svg)
        return DONE
    args.output.write_text(svg, encoding="utf-8")
    for text in mean_lines(table.shapes):
        print(text)
    return DONE


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=PROGRAM, allow_abbrev=False, description="Draw results of loopir-triton bench as SVG."
    )
    add, peers = made.add_argument, [group.value for group in PEERS]
    add("file", nargs="+", type=Path, metavar="CSV", help="what bench -o wrote")
    add("-o", "--output", type=Path, metavar="SVG", help="write it there, and print the means")
    add("--chart", default="both", choices=[c.value for c in Chart], help="(%(default)s)")
    add("--against", default="blas", choices=peers, help="the peer of the ratios (%(default)s)")
    add("--title", default="", help="in place of the word Speed")
    return made


def draw(table: Table, chart: Chart, against: Group, title: str = "") -> str:
    """The text of an SVG file. NoTable: there is nothing to draw, or too much."""
    _check(table)
    origins = "; ".join(origin.text for origin in table.origins)
    charts, top = [], 0.0
    if chart is not Chart.ROOFLINE:
        lines = (f"{title or 'Speed'} against {PEER_NAMES[against]}", origins)
        charts.append(RatioChart(_compared(table, against), against, lines))
        top = charts[-1].height
    if chart is not Chart.RATIO:
        lines = (f"{title or 'Speed'} against the roofline", origins)
        charts.append(RooflineChart(_points(table), _roofs(table), lines, top))
    height = sum(each.height for each in charts)
    return shapes.page(WIDTH, height, (line for each in charts for line in each.body()))


def _check(table: Table) -> None:
    if len(table.shapes) > MOST_SHAPES:
        raise NoTable(f"{len(table.shapes)} shapes; {MOST_SHAPES} can be drawn")
    if not any(map(chosen, table.shapes)):
        raise NoTable("no arm has a time, there is nothing to draw")


def _compared(table: Table, against: Group) -> dict[str, list[Result]]:
    """The results of each set that are compared with `against`."""
    sets: dict[str, list[Result]] = {}
    for best in filter(None, map(chosen, table.shapes)):
        if against in best.ratios:
            sets.setdefault(best.case.set, []).append(best)
    if not sets:
        raise NoTable(f"no result is compared with {against.value}; a bench needs such an arm")
    return sets


def _points(table: Table) -> dict[str, list[Point]]:
    sets: dict[str, list[Point]] = {}
    for found in table.shapes:
        if best := chosen(found):
            libraries = [r for r in with_times(found) if r.arm.group is Group.BLAS and r != best]
            sets.setdefault(best.case.set, []).append(Point(best, next(iter(libraries), None)))
    return sets


def _roofs(table: Table) -> list[Roof]:
    """Of each device that the planner knows, for each element type that was timed on it."""
    known, dtypes = shipped(), {r.case.problem.dtype.value for r in table.results}
    devices = [known[name] for name in table.devices if name in known]
    return [
        Roof(f"{device.name}, {name}", device.sustained_tflops[name], device.dram_tbps)
        for device in devices
        for name in sorted(dtypes & device.sustained_tflops.keys())
    ]
