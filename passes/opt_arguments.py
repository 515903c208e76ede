"""The command line of `loopir-opt`."""

import argparse
import shlex
from pathlib import Path

from loopir import __version__
from loopir.errors import PipelineError
from passes import opt_report, opt_schedule
from passes.explain import ASSUMED_SMS
from passes.opt_sizes import SIZE_HELP, check_seed, parse_sizes
from passes.pipeline import PassPipeline, parse_pipeline
from passes.pipeline_text import nearest

TOOL = "loopir-opt"
_EPILOG = """\
--run prints `# run: NAME DTYPE[SHAPE] CHECKSUM` for each output above the program, and with passes
how far it is from the output of the program as it was read: `equal`, which small integers ask for,
or the largest error. The checksum is of the values in row-major order, bf16 and fp8 as f32. Sizes
are set before the passes run, in the printed program too. The interpreter checks every access, at
10^8 to 10^9 multiply-adds a second; arrays have 2^27 elements at most.

--dump-dir writes 00-input.lir, 01-PASS.lir, ... NN-result.lir, and p1-00-input.lir, ... where there
are several programs; files of these names are replaced.

--timeline and --trace show the schedule of stream-k under the cost of a panel 1, an epilogue or a
partial tile 2, on as many places as it has units, or on --sms places where the pass is not told how
many. Of several programs the files are p1-OUT, p2-OUT, ...

exit codes: 0 done; 1 refused, not a valid program, or outputs that differ; 2 usage; 3 a bug of ours
"""


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=TOOL,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run passes over programs of the loop-nest IR. The result goes to standard\n"
        "output, dumps, diffs and times to standard error.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="programs in text form, or - for standard input")
    add("-p", "--pipeline", default="", help="passes: tile-order{group=8},stream-k{units=132}")
    add("--print-after", metavar="all|changed|NAME", help="print the program after these passes")
    add("--dump-dir", metavar="DIR", help="write the program to DIR before and after every pass")
    add("--diff", action="store_true", help="print what every pass changed")
    add("--time-passes", action="store_true", help="print how long every pass took")
    add("--explain", action="store_true", help="print the figures of each plan, as comments")
    add("--timeline", metavar="OUT", help="draw the schedule: OUT.svg, OUT.txt, - for comments")
    add("--trace", metavar="OUT", help="the schedule for Chrome and Perfetto: OUT.json")
    add("--sms", type=int, metavar="N", help=f"SMs to explain and draw for ({ASSUMED_SMS})")
    add("--deps", choices=["dot"], help="print the dependences of each kernel, for Graphviz")
    add("--verify-only", action="store_true", help="check every program, and print no more")
    _add_run_options(parser)
    add("--list-passes", action="store_true", help="print the passes and their options, and stop")
    add("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("running in the reference interpreter").add_argument
    add("--run", action="store_true", help="run the result on seeded inputs, small integers")
    add("--seed", type=int, metavar="N", help="of inputs and schedule (0)")
    add("--size", action="append", default=[], metavar="NAME=N", help=SIZE_HELP)
    add("--floats", action="store_true", help="normal inputs: results may differ by rounding")


def check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> PassPipeline:
    """The pipeline; `args.sizes`, and a `--dump-dir` that is there. Ends the tool where options do
    not fit."""
    _check_company(parser, args)
    pipeline = _pipeline(parser, args)
    try:
        opt_schedule.check(pipeline, args.timeline, args.trace, args.sms)
        check_seed(args.seed or 0)
        args.sizes = parse_sizes(args.size)
    except ValueError as error:
        parser.error(str(error))
    return pipeline


def make_folder(parser: argparse.ArgumentParser, name: str) -> Path:
    """The folder, made if it is not there; ends the tool where it cannot be."""
    folder = Path(name)
    if not name:
        parser.error("--dump-dir: a name is missing")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        parser.error(f"--dump-dir: {name} is no directory")
    except OSError as error:
        parser.error(f"--dump-dir: cannot make {name}: {error.strerror}")
    except ValueError as error:
        parser.error(f"--dump-dir: cannot make {name!r}: {error}")
    return folder


def reproducing(args: argparse.Namespace, pipeline: PassPipeline) -> str:
    """The options that repeat what was done to a program, which is read from standard input."""
    words = ["-", *(["-p", str(pipeline)] if pipeline.passes else [])]
    flags = ("verify_only", "explain", "run", "floats")
    words += [f"--{n.replace('_', '-')}" for n in flags if vars(args)[n]]
    valued = ("timeline", "trace", "sms", "seed")
    words += [f"--{n}={vars(args)[n]}" for n in valued if vars(args)[n] is not None]
    return shlex.join([*words, *(f"--size={text}" for text in args.size)])


def _check_company(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End the tool where an option goes with none of the others, or misses the one it goes with."""
    given = {n: parser.get_default(n) != value for n, value in vars(args).items() if n != "file"}
    others = [n for n, is_given in given.items() if is_given and n != "verify_only"]
    if args.verify_only and others:
        parser.error(f"--verify-only: no other option goes with it, {_options(others)} neither")
    lonely = [n for n in ("seed", "size", "floats") if given[n]]
    if lonely and not args.run:
        parser.error(f"{_options(lonely)}: for --run only")
    if given["sms"] and not (args.explain or args.timeline or args.trace):
        parser.error("--sms: for --explain, --timeline and --trace only")


def _options(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _pipeline(parser: argparse.ArgumentParser, args: argparse.Namespace) -> PassPipeline:
    try:
        pipeline = parse_pipeline(args.pipeline)
    except PipelineError as error:
        parser.error(f"--pipeline: {error}")
    known = (opt_report.ALL, opt_report.CHANGED, *dict.fromkeys(p.name for p in pipeline.passes))
    if args.print_after is not None and args.print_after not in known:
        wanted = args.print_after
        parser.error(f"--print-after: no pass '{wanted}' in the pipeline{nearest(wanted, known)}")
    return pipeline
