"""`loopir-opt`: read programs, run a pipeline of passes, print the results.

Exit codes: 0 done; 1 a pass refuses a program, the text is no valid program, or what it computes
changed; 2 usage, a file that cannot be read or written included; 3 a bug of ours, with a
reproducer.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from loopir.errors import LoopIRError
from loopir.nodes import Program
from loopir.parser import parse_many
from loopir.printer import to_text
from loopir.scope import resized
from loopir.verifier import verify
from passes import opt_report
from passes.cli import DONE, REFUSED, USAGE, complain, decoded, read_input, report_bug, run_tool
from passes.explain import explain
from passes.opt_arguments import TOOL, argument_parser, check_usage, make_folder, reproducing
from passes.opt_dump import Dumps
from passes.opt_schedule import Drawings, has_schedule
from passes.opt_sizes import UsageError
from passes.pipeline import Observer, PassPipeline

SEPARATOR = "# -----\n"


def main(argv: list[str] | None = None) -> int:
    """Run the tool with `argv`, by default the process's own; the exit code."""
    return run_tool(TOOL, lambda: _run(argv))


def _run(argv: list[str] | None) -> int:
    parser = argument_parser()
    args = parser.parse_args(argv)
    if args.list_passes:
        print(opt_report.list_passes())
        return DONE
    pipeline = check_usage(parser, args)
    data = read_input(parser, args.file)
    folder = None if args.dump_dir is None else make_folder(parser, args.dump_dir)
    return _Job(args, pipeline, data, folder).run()


@dataclass(frozen=True)
class _Job:
    """One run of the tool: `data` is what was read, `folder` where dumps go."""

    args: argparse.Namespace
    pipeline: PassPipeline
    data: bytes
    folder: Path | None

    def run(self) -> int:
        try:
            programs = parse_many(decoded(self.data))
        except LoopIRError as error:
            complain(f"{self.args.file}: {error}")
            return REFUSED
        except Exception as error:
            return self._report_bug(error)
        several = len(programs) > 1
        results = [
            self._of_program(f"{self.args.file}, program {n}", f"p{n}-" if several else "", p)
            for n, p in enumerate(programs, start=1)
        ]
        sys.stdout.write(SEPARATOR.join(text for _, text in results if text))
        return max((code for code, _ in results), default=DONE)

    def _of_program(self, place: str, prefix: str, program: Program) -> tuple[int, str]:
        """The exit code and the text of one program of the file."""
        try:
            if self.args.verify_only:
                verify(program)
                return DONE, ""
            return self._result(place, prefix, resized(program, self.args.sizes))
        except UsageError as error:
            complain(f"{TOOL}: error: {place}: {error}")
            return USAGE, ""
        except LoopIRError as error:
            complain(f"{place}: {error}")
            return REFUSED, ""
        except OSError:
            raise
        except Exception as error:
            return self._report_bug(error), ""

    def _result(self, place: str, prefix: str, program: Program) -> tuple[int, str]:
        comments: list[str] = []
        drawings = Drawings(self.args.timeline, self.args.trace, self.args.sms, prefix)
        dumps = Dumps(self.folder, prefix) if self.folder else None
        if dumps:
            dumps.write("input", program)
        watchers = (drawings.observe, *self._observers(comments, dumps))
        result = self.pipeline.run(program, observers=watchers)
        if dumps:
            dumps.write("result", result)
        if self.args.explain and not has_schedule(self.pipeline):
            comments.append(explain(result, sms=self.args.sms))
        comments += drawings.finish(program)
        differing = self._run(program, result, comments)
        if differing:
            complain(f"{place}: the passes change what it computes: {', '.join(differing)}")
        text = opt_report.dependence_graphs(result) if self.args.deps else to_text(result)
        text = opt_report.dump(text, opt_report.head(self.pipeline), comments)
        return REFUSED if differing else DONE, text

    def _run(self, program: Program, result: Program, comments: list[str]) -> list[str]:
        """The outputs that differ, if the programs are to be run at all; adds to the comments."""
        if not self.args.run:
            return []
        from passes.opt_run import Run  # numpy, which nothing else here needs

        how = Run(self.args.sizes, self.args.seed or 0, not self.args.floats)
        lines, differing = (
            how.compare(program, result) if self.pipeline.passes else (how.alone(program), [])
        )
        comments += [f"run: {line}" for line in lines]
        return differing

    def _observers(self, comments: list[str], dumps: Dumps | None) -> list[Observer]:
        args = self.args
        asked: list[tuple[bool, Observer]] = [
            (args.explain, opt_report.collect_explanations(comments, args.sms)),
            (args.print_after is not None, opt_report.print_after(args.print_after, sys.stderr)),
            (args.diff, opt_report.print_diff(sys.stderr)),
            (args.time_passes, opt_report.print_time(sys.stderr)),
        ]
        observers = [observer for wanted, observer in asked if wanted]
        return [dumps.observe, *observers] if dumps else observers

    def _report_bug(self, error: Exception) -> int:
        return report_bug(TOOL, reproducing(self.args, self.pipeline), self.data, error)


if __name__ == "__main__":
    sys.exit(main())
