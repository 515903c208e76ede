"""`loopir-triton`: the Triton source of a program, that source compiled, or run on made-up inputs.

Exit codes: 0 done; 1 a refusal, text that is no valid program, or outputs that differ; 2 usage, a
file that cannot be read or written included; 3 a bug of ours, with a reproducer.
"""

import argparse
import shlex
import sys
from importlib import import_module
from pathlib import Path

from backends.triton_codegen.artifacts import compile_all
from backends.triton_codegen.emit import emit
from backends.triton_codegen.setting_options import add_setting_options, settings_of
from backends.triton_codegen.targets import Mode, Target, parse_target
from backends.triton_codegen.trial import Trial
from loopir import __version__
from loopir.errors import CodegenError, LoopIRError, PipelineError
from loopir.nodes import Program
from loopir.parser import parse
from loopir.scope import resized
from passes.cli import DONE, REFUSED, USAGE, complain, decoded, read_input, report_bug, run_tool
from passes.opt_sizes import (
    SIZE_HELP,
    UsageError,
    check_names,
    check_seed,
    parse_sizes,
    picked,
    settable,
)
from passes.pipeline import PassPipeline, parse_pipeline

TOOL = "loopir-triton"
_MOST = 2**63
_AHEAD = "cuda:80,cuda:90,cuda:100,hip:gfx942"
#: commands with arguments of their own: the module whose main(argv) each is, and its help
_ELSEWHERE = {
    "bundle": ("backends.triton_codegen.bundle.command", "compile for hosts without this toolkit"),
    "bench": ("backends.bench.command", "time products on the GPU against cuBLAS"),
    "plot": ("backends.bench.plot", "draw what bench wrote"),
    "calibrate": (
        "backends.triton_codegen.ops.calibrate_command",
        "measure the constants of this machine's GPU",
    ),
    "plan": (
        "backends.triton_codegen.ops.plan_command",
        "what the planner chooses for a product, and why",
    ),
    "cache": (
        "backends.triton_codegen.cache.command",
        "list, check or clear the kernels that were compiled ahead of time and kept",
    ),
}


def main(argv: list[str] | None = None) -> int:
    """Run the tool with `argv`, by default the process's own; the exit code."""
    given = sys.argv[1:] if argv is None else argv
    return run_tool(TOOL, lambda: _run(given))


def _run(argv: list[str]) -> int:
    if argv and argv[0] in _ELSEWHERE:
        return _run_elsewhere(argv)
    args = _argument_parser().parse_args(argv)
    _check_usage(args.parser, args)
    data = read_input(args.parser, args.file)
    try:
        return args.action(args, parse(decoded(data)))
    except UsageError as error:
        complain(f"{TOOL}: error: {error}")
        return USAGE
    except LoopIRError as error:
        complain(f"{args.file}: {error}")
        return REFUSED
    except OSError:
        raise
    except Exception as error:
        return report_bug(TOOL, shlex.join(argv), data, error)


def _run_elsewhere(argv: list[str]) -> int:
    """A command with arguments of its own."""
    try:
        return import_module(_ELSEWHERE[argv[0]][0]).main(argv[1:])
    except OSError:
        raise
    except Exception as error:
        return report_bug(TOOL, shlex.join(argv), b"", error)


# --- arguments


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=TOOL,
        allow_abbrev=False,
        description="Triton source for programs of the loop-nest IR.",
        epilog="exit codes: 0 done; 1 refused, not a valid program, or outputs that differ; "
        "2 usage; 3 a bug of ours",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    metavar = "|".join(("emit", "compile", "run", *_ELSEWHERE))
    commands = parser.add_subparsers(required=True, metavar=metavar)
    _command(commands, "emit", _emit, "print the standalone Python file", "write it to this FILE")
    compiled = _command(
        commands, "compile", _compile, "compile ahead of time", "write artefacts to this DIR"
    )
    compiled.add_argument("--target", default=_AHEAD, help=f"targets between commas ({_AHEAD})")
    _run_command(commands)
    for name, (_, text) in _ELSEWHERE.items():
        commands.add_parser(name, help=f"{text} ({name} --help)", add_help=False)
    return parser


