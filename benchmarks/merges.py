"""Times of the merges on a GPU: how the parts of split tiles meet, against whole tiles and
torch.matmul, interleaved round by round, with a cold L2.

As benchmarks.gemm, with two more columns: the bytes of the workspace, and `host_us`, the Python of
one launch call, taken while the GPU is not waited for. Shapes with fewer tiles than a wave, or a
short last one.
"""

import statistics
import sys
import time
from collections.abc import Iterator

import torch

from backends.triton_codegen import emit
from benchmarks import gemm as bench
from benchmarks.gemm import Arm, Shape, baseline, generated, operands, timed_rows
from loopir.build import gemm
from loopir.nodes import Program
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge

SHAPES = ((1536, 1536, 4096), (128, 512, 16384))
MERGES = (Merge.WORKSPACE, Merge.FIXUP, Merge.ATOMIC_WORKSPACE, Merge.ATOMIC)
#: by BM, BN, BK, warps
SCHEDULES = {
    (128, 128, 64, 4): ("units=132", "splits=2", "splits=4", "splits=8", "splits=16"),
    (128, 256, 64, 8): ("units=132", "splits=4"),
}
_BATCH, _BATCHES = 50, 20  # launches that are in flight at once, and how often


def main(argv: list[str] | None = None) -> int:
    options = bench.parsed(argv, "benchmarks.merges", __doc__, SHAPES)
    if not torch.cuda.is_available():
        print("benchmarks.merges: there is no GPU that torch can use", file=sys.stderr)
        return 2
    rows = [row for shape in options.shapes for row in measure(shape, options.rounds)]
    bench.write_csv(rows, options)
    return 0


def measure(shape: Shape, rounds: int) -> list[dict[str, object]]:
    """The rows of benchmarks.gemm, with workspace bytes and us of Python a launch."""
    a, b = operands(shape)
    arms = [(baseline(a, b), 0), *_arms(shape, a, b)]
    rows = timed_rows(shape, [arm for arm, _ in arms], a, b, rounds)
    for row, (arm, size) in zip(rows, arms, strict=True):
        row |= {"host_us": f"{host_us(arm):.1f}", "workspace_bytes": size}
        print(
            "{m:6}x{n}x{k:<8} {arm:42} {us:>9} us {tflops:>7} TFLOP/s  x{ratio}  "
            "{host_us:>6} us of Python {workspace_bytes:>12,} bytes".format(**row)
        )
    return rows


def host_us(arm: Arm) -> float:
    """The median over batches of the host's time of a call, in us."""
    samples = []
    for _ in range(_BATCHES):
        _wait()
        start = time.perf_counter()
        for _ in range(_BATCH):
            arm.run()
        samples.append((time.perf_counter() - start) / _BATCH * 1e6)
    return statistics.median(samples)


def _wait() -> None:
    if bench.DEVICE == "cuda":
        torch.cuda.synchronize()


def _arms(shape: Shape, a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[Arm, int]]:
    """Each with the bytes of its workspace."""
    for (*tile, warps), schedules in SCHEDULES.items():
        for name, program in programs(shape, tuple(tile), schedules):
            size = emit(program).workspace_bytes()
            name = f"{name} {'x'.join(map(str, tile))}w{warps}"
            yield generated(name, program, warps, a, b), size


def programs(
    shape: Shape, tile: tuple[int, ...], schedules: tuple[str, ...]
) -> Iterator[tuple[str, Program]]:
    """Whole tiles, then every merge with every schedule, by name."""
    m, n, k = shape
    bm, bn, bk = tile
    whole = gemm(m, n, k, "bf16", tile=(bm, bn, bk), b_layout="col")
    yield "data-parallel", parse_pipeline("tile-order{group=8}").run(whole)
    for merge in MERGES:
        for schedule in schedules:
            split = f"tile-order{{group=8}},stream-k{{merge={merge.value} {schedule}}}"
            yield f"{merge.value} {schedule}", parse_pipeline(split).run(whole)


if __name__ == "__main__":
    sys.exit(main())
