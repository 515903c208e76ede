"""`loopir-triton calibrate`: measure the constants of this machine's GPU, for `plan` and
`matmul`. The times of its probes lie beside them, as `.probes.csv`, even if they are refused.

Exit codes: 0 done; 1 the constants do not predict their own probes, or a kernel is refused; 2
usage, no GPU, or a file that cannot be written; 3 a bug of ours.
"""

import argparse
import sys
from pathlib import Path

from loopir.errors import LoopIRError
from passes.cli import DONE, REFUSED, USAGE, complain

_TOOL = "loopir-triton calibrate"


def main(argv: list[str]) -> int:
    """Run the command; the exit code."""
    args = _parser().parse_args(argv)
    import torch

    if not torch.cuda.is_available():
        complain(f"{_TOOL}: error: there is no GPU that torch can use")
        return USAGE
    from backends.triton_codegen.ops.calibrate import calibrate
    from backends.triton_codegen.ops.devices import calibrated_path, device_of
    from backends.triton_codegen.ops.pins import write_whole

    base = device_of(torch.cuda.current_device())
    path = args.output or calibrated_path(base.name)
    try:
        found = calibrate(base, complain)
        write_whole(path.with_suffix(".probes.csv"), found.probes_csv)
        found.check()
        write_whole(path, found.device.text())
    except LoopIRError as error:
        complain(f"{_TOOL}: {error}")
        return REFUSED
    except OSError as error:
        complain(f"{_TOOL}: error: {error}")
        return USAGE
    print(f"{base.name}: {path}")
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_TOOL,
        allow_abbrev=False,
        description="Measure the constants of the planner's cost model on this machine's GPU, in "
        "about a minute, and write them as JSON, with the times of the probes beside them, as "
        ".probes.csv, whether they are believed or not.",
    )
    text = "where to write them (the user's cache, where matmul finds them)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