def _command(commands, name: str, action, text: str, output: str = "") -> argparse.ArgumentParser:
    sub = commands.add_parser(name, help=text, description=f"{text}.", allow_abbrev=False)
    sub.set_defaults(action=action, parser=sub)
    add = sub.add_argument
    add("file", metavar="FILE", help="a program in text form, or - for standard input")
    add("-p", "--pipeline", default="", help="passes to run first: stream-k{units=132}")
    add_setting_options(sub)
    if output:
        add("-o", "--output", help=output)
    return sub


def _run_command(commands) -> None:
    sub = _command(
        commands,
        "run",
        _execute,
        "run on seeded inputs, and compare with the program as it was read and with the reference "
        "interpreter, which is left out where it would take more than a few seconds",
    )
    add = sub.add_argument
    add("--target", default=None, help="interpret or jit (jit where there is a GPU)")
    add(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help=SIZE_HELP,
    )
    add("--seed", type=int, default=0, help="of the inputs (%(default)s)")
    add(
        "--integer",
        action="store_true",
        help="small integers: sums are exact, results must be equal",
    )
    add("--units", type=int, default=None, help="most blocks of a persistent kernel")


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    try:
        args.settings = settings_of(args)
        args.passes = parse_pipeline(args.pipeline)
        args.targets = _targets(args)
        _check_numbers(args)
        args.sizes = parse_sizes(getattr(args, "size", []))
    except PipelineError as error:
        parser.error(f"--pipeline: {error}")
    except (ValueError, CodegenError) as error:
        parser.error(str(error))


def _check_numbers(args: argparse.Namespace) -> None:
    if getattr(args, "output", None) == "":
        raise ValueError("-o: a name is missing")
    if (units := getattr(args, "units", None)) is not None and not 1 <= units < _MOST:
        raise ValueError(f"--units: 1 or more, not {units}")
    check_seed(getattr(args, "seed", 0))


def _targets(args: argparse.Namespace) -> list[Target]:
    text = getattr(args, "target", None)
    found = [parse_target(name) for name in text.split(",")] if text is not None else []
    wanted = (Mode.AHEAD,) if args.action is _compile else (Mode.INTERPRET, Mode.JIT)
    for target in found:
        if target.mode not in wanted:
            taken = "cuda:90 and the like" if wanted == (Mode.AHEAD,) else "interpret or jit"
            raise ValueError(f"--target {target.text}: this command takes {taken}")
    return found


# --- commands


def _emit(args: argparse.Namespace, program: Program) -> int:
    source = _emitted(args, args.passes.run(program)).source
    if args.output:
        Path(args.output).write_text(source, encoding="utf-8")
    else:
        sys.stdout.write(source)
    return DONE


def _emitted(args: argparse.Namespace, program: Program):
    passes: PassPipeline = args.passes
    return emit(program, args.settings, str(passes))


def _compile(args: argparse.Namespace, program: Program) -> int:
    module = _emitted(args, args.passes.run(program))
    folder = Path(args.output) if args.output else None
    report, refusals = compile_all(module, args.targets, folder)
    print(report)
    for text in refusals:
        complain(f"{args.file}: {text}")
    return REFUSED if refusals else DONE


def _execute(args: argparse.Namespace, program: Program) -> int:
    target = args.targets[0].text if args.targets else None
    trial = Trial(args.settings, target, args.sizes, args.seed, args.integer, args.units)
    check_names(args.sizes, settable(program) - picked(program))
    report, is_equal = trial.compare(resized(program, args.sizes), args.passes)
    print(report)
    return DONE if is_equal else REFUSED


if __name__ == "__main__":
    sys.exit(main())
