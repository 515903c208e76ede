"""Constants of a device fitted to times that `loopir-triton bench` measured.

    python -m backends.planner.refit sweep.csv ... -o device.json
    python -m backends.planner.refit sweep.csv ... --check

Told at the end, by set: how near the chosen configuration is to the fastest measured one, with the
old constants and the new ones, and with constants that were fitted without the problem at hand.
Exit codes: 0 done; 1 a file is none that can be read; 2 usage.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from backends.planner.choose import default_device
from backends.planner.device import Device, read_device
from backends.planner.fit import refit, rounded
from backends.planner.samples import (
    Sample,
    by_problem,
    choice_ratios,
    geometric_mean,
    read_samples,
)
from passes.cli import DONE, REFUSED, complain

_T = TypeVar("_T")
_TOOL = "python -m backends.planner.refit"
_FOLDS = 3  # parts of the problems, each predicted by the others


def unseen_ratios(device: Device, samples: Sequence[Sample]) -> dict[str, list[float]]:
    """`choice_ratios` of each problem with constants that were fitted to other problems."""
    problems = list(by_problem(samples))
    found: dict[str, list[float]] = defaultdict(list)
    for fold in range(_FOLDS):
        left_out = set(problems[fold::_FOLDS])
        held = [s for s in samples if s.problem in left_out]
        known = [s for s in samples if s.problem not in left_out]
        if held and known:
            for of, ratios in choice_ratios(held, refit(device, known)).items():
                found[of] += ratios
    return found


def table(columns: dict[str, dict[str, list[float]]]) -> str:
    """A line a set: geometric mean and least of the ratios of each column."""
    sets = sorted({of for ratios in columns.values() for of in ratios})
    lines = [f"{'set':14}" + "".join(f"{name:>20}" for name in columns)]
    for of in sets:
        cells = (f"{_cell(ratios.get(of, [])):>20}" for ratios in columns.values())
        lines.append(f"{of or '-':14}" + "".join(cells))
    return "\n".join(lines)


def _cell(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.3f} (>= {min(ratios):.2f})" if ratios else "-"


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        base = _read(args.device, read_device) if args.device else default_device()
        samples = [s for path in args.csv for s in _read(path, read_samples)]
    except ValueError as error:
        complain(f"{_TOOL}: {error}")
        return REFUSED
    if not samples:
        complain(f"{_TOOL}: no row of {', '.join(map(str, args.csv))} timed a configuration")
        return REFUSED
    columns = {"as it is": choice_ratios(samples, base)}
    if not args.check:
        found = rounded(refit(base, samples, lambda text: print(text, file=sys.stderr)))
        args.output.write_text(found.text())
        columns["refitted"] = choice_ratios(samples, found)
        columns["unseen"] = unseen_ratios(base, samples)
    print(table(columns))
    return DONE


def _read(path: Path, read: Callable[[str], _T]) -> _T:
    """What `read` makes of the text of a file. ValueError: nothing, or there is no such file."""
    try:
        return read(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=_TOOL, description=__doc__, formatter_class=as_written)
    parser.add_argument("csv", nargs="+", type=Path, help="of `loopir-triton bench`")
    parser.add_argument("--device", type=Path, help="constants to start from (the shipped H200's)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-o", "--output", type=Path, help="where to write the constants")
    what.add_argument("--check", action="store_true", help="only say how good the choices are")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
