"""Results and CSV files of them, made up."""

import csv
import io
from collections.abc import Mapping, Sequence

from backends.bench.arms import PLANNER, Arm, Group
from backends.bench.columns import COLUMNS, About, row
from backends.bench.results import OK, Case, Result
from backends.bench.stats import Ratio
from backends.planner.config import Config
from backends.planner.problem import Problem

CONFIG = Config.parse("gemm 128x128x64 w8 s4: tile-order{group=8},descriptors")
ABOUT = About(
    device="NVIDIA H200",
    versions={"torch": "2.11", "triton": "3.6", "cuda": "13", "python": "3.12"},
    commit="c0ffee",
    arguments="--set wave",
    common="--dtype bf16",
    pack=1,
    seed=0,
)


def ours(
    shape: tuple[int, int, int],
    ratio: tuple[float, float, float] = (0.9, 1, 1.1),
    us: float = 10.0,
    set: str = "wave",
    name: str = PLANNER,
) -> Result:
    """A result of a generated kernel, with its ratio to cuBLAS."""
    case, arm = Case(set, Problem(*shape)), Arm(name, Group.OURS, CONFIG)
    return Result(case, arm, OK, us=us, rounds=60, ratios={Group.BLAS: Ratio(*ratio)})


def cublas(shape: tuple[int, int, int], us: float, set: str = "wave") -> Result:
    arm = Arm("cublas", Group.BLAS)
    return Result(Case(set, Problem(*shape)), arm, OK, us=us, rounds=60)


def failed(shape: tuple[int, int, int], status: str = "hung", set: str = "wave") -> Result:
    arm = Arm("late", Group.OURS, CONFIG)
    return Result(Case(set, Problem(*shape)), arm, status, "nothing was heard")


def csv_text(results: Sequence[Result], **changed: str) -> str:
    """The file of these results, with columns of the last row changed."""
    rows: list[Mapping[str, str]] = [row(result, ABOUT) for result in results]
    rows[-1:] = [{**last, **changed} for last in rows[-1:]]
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
