"""`loopir-triton`: what it prints, what it writes, and that no input ends in a traceback."""

import ast
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from backends.triton_codegen import tool
from backends.triton_codegen.tool import main
from loopir.parser import parse
from loopir.scope import launch_symbols
from passes.cli import BUG, DONE, REFUSED, USAGE
from tests.support import kernels
from tests.support.texts import GEMM, edited


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "gemm.lir"
    path.write_text(GEMM)
    return str(path)


def checksum(report: str) -> str:
    (found,) = re.findall(r"program: .* C ([0-9a-f]{16})", report)
    return found


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_emit_prints_a_python_file(program: str, capsys):
    assert main(["emit", program, "--num-warps", "4"]) == DONE
    text = capsys.readouterr().out
    ast.parse(text)
    assert "num_warps=4" in text


def test_emit_runs_the_pipeline_and_names_it(program: str, tmp_path: Path, capsys):
    target = tmp_path / "out.py"
    assert main(["emit", program, "-p", "stream-k{units=4}", "-o", str(target)]) == DONE
    assert capsys.readouterr().out == ""
    assert "pipeline: stream-k{units=4}" in target.read_text()


def test_emit_reads_standard_input(monkeypatch, capsys):
    feed(monkeypatch, GEMM.encode())
    assert main(["emit", "-"]) == DONE
    assert "def launch(" in capsys.readouterr().out


def test_compile_prints_a_row_and_writes_the_files_of_each_target(program, tmp_path, capsys):
    folder = tmp_path / "artefacts"
    arguments = ["compile", program, "--target", "cuda:90,hip:gfx942", "--num-stages", "2"]
    assert main([*arguments, "-o", str(folder)]) == DONE
    head, nvidia, amd = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "target",
        "registers",
        "spills",
        "B",
        "shared",
        "B",
        "binary",
        "B",
        "time",
        "s",
    ]
    assert nvidia.startswith("cuda:90")
    assert amd.startswith("hip:gfx942")
    assert {p.suffix for p in folder.iterdir()} == {
        ".py",
        ".ptx",
        ".cubin",
        ".amdgcn",
        ".hsaco",
        ".json",
    }
    described = json.loads((folder / "gemm.cuda-90.json").read_text())
    assert described["target"] == "cuda:90"
    assert [a["name"] for a in described["arguments"]][:3] == ["A", "B", "C"]


def test_compile_goes_on_after_a_target_that_refuses(tmp_path: Path, capsys):
    path = tmp_path / "big.lir"
    sizes = ("BM = 32, BN = 32, BK = 16", "BM = 128, BN = 128, BK = 128")
    exact = ("M = 96, N = 80, K = 100", "M = 256, N = 256, K = 1024")
    path.write_text(edited(GEMM, sizes, exact))
    assert main(["compile", str(path), "--target", "hip:gfx942,cuda:90"]) == REFUSED
    out, err = capsys.readouterr()
    assert "hip:gfx942   refused" in out
    assert "cuda:90 " in out
    assert "bytes of shared memory" in err


def test_run_without_a_pipeline_prints_a_checksum(program: str, capsys):
    assert main(["run", program, "--target", "interpret"]) == DONE
    first = capsys.readouterr().out
    assert main(["run", program, "--target", "interpret"]) == DONE
    again = capsys.readouterr().out
    assert checksum(first) == checksum(again)
    assert main(["run", program, "--target", "interpret", "--seed", "1"]) == DONE
    assert checksum(first) != checksum(capsys.readouterr().out)


def test_run_compares_with_the_program_as_read(program: str, capsys):
    arguments = ["run", program, "-p", "stream-k", "--target", "interpret", "--units", "5"]
    assert main(arguments) == DONE
    assert "C, after against before: largest error" in capsys.readouterr().out
    assert main([*arguments, "--integer"]) == DONE
    assert "C, after against before: equal" in capsys.readouterr().out


def test_run_takes_open_sizes(tmp_path: Path, capsys):
    path = tmp_path / "gemv.lir"
    path.write_text(kernels.GEMV)
    assert main(["run", str(path), "--target", "interpret", "--size", "M=70"]) == USAGE
    assert "size K is open: add --size K=N" in capsys.readouterr().err
    assert (
        main(["run", str(path), "--target", "interpret", "--size", "M=70", "--size", "K=90"])
        == DONE
    )


@pytest.mark.parametrize("name", kernels.NAMES)
def test_run_makes_inputs_for_any_kernel(name: str, tmp_path: Path, capsys):
    path = tmp_path / "kernel.lir"
    path.write_text(kernels.text(name))
    wanted = launch_symbols(parse(kernels.text(name)).kernels[0])
    sizes = [f"--size={n}={v}" for n, v in {"M": 70, "K": 90, "L": 2}.items() if n in wanted]
    assert main(["run", str(path), "--target", "interpret", *sizes]) == DONE


