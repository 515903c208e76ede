"""`loopir-opt`: read programs, run a pipeline of passes, print the results.

Exit codes: 0 done; 1 a pass refuses a program, or the text is no valid program; 2 usage, a file
that cannot be read or written included; 3 a bug of ours, with a reproducer.
"""

import argparse
import shlex
import sys

from loopir import __version__
from loopir.errors import LoopIRError, PipelineError
from loopir.nodes import Program
from loopir.parser import parse_many
from loopir.printer import to_text
from passes import opt_report
from passes.cli import DONE, REFUSED, complain, decoded, read_input, report_bug, run_tool
from passes.pipeline import Observer, PassPipeline, parse_pipeline
from passes.pipeline_text import nearest

TOOL = "loopir-opt"
SEPARATOR = "# -----\n"


def main(argv: list[str] | None = None) -> int:
    """Run the tool with `argv`, by default the process's own; the exit code."""
    return run_tool(TOOL, lambda: _run(argv))


def _run(argv: list[str] | None) -> int:
    parser = _argument_parser()
    args = parser.parse_args(argv)
    if args.list_passes:
        print(opt_report.list_passes())
        return DONE
    pipeline = _pipeline(parser, args)
    return _run_data(args, pipeline, read_input(parser, args.file))


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=TOOL,
        allow_abbrev=False,
        description="Run passes over programs of the loop-nest IR. The result goes to standard "
        "output, dumps, diffs and times to standard error.",
        epilog="exit codes: 0 done; 1 refused, or not a valid program; 2 usage; 3 a bug of ours",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="programs in text form, or - for standard input")
    add("-p", "--pipeline", default="", help="passes: tile-order{group=8},stream-k{units=132}")
    add("--print-after", metavar="all|changed|NAME", help="print the program after these passes")
    add("--diff", action="store_true", help="print what every pass changed")
    add("--time-passes", action="store_true", help="print how long every pass took")
    add("--explain", action="store_true", help="print the figures of each plan, as comments")
    add("--deps", choices=["dot"], help="print the dependences of each kernel, for Graphviz")
    add("--list-passes", action="store_true", help="print the passes and their options, and stop")
    add("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


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


def _run_data(args: argparse.Namespace, pipeline: PassPipeline, data: bytes) -> int:
    try:
        programs = parse_many(decoded(data))
    except LoopIRError as error:
        complain(f"{args.file}: {error}")
        return REFUSED
    except Exception as error:
        return _report_bug(pipeline, data, error)
    results = [_run_program(args, pipeline, data, n, p) for n, p in enumerate(programs, start=1)]
    sys.stdout.write(SEPARATOR.join(text for _, text in results if text))
    return max((code for code, _ in results), default=DONE)


def _run_program(
    args: argparse.Namespace, pipeline: PassPipeline, data: bytes, number: int, program: Program
) -> tuple[int, str]:
    """The exit code and the text of one program of the file."""
    explanations: list[str] = []
    try:
        result = pipeline.run(program, observers=_observers(args, explanations))
        text = opt_report.dependence_graphs(result) if args.deps else to_text(result)
        return DONE, opt_report.dump(text, _head(pipeline), explanations)
    except LoopIRError as error:
        complain(f"{args.file}, program {number}: {error}")
        return REFUSED, ""
    except OSError:
        raise
    except Exception as error:
        return _report_bug(pipeline, data, error), ""


def _observers(args: argparse.Namespace, explanations: list[str]) -> list[Observer]:
    asked: list[tuple[bool, Observer]] = [
        (args.explain, opt_report.collect_explanations(explanations)),
        (args.print_after is not None, opt_report.print_after(args.print_after, sys.stderr)),
        (args.diff, opt_report.print_diff(sys.stderr)),
        (args.time_passes, opt_report.print_time(sys.stderr)),
    ]
    return [observer for wanted, observer in asked if wanted]


def _head(pipeline: PassPipeline) -> str:
    version = f"loopir {__version__}"
    return f"{version} -p {shlex.quote(str(pipeline))}" if pipeline.passes else version


def _report_bug(pipeline: PassPipeline, data: bytes, error: Exception) -> int:
    return report_bug(TOOL, f"- -p {shlex.quote(str(pipeline))}", data, error)


if __name__ == "__main__":
    sys.exit(main())
