"""Figures of the compiler itself, on the CPU: imports, rewriting, one offline compile. Prints a
line each."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

IMPORT = """
import time
start = time.perf_counter()
import loopir.build, loopir.parser, loopir.printer, passes.pipeline, passes.stream_k
print(time.perf_counter() - start)
"""


def main() -> int:
    print(f"import of loopir + passes       {import_seconds():7.3f} s   (goal < 0.7 s)")
    print(f"build, check, apply, emit       {rewrite_seconds() * 1e3:7.1f} ms  (goal < 50 ms)")
    print(f"one sm_90 compile, cold cache   {compile_seconds():7.2f} s   (goal < 3 s)")
    return 0


def import_seconds(rounds: int = 5) -> float:
    """The median over fresh processes, in seconds."""
    run = [sys.executable, "-c", IMPORT]
    return statistics.median(float(subprocess.check_output(run)) for _ in range(rounds))


def rewrite_seconds(rounds: int = 20) -> float:
    """Build + can_be_applied + apply + emit of a bf16 GEMM, in seconds: the first call of a process
    apart."""
    from backends.triton_codegen import emit
    from loopir.build import gemm
    from passes.stream_k import StreamKPass

    def once() -> None:
        program = gemm(1536, 1536, 4096, "bf16")
        stream_k = StreamKPass(units=132)
        assert stream_k.can_be_applied(program)
        emit(stream_k.apply(program))

    once()
    return statistics.median(_seconds(once) for _ in range(rounds))


def compile_seconds() -> float:
    """One ahead-of-time compile for cuda:90, in seconds, with imports and the compiler's own start
    paid before."""
    from backends.triton_codegen import compile
    from loopir.build import gemm

    compile(gemm(512, 512, 512, "f16", tile=(64, 64, 32)), "cuda:90")
    fresh = gemm(
        1536, 1536, 4096 + 64 * (time.time_ns() % 4096), "bf16"
    )  # a size no cache has seen
    return _seconds(lambda: compile(fresh, "cuda:90"))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
