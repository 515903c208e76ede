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


@dataclass(frozen=True)
class Arm:
    """`run` computes into `out`."""

    name: str
    out: torch.Tensor
    run: Callable[[], object]


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    if not torch.cuda.is_available():
        print("benchmarks.gemm: there is no GPU that torch can use", file=sys.stderr)
        return 2
    rows = [row for shape in options.shapes for row in measure(shape, options.rounds)]
    header = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    header |= {"triton": triton.__version__, "commit": options.commit}
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0], *header])
            writer.writeheader()
            writer.writerows(row | header for row in rows)
    return 0


def measure(shape: tuple[int, int, int], rounds: int) -> list[dict[str, object]]:
    """One row an arm: median us over the rounds, TFLOP/s, ratio to the baseline, largest error over
    the allowed one."""
    m, n, k = shape
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k, device="cuda").to(torch.bfloat16)
    b = torch.randn(n, k, device="cuda").to(torch.bfloat16).t()
    arms = list(_arms(shape, a, b))
    before = [_error(arm, a, b) for arm in arms]
    times = _interleaved(arms, rounds)
    after = [_error(arm, a, b) for arm in arms]
    errors = {arm.name: max(e) for arm, *e in zip(arms, before, after, strict=True)}
    rows = [_row(shape, arm.name, times, errors[arm.name]) for arm in arms]
    for row in rows:
        print("{m:6}x{n}x{k:<8} {arm:34} {us:>9} us {tflops:>7} TFLOP/s  x{ratio}".format(**row))
    return rows


def _row(
    shape: tuple[int, int, int], name: str, times: dict[str, list[float]], error: float
) -> dict[str, object]:
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


def _arms(shape: tuple[int, int, int], a: torch.Tensor, b: torch.Tensor) -> Iterator[Arm]:
    m, n, k = shape
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    yield Arm(BASELINE, out, lambda: torch.matmul(a, b, out=out))
    for name, pipeline in PIPELINES.items():
        for bm, bn, bk, warps in TILES:
            program = gemm(m, n, k, "bf16", tile=(bm, bn, bk), b_layout="col")
            yield _arm(
                f"{name} {bm}x{bn}x{bk}w{warps}", parse_pipeline(pipeline).run(program), warps, a, b
            )


def _arm(name: str, program: Program, warps: int, a: torch.Tensor, b: torch.Tensor) -> Arm:
    kernel = compile(program, "jit", num_warps=warps, num_stages=3)
    c = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=torch.float32)
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
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for arm in arms * 3:
        arm.run()
    for r in range(rounds):
        turn = arms[r % len(arms) :] + arms[: r % len(arms)]
        for arm in turn if r < rounds // 2 else reversed(turn):
            times[arm.name].append(_timed(arm, flush))
    return times


def _timed(arm: Arm, flush: torch.Tensor) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.fill_(0)
    flush.fill_(1)
    start.record()
    arm.run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gemm", description=__doc__)
    parser.add_argument(
        "--shape", dest="shapes", action="append", type=_shape, help="MxNxK, may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--csv", type=Path, help="where to write the rows")
    parser.add_argument("--commit", default=_commit(), help="recorded in the rows")
    options = parser.parse_args(argv)
    options.shapes = options.shapes or list(SHAPES)
    return options


def _shape(text: str) -> tuple[int, int, int]:
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
