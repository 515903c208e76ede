"""`loopir-opt`: read programs, run a pipeline of passes, print the results.

Exit codes: 0 done; 1 a pass refuses a program, or the text is no valid program; 2 usage, a file
that cannot be read or written included; 3 a bug of ours, with a reproducer.
"""

import argparse
import contextlib
import os
import shlex
import sys
import traceback
from pathlib import Path

from loopir import __version__
from loopir.errors import LoopIRError, ParseError, PipelineError
from loopir.nodes import Program
from loopir.parser import parse_many
from loopir.printer import to_text
from passes import opt_report
from passes.pipeline import Observer, PassPipeline, parse_pipeline
from passes.pipeline_text import nearest

DONE, REFUSED, USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141
SEPARATOR = "# -----\n"


def main(argv: list[str] | None = None) -> int:
    """Run the tool with `argv`, by default the process's own; the exit code."""
    if sys.stdout is None:
        print("loopir-opt: error: standard output is closed", file=sys.stderr)
        return USAGE
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _drop_output()
        print(f"loopir-opt: error: cannot write the output: {error.strerror}", file=sys.stderr)
        return USAGE


def _run(argv: list[str] | None) -> int:
    parser = _argument_parser()
    try:
        args = parser.parse_args(argv)
        if args.list_passes:
            print(opt_report.list_passes())
            return DONE
        pipeline = _pipeline(parser, args)
        data = _read(parser, args.file)
    except SystemExit as stop:  # argparse has printed what is wrong
        return int(stop.code or DONE)
    return _run_data(args, pipeline, data)


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopir-opt",
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


def _read(parser: argparse.ArgumentParser, file: str | None) -> bytes:
    if file is None:
        parser.error("FILE is missing; - reads standard input")
    if file == "-" and sys.stdin is None:
        parser.error("standard input is closed")
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        parser.error(f"cannot read {file}: {error.strerror}")
    except ValueError as error:
        parser.error(f"cannot read {file!r}: {error}")


def _run_data(args: argparse.Namespace, pipeline: PassPipeline, data: bytes) -> int:
    try:
        programs = parse_many(_decode(data))
    except LoopIRError as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return REFUSED
    except Exception as error:
        return _report_bug(pipeline, data, error)
    results = [_run_program(args, pipeline, data, n, p) for n, p in enumerate(programs, start=1)]
    sys.stdout.write(SEPARATOR.join(text for _, text in results if text))
    return max((code for code, _ in results), default=DONE)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - before.rfind(b"\n")
        message = f"byte 0x{data[error.start]:02x} is not UTF-8 text"
        raise ParseError(message, before.count(b"\n") + 1, column) from None


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
        print(f"{args.file}, program {number}: {error}", file=sys.stderr)
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
    """Print a reproducer in place of a traceback; the exit code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    sys.stderr.write(
        f"loopir-opt: this is a bug of ours, please report it with all of this text.\n"
        f"{type(error).__name__}: {error}\nat {where}\n\n"
        f"# reproducer: loopir-opt - -p {shlex.quote(str(pipeline))} (loopir {__version__})\n"
        f"{data.decode('utf-8', 'backslashreplace')}"
    )
    return BUG


def _drop_output() -> None:
    """Point standard output at nothing, so that the last flush does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
