"""`loopir-triton plan`: what the planner chooses for a problem, and why; needs no GPU."""

import argparse
import json
import sys
from pathlib import Path

from backends.planner import Device, Plan, Problem, plan, read_device, shipped
from backends.planner.choose import DEFAULT_DEVICE
from backends.planner.device import shipped_as
from backends.planner.problem import FIELDS
from passes.cli import DONE


def main(argv: list[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        problem = Problem.parse(" ".join(args.problem))
        device = _device(args.device)
        found = plan(problem, device)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(_json(found) if args.json else found.text(args.shown))
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopir-triton plan",
        allow_abbrev=False,
        description="The configuration that the planner chooses for a product, its predicted time, "
        "the part that binds, and the runners-up.",
    )
    parser.add_argument(
        "problem",
        nargs="+",
        metavar="PROBLEM",
        help="'MxNxK [TYPE | TYPE->TYPE] [LAYOUT*LAYOUT] [FIELD=VALUE ...]', quoted, since > and * "
        "are the shell's, as '1536x1536x4096 bf16->f32 row*col bias=bf16'; only the sizes must be "
        f"said. LAYOUT: row, col. FIELD: {', '.join(FIELDS)}",
    )
    text = f"a file that calibrate wrote, or a device that is known: {_known()} (%(default)s)"
    parser.add_argument("--device", default=DEFAULT_DEVICE, metavar="FILE|NAME", help=text)
    parser.add_argument("--shown", type=int, default=6, help="candidates to show (%(default)s)")
    parser.add_argument("--json", action="store_true", help="all candidates, as JSON")
    return parser


def _device(given: str) -> Device:
    path = Path(given)
    if found := shipped_as(given):
        return found
    if not path.exists():
        raise ValueError(f"--device: {given} is no file, and none of the known: {_known()}")
    return read_device(path.read_text("utf-8"))


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