USAGE_ERRORS = {
    "no command": [],
    "no file": ["emit"],
    "missing file": ["emit", "/nowhere/x.lir"],
    "nul in the name": ["emit", "a\0b"],
    "unknown command": ["emot", "x"],
    "unknown pass": ["emit", "{}", "-p", "stream-q"],
    "bad option of a pass": ["emit", "{}", "-p", "stream-k{units=many}"],
    "unknown target": ["compile", "{}", "--target", "cuda:91"],
    "target of another command": ["run", "{}", "--target", "cuda:90"],
    "interpreter ahead of time": ["compile", "{}", "--target", "interpret"],
    "warps": ["emit", "{}", "--num-warps", "5"],
    "stages": ["emit", "{}", "--num-stages", "x"],
    "size": ["run", "{}", "--size", "M"],
    "negative size": ["run", "{}", "--size", "M=-1"],
    "output": ["emit", "{}", "-o", "/nowhere/x.py"],
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_usage_error_exits_with_two(case: str, program: str, capsys):
    arguments = [program if a == "{}" else a for a in USAGE_ERRORS[case]]
    assert main(arguments) == USAGE
    text = capsys.readouterr().err
    assert "loopir-triton" in text
    assert "error: " in text
    assert "Traceback" not in text


TARGETS = {
    "run": ("cuda:90", "this command takes interpret or jit"),
    "compile": ("jit", "this command takes cuda:90 and the like"),
}


@pytest.mark.parametrize("command", TARGETS)
def test_a_usage_error_is_that_of_the_command(command: str, program: str, capsys):
    target, said = TARGETS[command]
    assert main([command, program, "--target", target]) == USAGE
    text = capsys.readouterr().err
    assert f"loopir-triton {command}: error: --target {target}: {said}" in text
    assert f"usage: loopir-triton {command} " in text


REFUSALS = {
    "text": (b"kernel @g(", "line 1, column"),
    "bytes": (b"kernel \xff", "byte 0xff is not UTF-8"),
    "two programs": (GEMM.encode() + b"# -----\n" + GEMM.encode(), "bundles take several"),
    "verifier": (edited(GEMM, ("dot acc, a, b", "dot acc, b, a")).encode(), "V31"),
    "tile size": (GEMM.replace("BM = 32", "BM = 48").encode(), "no power of two"),
}


@pytest.mark.parametrize("command", ["emit", "compile", "run"])
@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_exits_with_one_and_says_why(command: str, case: str, monkeypatch, capsys):
    data, expected = REFUSALS[case]
    feed(monkeypatch, data)
    assert main([command, "-"]) == REFUSED
    text = capsys.readouterr().err
    assert text.startswith("-: ")
    assert expected in text
    assert "Traceback" not in text


def test_pass_that_refuses_shows_its_reasons(monkeypatch, capsys):
    feed(monkeypatch, kernels.ROW_MAX.encode())
    assert main(["emit", "-", "-p", "stream-k{merge=atomic units=3}"]) == REFUSED
    assert "SK03" in capsys.readouterr().err


def test_bug_of_ours_exits_with_three_and_a_reproducer(program: str, monkeypatch, capsys):
    def broken(*_):
        raise KeyError("acc")

    monkeypatch.setattr(tool, "emit", broken)
    assert main(["emit", program, "-p", "stream-k{units=4}"]) == BUG
    text = capsys.readouterr().err
    assert "this is a bug of ours" in text
    assert "# reproducer: loopir-triton emit" in text
    assert "-p 'stream-k{units=4}'" in text
    assert text.endswith(GEMM)
    assert "Traceback" not in text


def test_size_option_rebinds_a_constant(tmp_path, capsys):
    file = tmp_path / "gemm.lir"
    reports = []
    for text, sizes in ((GEMM, ["--size", "M=40"]), (edited(GEMM, ("M = 96", "M = 40")), [])):
        file.write_text(text)
        assert main(["run", str(file), "-p", "stream-k{units=3}", "--integer", *sizes]) == DONE
        reports.append(re.findall(r"C [0-9a-f]{16}|C, .*", capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert reports[0][-1] == "C, after against before: equal"


OPEN = edited(GEMM, (" M = 96,", ""))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "M=8", "--units", "0"], "--units: 1 or more"),
        (["--size", "M=8", "--seed", "99999999999999"], "--seed: 0 to"),
        (["--size", "M=9999999999999999999999"], "--size: NAME=N"),
        (["--size", "M=99999999999"], "the tensors need"),
        (["--size", "M=8", "--target", "jit"], "there is no GPU here"),
        (["--size", "M=8", "--target", ""], "unknown target"),
        (["--size", "M=8", "--size", "Q=4"], "--size Q: no size that can be set"),
        (["--size", "M=8", "--size", "P=4"], "--size P: no size that can be set"),
        (["--size", "M=٣"], "--size: NAME=N"),
        (["--size", "M=8", "--units", "3"], "--units: the launcher picks no block count"),
    ],
)
def test_run_names_the_option_that_cannot_be(options, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    path = tmp_path / "open.lir"
    path.write_text(OPEN)
    assert main(["run", str(path), *options]) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", [["emit", "-o", ""], ["compile", "--target", ""]])
def test_empty_names_are_usage_errors(command, tmp_path):
    path = tmp_path / "gemm.lir"
    path.write_text(GEMM)
    assert main([command[0], str(path), *command[1:]]) == USAGE


@pytest.mark.parametrize("name", ["units", "device"])
def test_run_takes_parameters_called_like_its_options(name: str, tmp_path, capsys):
    path = tmp_path / "gemm.lir"
    path.write_text(OPEN.replace("out C", f"out {name}").replace("store C", f"store {name}"))
    arguments = ["-p", "stream-k{launch-constants=true}", "--size", "M=40", "--integer"]
    assert main(["run", str(path), *arguments, "--units", "3"]) == DONE
    assert f"{name}, after against before: equal" in capsys.readouterr().out


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_streams_are_usage_errors(closed: str):
    command = f"{sys.executable} -m backends.triton_codegen.tool emit - {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, input=GEMM)
    assert done.returncode == USAGE, done.stderr
    assert "Traceback" not in done.stderr
