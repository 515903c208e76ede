"""`loopir-triton plan`: what the planner chooses for a problem, and why, which needs no GPU; with
`--autotune`, what the GPU says of it.

Exit codes: 0 done; 1 no candidate can run, or a file of pins is refused; 2 usage, no GPU to time
on, or a file that cannot be written; 3 a bug of ours.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path

from backends.planner import Device, Plan, Problem, plan, read_device, shipped
from backends.planner.choose import DEFAULT_DEVICE
from backends.planner.device import shipped_as
from backends.planner.problem import FIELDS
from backends.triton_codegen.cache.folder import read_regular
from backends.triton_codegen.setting_options import setting_text
from backends.triton_codegen.settings import Settings
from loopir.errors import LoopIRError
from loopir.printer import to_text
from passes.cli import DONE, REFUSED, USAGE, complain

_TOOL = "loopir-triton plan"
_MOST_BYTES = 1 << 22  # of a file of constants
_TIMED = 8  # candidates, if --autotune does not say how many


def main(argv: list[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        _check_usage(args)
        if args.pins:
            return _list_pins()
        problem = Problem.parse(" ".join(args.problem))
        if args.autotune is not None:
            return _autotune(problem, args.autotune)
        found = plan(problem, _device(args.device or DEFAULT_DEVICE))
        told = _written(found, args.output) if args.output else ""
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(_json(found) if args.json else found.text(args.shown) + told)
    return DONE


def _written(found: Plan, path: str) -> str:
    """What the text says of the file, which is there then."""
    config = found.chosen.config
    Path(path).write_text(to_text(config.base(found.problem)), encoding="utf-8")
    passes = f" -p {shlex.quote(config.pipeline)}" if config.pipeline else ""
    options = setting_text(Settings(**config.settings()))
    name = shlex.quote(f"./{path}" if path.startswith("-") else path)
    command = f"loopir-triton compile {name}{passes} {options} --target cuda:90"
    what = "the program before its passes; bundle takes the same options, emit all but --target:"
    return f"\n\n{path}: {what}\n  {command}"


def _check_usage(args: argparse.Namespace) -> None:
    if bool(args.problem) == args.pins:
        raise ValueError("PROBLEM is required, unless --pins is said")
    if args.device and (args.pins or args.autotune is not None):
        raise ValueError("--device: a GPU that is not in this machine is neither timed nor listed")
    if args.output is not None and not (args.output and args.output.isprintable()):
        raise ValueError("-o: a name is missing, or does not print")
    if args.output and (args.json or args.pins or args.autotune is not None):
        raise ValueError("-o: of a choice that is told as text, without --json and the like")
    if args.shown < 0:
        raise ValueError(f"--shown: 0 or more, not {args.shown}")
    if args.autotune is not None and args.autotune < 1:
        raise ValueError(f"--autotune: 1 or more, not {args.autotune}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_TOOL,
        allow_abbrev=False,
        description="The configuration that the planner chooses for a product, its predicted time, "
        "the part that binds, and the runners-up.",
    )
    parser.add_argument(
        "problem",
        nargs="*",
        metavar="PROBLEM",
        help="'MxNxK [TYPE | TYPE->TYPE] [LAYOUT*LAYOUT] [FIELD=VALUE ...]', quoted, since > and * "
        "are the shell's, as '1536x1536x4096 bf16->f32 row*col bias=bf16'; only the sizes must be "
        f"said. LAYOUT: row, col. FIELD: {', '.join(FIELDS)}",
    )
    text = f"a file that calibrate wrote, or a device that is known: {_known()} ({DEFAULT_DEVICE})"
    parser.add_argument("--device", metavar="FILE|NAME", help=text)
    parser.add_argument("--shown", type=int, default=6, help="candidates to show (%(default)s)")
    text = "write its program to this FILE, before its passes, and say how to compile it"
    parser.add_argument("-o", "--output", metavar="FILE", help=text)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--json", action="store_true", help="all candidates, as JSON")
    instead.add_argument(
        "--autotune",
        nargs="?",
        type=int,
        const=_TIMED,
        metavar="N",
        help=f"time the best N ({_TIMED}) on this machine's GPU, with made-up operands, and pin "
        "the winner where matmul(tune=True) finds it",
    )
    instead.add_argument("--pins", action="store_true", help="list what is pinned, of all devices")
    return parser


def _device(given: str) -> Device:
    if found := shipped_as(given):
        return found
    try:
        return read_device(read_regular(Path(given), _MOST_BYTES).decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        known = f"is no file, and none of the known: {_known()}"
        raise ValueError(f"--device: {given} {known}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--device: {given}: {error}") from None


def _known() -> str:
    return ", ".join(shipped())


def _json(found: Plan) -> str:
    rows = [
        {
            "config": r.config.to_json(),
            "text": str(r.config),
            "us": round(r.prediction.time, 3),
            "binds": r.prediction.binds.value,
            "parts_us": {t.value: round(us, 3) for t, us in r.prediction.parts.items()},
        }
        for r in found.ranked
    ]
    return json.dumps({"problem": str(found.problem), "candidates": rows}, indent=1)


# --- what needs torch


def _autotune(problem: Problem, count: int) -> int:
    from backends.triton_codegen.ops import autotune

    place = autotune.place()
    if place is None:
        complain(f"{_TOOL}: error: there is no GPU that torch can use")
        return USAGE
    try:
        tuned = autotune.autotune(problem, count, place)
    except LoopIRError as error:
        complain(f"{_TOOL}: {error}")
        return REFUSED
    print(tuned.text())
    print(f"pinned in {tuned.pin()}")
    return DONE


def _list_pins() -> int:
    from backends.triton_codegen.ops.pins import load_pins, pin_files

    code, files = DONE, pin_files()
    if not files:
        print("nothing is pinned")
    for path in files:
        try:
            print(load_pins(path).table())
        except ValueError as error:
            complain(f"{path}: refused, {error}")
            code = REFUSED
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
