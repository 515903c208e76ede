"""`loopir-triton plan` and `calibrate`."""

import json
import os
import shlex
from pathlib import Path

import pytest
import torch

from backends.planner import Config, Device, Problem, choose, predict, read_device, shipped
from backends.planner.isolate import Found, Probe, probes
from backends.planner.problem import FIELDS
from backends.triton_codegen import Settings, emit
from backends.triton_codegen.ops import plan_command
from backends.triton_codegen.ops.calibrate import calibrated
from backends.triton_codegen.tool import main
from passes.cli import DONE, REFUSED, USAGE


def test_plan_says_what_why_and_what_else(capsys):
    assert main(["plan", "1536x1536x4096"]) == DONE
    text = capsys.readouterr().out
    assert str(choose(Problem(1536, 1536, 4096))) in text
    assert "us predicted, bound by" in text
    assert "runners-up of" in text


def test_plan_reads_a_whole_problem(capsys):
    assert main(["plan", "64x64x64", "f16->f32", "batch=2", "bias=f32"]) == DONE
    assert capsys.readouterr().out.startswith("64x64x64 f16->f32 row*col batch=2 bias=f32 on")


def test_plan_as_json_reads_back(capsys):
    assert main(["plan", "1536x1536x4096", "--json"]) == DONE
    data = json.loads(capsys.readouterr().out)
    first = data["candidates"][0]
    assert Config.from_json(first["config"]) == Config.parse(first["text"])
    assert first["us"] == min(row["us"] for row in data["candidates"])


def test_plan_takes_the_constants_of_a_device(tmp_path: Path, capsys):
    path = tmp_path / "device.json"
    slow = {**shipped()["NVIDIA H200"].to_json(), "name": "slow", "launch_us": 1000.0}
    path.write_text(json.dumps(slow))
    assert main(["plan", "64x64x64", "--device", str(path)]) == DONE
    assert "on slow: 10" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["h200", "H200", "NVIDIA H200"])
def test_plan_takes_the_name_of_a_device(name: str, capsys):
    assert main(["plan", "64x64x64", "--device", name]) == DONE
    assert "on NVIDIA H200: " in capsys.readouterr().out


def test_plan_waits_for_no_pipe_and_reads_no_endless_file(tmp_path: Path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(SystemExit, match=str(USAGE)):
            plan_command.main(["64x64x64", "--device", str(place)])
        assert f"--device: {place}: it is no regular file" in capsys.readouterr().err


def test_help_of_plan_quotes_the_problem_and_lists_its_fields(capsys):
    assert main(["plan", "--help"]) == DONE
    text = " ".join(capsys.readouterr().out.split())
    assert "'1536x1536x4096 bf16->f32 row*col bias=bf16'" in text
    assert f"FIELD: {', '.join(FIELDS)}" in text
    assert "known: NVIDIA H200" in text


@pytest.mark.parametrize(
    "problem", ["8x1024x8192", "1x4096x4096", "1536x1536x4096 bf16->f32 bias=bf16", "9x9x9 f32"]
)
def test_plan_says_how_to_compile_what_it_writes(problem: str, tmp_path: Path, capsys):
    path = tmp_path / "a choice.lir"
    assert main(["plan", problem, "-o", str(path)]) == DONE
    *_, command = capsys.readouterr().out.splitlines()
    tool, verb, *options = shlex.split(command)
    assert (tool, verb, *options[-2:]) == ("loopir-triton", "compile", "--target", "cuda:90")
    assert main(["emit", *options[:-2]]) == DONE
    config = choose(problem)
    program, settings = config.program(Problem.parse(problem)), Settings(**config.settings())
    assert capsys.readouterr().out == emit(program, settings, config.pipeline).source


def test_control_the_options_matter(tmp_path: Path, capsys):
    path = str(tmp_path / "choice.lir")
    assert main(["plan", "8x1024x8192", "-o", path]) == DONE
    *_, command = capsys.readouterr().out.splitlines()
    assert main(["emit", *shlex.split(command)[2:-3]]) == DONE  # without --launch-pdl
    assert "launch_pdl=on" not in capsys.readouterr().out
    assert "--launch-pdl" in command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["64x64"], "does not begin with MxNxK"),
        (["0x64x64"], "C has no element"),
        (["64x64x64", "--device", "/nowhere.json"], "nowhere.json"),
        (["64x64x64", "--device", "b300"], "b300 is no file, and none of the known: NVIDIA H200"),
        ([], "required"),
        (["64x64x64", "-o", "/nowhere/choice.lir"], "/nowhere/choice.lir"),
        (["64x64x64", "-o", ""], "-o: a name is missing"),
        (["64x64x64", "-o", "a\nb"], "-o: a name is missing, or does not print"),
        (["64x64x64", "-o", "choice.lir", "--json"], "-o: of a choice that is told as text"),
    ],
)
def test_plan_refuses_in_words(arguments: list[str], message: str, capsys):
    assert main(["plan", *arguments]) == USAGE
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_calibrate_needs_a_gpu(capsys):
    assert main(["calibrate"]) == USAGE
    told = capsys.readouterr().err
    assert told == "loopir-triton calibrate: error: there is no GPU that torch can use\n"


@pytest.mark.parametrize(("factor", "code"), [(1.0, DONE), (1.3, REFUSED)])
def test_calibrate_leaves_its_times_whether_believed_or_not(
    factor: float, code: int, tmp_path: Path, monkeypatch, capsys
):
    base, path = shipped()["NVIDIA H200"], tmp_path / "device.json"
    found = calibrated(Found(base, {}), {}, predicted(base, factor), lambda text: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("backends.triton_codegen.ops.devices.device_of", lambda index: base)
    monkeypatch.setattr("backends.triton_codegen.ops.calibrate.calibrate", lambda *_: found)
    assert main(["calibrate", "-o", str(path)]) == code
    assert path.exists() == (code == DONE)
    lines = path.with_suffix(".probes.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * len(probes(base.sms))
    if code == REFUSED:
        assert "their own probes 26 % wrong in the mean" in capsys.readouterr().err


def predicted(device: Device, factor: float) -> list[tuple[Probe, tuple[float, float]]]:
    """Probes with `factor` times what the model says of them."""

    def us(probe: Probe, problem: Problem) -> float:
        return factor * predict(probe.config, problem, device).time

    return [(p, (us(p, p.fewer), us(p, p.more))) for p in probes(device.sms)]


@pytest.mark.gpu
@pytest.mark.timeout(300)  # it compiles some sixty kernels
@pytest.mark.skipif(
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1,
    reason="times a GPU that other workers use",
)
def test_calibrate_writes_a_device_that_plan_reads(tmp_path: Path):
    path = tmp_path / "device.json"
    assert main(["calibrate", "-o", str(path)]) == DONE
    device = read_device(path.read_text())
    assert device.name == torch.cuda.get_device_name()
    assert "128x256x64 w8 s3 descriptors" in path.with_suffix(".probes.csv").read_text()
    assert choose(Problem(4096, 4096, 4096), device)
