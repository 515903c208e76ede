"""GEMM times on a GPU: generated kernels against torch.matmul, interleaved round by round, with a
cold L2.

bf16, C[M, N] = A[M, K] B[N, K]^T. Each timed launch has about 120 us of GPU work in front, two
fills of 256 MB, which hides the host's launch and flushes L2. Arms rotate from round to round and
run in reverse in the second half. Results are checked against fp64 before and after. One CSV row an
arm and shape, one aligned line a shape.
"""

import argparse
import csv
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
import triton

from backends.triton_codegen import compile
from loopir.build import gemm
from loopir.nodes import Program
from passes.pipeline import parse_pipeline

SHAPES = ((1536, 1536, 4096), (4096, 4096, 4096), (128, 4096, 4096))
TILES = ((128, 128, 64, 4), (128, 256, 64, 8))  # BM, BN, BK, warps
PIPELINES = {
    "data-parallel": "tile-order{group=8}",
    "stream-k-atomic": "tile-order{group=8},stream-k{merge=atomic units=132}",
}
BASELINE = "torch.matmul"
DEVICE, TARGET = "cuda", "jit"

Shape: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Arm:
    """`run` computes into `out`."""

    name: str
    out: torch.Tensor
    run: Callable[[], object]


def main(argv: list[str] | None = None) -> int:
    options = parsed(argv, "benchmarks.gemm", __doc__, SHAPES)
    if not torch.cuda.is_available():
        print("benchmarks.gemm: there is no GPU that torch can use", file=sys.stderr)
        return 2
    rows = [row for shape in options.shapes for row in measure(shape, options.rounds)]
    write_csv(rows, options)
    return 0


def write_csv(rows: list[dict[str, object]], options: argparse.Namespace) -> None:
    """`rows` with device, versions and commit, where the options name a file."""
    header = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    header |= {"triton": triton.__version__, "commit": options.commit}
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0], *header])
            writer.writeheader()
            writer.writerows(row | header for row in rows)


def measure(shape: Shape, rounds: int) -> list[dict[str, object]]:
    """One row an arm: median us over the rounds, TFLOP/s, ratio to the baseline, largest error over
    the allowed one."""
    a, b = operands(shape)
    rows = timed_rows(shape, list(_arms(shape, a, b)), a, b, rounds)
    for row in rows:
        print("{m:6}x{n}x{k:<8} {arm:34} {us:>9} us {tflops:>7} TFLOP/s  x{ratio}".format(**row))
    return rows


def operands(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal A [M, K] and B [K, N], stored as [N, K], in bf16."""
    m, n, k = shape
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k, device=DEVICE).to(torch.bfloat16)
    return a, torch.randn(n, k, device=DEVICE).to(torch.bfloat16).t()


def timed_rows(
    shape: Shape, arms: list[Arm], a: torch.Tensor, b: torch.Tensor, rounds: int
) -> list[dict[str, object]]:
    """A row an arm, each checked before and after. AssertionError: a result is wrong."""
    before = [_error(arm, a, b) for arm in arms]
    times = _interleaved(arms, rounds)
    after = [_error(arm, a, b) for arm in arms]
    errors = {arm.name: max(e) for arm, *e in zip(arms, before, after, strict=True)}
    return [_row(shape, arm.name, times, errors[arm.name]) for arm in arms]


def _row(shape: Shape, name: str, times: dict[str, list[float]], error: float) -> dict[str, object]:
    m, n, k = shape
    us = statistics.median(times[name])
    pairs = zip(times[BASELINE], times[name], strict=True)
    return {
        "m": m,
        "n": n,
        "k": k,
        "arm": name,
        "us": f"{us:.2f}",
        "tflops": f"{2e-6 * m * n * k / us:.1f}",
        "ratio": f"{statistics.median(base / own for base, own in pairs):.3f}",
        "error": f"{error:.3f}",
        "rounds": len(times[name]),
    }


def baseline(a: torch.Tensor, b: torch.Tensor) -> Arm:
    """torch.matmul, in bf16."""
    out = torch.empty(a.shape[0], b.shape[1], device=DEVICE, dtype=torch.bfloat16)
    return Arm(BASELINE, out, lambda: torch.matmul(a, b, out=out))


def _arms(shape: Shape, a: torch.Tensor, b: torch.Tensor) -> Iterator[Arm]:
    m, n, k = shape
    yield baseline(a, b)
    for name, pipeline in PIPELINES.items():
        for bm, bn, bk, warps in TILES:
            program = gemm(m, n, k, "bf16", tile=(bm, bn, bk), b_layout="col")
            program = parse_pipeline(pipeline).run(program)
            yield generated(f"{name} {bm}x{bn}x{bk}w{warps}", program, warps, a, b)


def generated(name: str, program: Program, warps: int, a: torch.Tensor, b: torch.Tensor) -> Arm:
    """The kernel of a program, which writes fp32."""
    kernel = compile(program, TARGET, num_warps=warps, num_stages=3)
    c = torch.empty(a.shape[0], b.shape[1], device=DEVICE, dtype=torch.float32)
    return Arm(name, c, lambda: kernel(a, b, c))


def _error(arm: Arm, a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest error against fp64 over the allowed one: sqrt(K) eps32 sum|ab| + half an ulp of
    the output type. Raises AssertionError above one."""
    arm.out.fill_(float("nan"))
    arm.run()
    exact = a.double() @ b.double()
    size = a.double().abs() @ b.double().abs()
    half_ulp = exact.abs() * torch.finfo(arm.out.dtype).eps / 2
    allowed = a.shape[1] ** 0.5 * torch.finfo(torch.float32).eps * size + half_ulp
    worst = float(((arm.out.double() - exact).abs() / allowed).nan_to_num(nan=float("inf")).max())
    if worst > 1:
        raise AssertionError(f"{arm.name}: error {worst:.3g} times the allowed one")
    return worst


def _interleaved(arms: list[Arm], rounds: int) -> dict[str, list[float]]:
    flush = _flushed()
    times: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for arm in arms * 3:
        arm.run()
    for r in range(rounds):
        turn = arms[r % len(arms) :] + arms[: r % len(arms)]
        for arm in turn if r < rounds // 2 else reversed(turn):
            times[arm.name].append(_timed(arm, flush))
    return times


def _flushed() -> torch.Tensor:
    """What evicts all else from L2 when it is filled."""
    return torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)


def _timed(arm: Arm, flush: torch.Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.fill_(0)
    flush.fill_(1)
    start.record()
    arm.run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def parsed(
    argv: list[str] | None, name: str, description: str | None, shapes: tuple[Shape, ...]
) -> argparse.Namespace:
    """The options of a benchmark; `shapes`: if none are named."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=description)
    parser.add_argument(
        "--shape", dest="shapes", action="append", type=_shape, help="MxNxK, may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--csv", type=Path, help="where to write the rows")
    parser.add_argument("--commit", default=_commit(), help="recorded in the rows")
    options = parser.parse_args(argv)
    options.shapes = options.shapes or list(shapes)
    return options


def _shape(text: str) -> Shape:
    m, n, k = map(int, text.split("x"))
    return m, n, k


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
