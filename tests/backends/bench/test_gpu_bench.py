"""The kernels, libraries and checks of a worker: on the CPU as far as they go there, on a GPU."""

import csv
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backends.bench.arms import Arm, configured, library
from backends.bench.command import main
from backends.bench.gpu import GpuBench, GpuLab
from backends.bench.messages import Facts, Sample
from backends.bench.operands import Operands
from backends.bench.runners import runner
from backends.bench.worker import Refused
from backends.planner.config import Config
from backends.planner.problem import Problem
from backends.triton_codegen.ops.bound import compiled
from passes.cli import DONE, USAGE
from tests.support import bench as fake

TILE = "gemm 16x16x16 w4 s2"
SPLIT = "gemm 16x16x16 w4 s2: stream-k{decomposition=split-k splits=2}"
CONFIGS = (
    TILE,
    "gemm 32x16x16 w4 s2 swapped: tile-order{group=2}",
    "gemm 16x16x16 w4 s2: stream-k{units=5}",
    SPLIT,
)


def arm(text: str) -> Arm:
    return configured(Config.parse(text))


def cpu_bench(m: int = 40, n: int = 24, k: int = 80, **options) -> GpuBench:
    return GpuBench(Operands(Problem(m, n, k, **options), 0, "cpu"))


def checked(bench: GpuBench, asked: Arm) -> float:
    """The error of one launch into a poisoned output."""
    bench.build(asked)
    bench.launch(asked)
    bench.poison(asked)
    assert bench.error(asked) > 1
    bench.launch(asked)
    bench.wait()
    return bench.error(asked)


@pytest.mark.parametrize("text", CONFIGS)
def test_a_generated_kernel_computes_the_product(text: str):
    assert checked(cpu_bench(), arm(text)) <= 1


@pytest.mark.parametrize(
    "options",
    [
        {"a_layout": "col", "b_layout": "row"},
        {"dtype": "f16", "out_dtype": "f32"},
        {"dtype": "i8", "out_dtype": "i32"},
        {"batch": 3},
    ],
    ids=lambda options: " ".join(options),
)
def test_a_kernel_of_every_kind_of_problem_computes_it(options):
    assert checked(cpu_bench(**options), arm("gemm 16x16x32 w4 s2")) <= 1


def test_control_the_product_of_other_operands_is_wrong():
    own, other = (Operands(Problem(40, 24, 80), seed, "cpu") for seed in (0, 1))
    made = runner(arm(TILE), own)
    made.run()
    assert made.out is not None
    assert own.error(made.out, is_ours=True) <= 1
    assert other.error(made.out, is_ours=True) > 1


@pytest.mark.parametrize("name", ["cublas", "matmul"])
@pytest.mark.parametrize("options", [{}, {"batch": 2}, {"b_layout": "row", "dtype": "f32"}])
def test_a_library_computes_the_product(name: str, options):
    assert checked(cpu_bench(**options), library(name)) <= 1


def test_a_workspace_is_counted():
    bench = cpu_bench()
    assert bench.build(arm(TILE)).workspace_bytes == 0
    assert bench.build(arm(SPLIT)).workspace_bytes >= 40 * 24 * 4 * 2


def test_a_kernel_of_another_process_computes_the_product(monkeypatch: pytest.MonkeyPatch):
    """It is built without the passes, and what they would make is not looked at."""
    first = cpu_bench().build(arm(SPLIT))
    monkeypatch.setattr("backends.bench.runners.compiled", None)
    bench = cpu_bench()
    again = bench.build(arm(SPLIT), first.kernel)
    assert again == replace(first, kernel=b"")
    bench.launch(arm(SPLIT))
    assert bench.error(arm(SPLIT)) <= 1


def test_what_is_closed_keeps_no_memory():
    bench = cpu_bench()
    checked(bench, arm(SPLIT))
    kernel = compiled(Problem(40, 24, 80), Config.parse(SPLIT), on_gpu=False)
    workspaces = kernel.namespace._workspaces
    assert workspaces
    bench.close()
    assert not workspaces


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gemm 16x16x16 w4 s2: stream-k{merge=atomic units=4}", "NotApplicable"),
        ("gemm 16x16x16 w4 s2: fly-away", "PipelineError"),
        ("gemv 1x4x32 w4 s1", "ValueError: .*a GEMV has no batch"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_reason(text: str, said: str):
    with pytest.raises(Refused, match=said):
        cpu_bench(batch=2).build(arm(text))


def test_inductor_has_no_arm_for_a_result_of_another_type():
    with pytest.raises(Refused, match="inductor: the result has another type"):
        cpu_bench(out_dtype="f32").build(library("inductor"))


# --- whole runs


class CpuBench(GpuBench):
    """Times of the interpreter: they say nothing, but they are there."""

    def sample(self, arm: Arm, pack: int) -> Sample:
        start = time.perf_counter()
        for _ in range(pack):
            self.launch(arm)
        us = (time.perf_counter() - start) * 1e6 / pack
        return Sample(us, us)


class CpuLab:
    def facts(self) -> Facts:
        return fake.FakeLab().facts()

    def open(self, problem: Problem, seed: int) -> CpuBench:
        return CpuBench(Operands(problem, seed, "cpu"))


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["arm"]: row for row in csv.DictReader(file)}


def test_a_run_through_the_interpreter(tmp_path: Path):
    words = ("--shape", "24x16x48", "--config", TILE, "--config", SPLIT, "--rounds", "6")
    output = ("--jobs", "1", "-o", str(tmp_path / "a"))
    assert main([*words, *output], lambda: fake.Inline(CpuLab)) == DONE
    rows = rows_of(tmp_path / "a.csv")
    assert set(rows) == {"cublas", "cublaslt", arm(TILE).name, arm(SPLIT).name}
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert all(float(row["error"]) <= 1 for row in rows.values())


def test_a_machine_without_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Refused, match="there is no GPU that torch can use"):
        GpuLab()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_run_without_a_gpu_is_wrong_usage_and_one_line(capsys: pytest.CaptureFixture[str]):
    words = ("--shape", "24x16x48", "--config", TILE, "--jobs", "1")
    assert main(words, lambda: fake.Inline(GpuLab)) == USAGE
    told = capsys.readouterr().err
    assert told == "loopir-triton bench: error: start: there is no GPU that torch can use\n"


@pytest.mark.gpu
@pytest.mark.timeout(300)  # it starts three processes, which import torch and compile
def test_a_run_on_a_gpu(tmp_path: Path):
    words = (
        "--shape",
        "512x512x512",
        "--config",
        "gemm 64x64x64 w4 s3",
        "--arm",
        "planner",
        "--arm",
        "matmul",
    )
    output = ("--rounds", "12", "--jobs", "2", "-o", str(tmp_path / "a"))
    assert main([*words, *output]) == DONE
    rows = rows_of(tmp_path / "a.csv")
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert all(1 < float(row["us"]) < 1000 for row in rows.values())
    assert all(0 < float(row["host_us"]) < 1000 for row in rows.values())
    assert {row["device"] for row in rows.values()} == {torch.cuda.get_device_name()}
