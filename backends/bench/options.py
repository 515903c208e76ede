"""The arguments of `loopir-triton bench`."""

import argparse
import math
import os
from pathlib import Path

from backends.bench.arms import BASELINES, DEFAULT_BASELINES, PLANNER
from backends.bench.shapes import ALL, shape_sets
from backends.bench.sweep import DEFAULTS
from backends.bench.task import Method
from loopir.types import DType

_TYPES = ("bf16", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "i8")


def parser(program: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="Time products on a GPU: arms interleaved round by round with a cold L2, "
        "checked before and after, against the fastest library of each round.",
    )
    _shapes(made.add_argument_group("shapes"))
    _arms(made.add_argument_group("arms"))
    _measuring(made.add_argument_group("measuring"))
    _output(made.add_argument_group("output"))
    return made


def _shapes(group) -> None:
    add = group.add_argument
    sets = ", ".join(shape_sets())
    add("axes", nargs="*", metavar="m=|n=|k=", help="sizes or ranges: m=128:4096:128 n=4096 k=4096")
    add("--set", action="append", default=[], metavar="NAME", help=f"{sets}, or {ALL}")
    add("--shape", action="append", default=[], metavar="MxNxK", help="may be repeated")
    add("--random", type=int, default=0, metavar="N", help="log-uniform shapes, drawn with --seed")
    add("--batch", type=int, default=1, help="products of each shape (%(default)s)")
    add("--dtype", default="bf16", choices=_TYPES, help="of A and B (%(default)s)")
    add("--out-dtype", choices=[t.value for t in DType], help="of C, that of A if not said")
    add("--layout", default="row,col", metavar="A,B", help="row or col each (%(default)s)")


def _arms(group) -> None:
    add = group.add_argument
    add(
        "--arm",
        action="append",
        default=[],
        metavar="ARM",
        help=f"{PLANNER} (if nothing else is said), matmul, config:TEXT, or a baseline",
    )
    add("--config", action="append", default=[], metavar="TEXT", help="short for --arm config:TEXT")
    add(
        "--baseline",
        default=",".join(DEFAULT_BASELINES),
        metavar="LIST",
        help=f"of {', '.join(BASELINES)}, or none (%(default)s)",
    )
    add(
        "--sweep",
        action="append",
        default=[],
        metavar="PART=LIST",
        help=f"all configurations of lists of {', '.join(DEFAULTS)}; may be repeated",
    )
    add(
        "--candidates",
        type=int,
        default=0,
        metavar="N",
        help=f"sweep over the N configurations that the {PLANNER} predicts to be the fastest",
    )
    add("--top", type=int, default=Method.top, help="of a sweep, timed afresh (%(default)s)")


def _measuring(group) -> None:
    add = group.add_argument
    add("--rounds", type=int, default=Method.rounds, help="(%(default)s)")
    add("--sweep-rounds", type=int, default=Method.sweep_rounds, help="(%(default)s)")
    add("--pack", type=int, default=Method.pack, help="products a sample (%(default)s)")
    add("--seed", type=int, default=Method.seed, help="of operands and --random (%(default)s)")
    add("--budget", type=float, default=math.inf, metavar="SECONDS", help="stop cleanly after it")
    add("--hang", type=float, default=Method.hang_seconds, metavar="SECONDS", help="(%(default)s)")
    add(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="compile so many at once (%(default)s)",
    )


def _output(group) -> None:
    add = group.add_argument
    add("-o", "--output", type=Path, metavar="NAME", help="write NAME.csv and NAME.json")
    add("--commit", default="", help="recorded in the rows; git is asked if not said")
    add("-v", "--verbose", action="store_true", help="a line an arm too")
    add("--profile", action="store_true", help="a line of where the seconds of the run went")
