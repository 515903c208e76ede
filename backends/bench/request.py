"""What the arguments of `loopir-triton bench` ask for."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from backends.bench.arms import BASELINES, CONFIG, NAMES, PLANNER, Wanted
from backends.bench.results import Case
from backends.bench.shapes import Shape, drawn, named_set, parse_axes, parse_shape
from backends.bench.sweep import parse_sweep
from backends.bench.task import Method, Task
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.problem import Problem
from passes.pipeline import parse_pipeline


@dataclass(frozen=True)
class Request:
    """What one run is to do. `common`: the arguments that each row needs to be repeated."""

    cases: tuple[Case, ...]
    wanted: Wanted
    method: Method
    jobs: int
    output: Path | None
    commit: str
    common: str
    is_verbose: bool
    is_profiled: bool

    def tasks(self, device: Device) -> tuple[Task, ...]:
        """Every shape with its arms, as the planner sees them on `device`."""
        return tuple(Task(case, self.wanted.of(case.problem, device)) for case in self.cases)


def request(args: argparse.Namespace) -> Request:
    """What the arguments ask for. ValueError: the one that is wrong."""
    _check(args)
    cases = tuple(_cases(args))
    if not cases:
        raise ValueError("no shape: say --set wave, --shape MxNxK, or m= n= k=")
    return Request(
        cases=cases,
        wanted=_wanted(args),
        method=_method(args),
        jobs=args.jobs,
        output=args.output,
        commit=args.commit,
        common=_common(args),
        is_verbose=args.verbose,
        is_profiled=args.profile,
    )


def _method(args: argparse.Namespace) -> Method:
    return Method(
        rounds=args.rounds,
        sweep_rounds=args.sweep_rounds,
        top=args.top,
        pack=args.pack,
        seed=args.seed,
        seconds=args.budget,
        hang_seconds=args.hang,
    )


def _check(args: argparse.Namespace) -> None:
    for name in ("rounds", "sweep_rounds", "top", "pack", "jobs", "batch"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')}: at least 1")
    for name in ("random", "seed", "candidates"):
        if getattr(args, name) < 0:
            raise ValueError(f"--{name}: at least 0")
    for name in ("budget", "hang"):
        if not getattr(args, name) > 0:
            raise ValueError(f"--{name}: more than 0 seconds")
    if args.output is not None and not args.output.name:
        raise ValueError("--output: the name of a file is missing")


# --- shapes


def _cases(args: argparse.Namespace) -> Iterator[Case]:
    layouts = args.layout.split(",")
    if len(layouts) != 2:
        raise ValueError(f"--layout {args.layout}: A's and B's, as in row,col")
    for name, (m, n, k) in dict.fromkeys(_shapes(args)):
        yield Case(name, Problem(m, n, k, args.batch, args.dtype, args.out_dtype, *layouts))


def _shapes(args: argparse.Namespace) -> Iterator[tuple[str, Shape]]:
    for text in args.set:
        for name in text.split(","):
            for each, shapes in named_set(name).items():
                yield from ((each, shape) for shape in shapes)
    yield from (("shape", parse_shape(text)) for text in args.shape)
    yield from (("range", shape) for shape in (parse_axes(args.axes) if args.axes else ()))
    yield from ((f"random{args.seed}", shape) for shape in drawn(args.random, args.seed))


# --- arms


def _wanted(args: argparse.Namespace) -> Wanted:
    """Baselines first, then what was asked for, or the planner's choice where nothing was."""
    baselines = [] if args.baseline == "none" else args.baseline.split(",")
    texts = [text.removeprefix(CONFIG) for text in args.arm if text.startswith(CONFIG)]
    names = [text for text in args.arm if not text.startswith(CONFIG)]
    _check_names("baseline", baselines, BASELINES, "or none alone")
    _check_names("arm", names, (*NAMES, f"{CONFIG}TEXT"))
    if not (args.arm or args.config or args.sweep):
        names = [PLANNER]
    configs = tuple(Config.parse(text.strip()) for text in (*texts, *args.config))
    sweep = parse_sweep(args.sweep) if args.sweep else ()
    if args.sweep and not sweep:
        raise ValueError("--sweep: no combination of these means anything")
    for config in (*configs, *sweep):
        parse_pipeline(config.pipeline)  # PipelineError: a pass or an option that there is not
    return Wanted((*baselines, *names), configs, sweep, args.candidates)


def _check_names(what: str, names: Sequence[str], known: Sequence[str], also: str = "") -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{what} {name!r}: one of {', '.join(filter(None, (*known, also)))}")


# --- to do it again


def _common(args: argparse.Namespace) -> str:
    words = {
        "dtype": args.dtype,
        "out-dtype": args.out_dtype or args.dtype,
        "layout": args.layout,
        "batch": args.batch,
        "baseline": args.baseline,
        "rounds": args.rounds,
        "pack": args.pack,
        "seed": args.seed,
    }
    return " ".join(f"--{name} {value}" for name, value in words.items())
