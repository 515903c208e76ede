"""Compiles programs for targets, in processes of their own or in this one."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from backends.triton_codegen.aot import check_compiles
from backends.triton_codegen.bundle.variants import Compiled, compiled_variants
from backends.triton_codegen.emit import emit
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.targets import parse_target
from loopir.parser import parse


@dataclass(frozen=True)
class Job:
    """A program, as text, for one target."""

    text: str
    pipeline: str
    settings: Settings
    target: str


def compile_jobs(jobs: Sequence[Job], processes: int) -> list[list[list[Compiled]]]:
    """Of each job, of each kernel, the variants. With more than one process, the main module must
    be one that can be imported again. CodegenError: a target cannot do a kernel."""
    if processes <= 1 or len(jobs) == 1:
        return [_compiled(job) for job in jobs]
    workers = min(processes, len(jobs))
    spawned = get_context("spawn")  # Triton and torch have threads, which a fork would lose
    with ProcessPoolExecutor(workers, spawned, _alone) as pool:
        return list(pool.map(_compiled, jobs))


def _alone() -> None:
    os.environ.pop("TRITON_INTERPRET", None)


def _compiled(job: Job) -> list[list[Compiled]]:
    check_compiles()
    module = emit(parse(job.text), job.settings, job.pipeline)
    target = parse_target(job.target)
    with _without_line_info():
        return [compiled_variants(module, i, target) for i in range(len(module.kernels))]


@contextmanager
def _without_line_info() -> Iterator[None]:
    """Binaries name no files of this machine."""
    from triton import knobs

    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        yield
