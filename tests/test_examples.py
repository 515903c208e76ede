"""The examples and the README's code run, and print what they promise."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import torch

from backends.triton_codegen import tool
from passes import opt

ROOT = Path(__file__).parents[1]
WORKLOADS = ("gemv", "batched", "conv_as_gemm", "contraction")
README = (ROOT / "README.md").read_text()


def test_quickstart_shows_every_step(capsys):
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    out = capsys.readouterr().out
    for part in (
        "grid (ti, tj) in",
        "grid1d (unit) in [UNITS] persistent",
        "utilisation",
        "@triton.jit",
        "largest error against fp64",
        "registers, 0 spilled bytes",
    ):
        assert part in out


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_shows_the_ir_before_and_after_and_its_check(name: str, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    out = capsys.readouterr().out
    parts = ("parallel ", "grid1d (unit) in [UNITS] persistent", "largest error against fp64")
    places = [out.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("name", WORKLOADS)
def test_control_workload_that_computes_something_else_fails(name: str, capsys):
    names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    exact = names["main"].__globals__["compile"]

    def wrong(*arguments):
        kernel = exact(*arguments)

        def launch(*tensors):
            kernel(*tensors)
            tensors[-1].view(-1)[-1] += 1

        return launch

    names["main"].__globals__["compile"] = wrong
    with pytest.raises(AssertionError, match="beyond what fp32 sums allow"):
        names["main"]()


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's, of itself
def test_mlp_goes_through_torch_compile_and_trains(capsys):
    names = runpy.run_path(str(ROOT / "examples" / "mlp_torch.py"))
    names["main"]()
    out = capsys.readouterr().out
    assert "down.weight  [32, 128]  relative error" in out
    assert out.count("2 taken, 0 left alone") == 2
    assert "linear: linear -> loopir::linear with gelu" in out


def test_control_mlp_that_computes_something_else_fails():
    names = runpy.run_path(str(ROOT / "examples" / "mlp_torch.py"))
    model, x = names["Mlp"]().bfloat16(), torch.randn(48, 64).bfloat16()
    with pytest.raises(AssertionError, match=r"result: error .* is beyond what bf16 allows"):
        names["run_and_check"](lambda x: model(x) * 1.02, model, x)
    names["main"].__globals__["replace"] = lambda *_: (lambda x: model(x) * 1.02, None)
    with pytest.raises(AssertionError, match="beyond what bf16 allows"):
        names["by_generated_kernels"](model, x)


def test_every_python_example_is_run_here():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names.issuperset(WORKLOADS)
    assert not [name for name in names if f'"{name}' not in Path(__file__).read_text()]


def test_dual_gemm_goes_through_opt(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (command,) = re.findall(r"`loopir-opt (.*)`", Path("examples/dual_gemm.lir").read_text())
    assert opt.main(shlex.split(command)) == 0
    out = capsys.readouterr().out
    assert "grid (ti, tj) in" in out
    assert "dot acc1, a, b1" in out
    assert "dot acc2, a, b2" in out
    sizes = ["--run", "--size", "M=18", "--size", "N=3", "--size", "K=20"]
    assert opt.main([*shlex.split(command.replace("m=128 n=64", "m=16 n=16")), *sizes]) == 0
    assert re.search(r"# run: C bf16\[18, 3\] .*equal", capsys.readouterr().out)


def test_explain_schedule_draws_three_devices_and_answers_the_question(
    capsys, monkeypatch, tmp_path
):
    script = ROOT / "examples" / "explain_schedule.py"
    monkeypatch.setattr("sys.argv", [str(script), str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    out = capsys.readouterr().out
    drawings = {
        f"stream_k_{name}.svg" for name in ("5_on_4", "144_on_108", "144_on_132", "144_on_148")
    }
    assert {path.name for path in tmp_path.iterdir()} == drawings
    for path in (ROOT / "docs" / "img").iterdir():
        assert (tmp_path / path.name).read_text() == path.read_text()
    for gpu, best in (
        ("A100", "stream-k, 93"),
        ("H100", "stream-k, 78"),
        ("B200", "data-parallel, 66"),
    ):
        section = out.split(f"1536 x 1536 x 4096 on {gpu} ")[1]
        assert f"least time             {best}\n" in section.split("\n--- ")[0]
    for sms in (132, 148):
        for step, kind in ((1, "any size"), (256, "whole tiles")):
            assert f"{sms} SMs, {kind}: {by_hand(sms, step)} in the last of 2 waves\n" in out + "\n"


def by_hand(sms: int, step: int) -> str:
    """The smallest square above 2048, by counting down full waves."""
    n = 2048
    while True:
        n += step
        tiles = len(range(0, n, 256)) * len(range(0, n, 128))
        last = tiles
        while last > sms:
            last -= sms
        if last < sms / 2:
            return f"{n} x {n}, {tiles} tiles of 256 x 128, {last} of {sms}"


def test_control_the_count_by_hand_moves_on_where_the_last_wave_is_half_full():
    assert by_hand(132, 1).startswith("2049 x 2049, 153 tiles")
    assert by_hand(153, 256).startswith("2304 x 2304, 162 tiles")
    assert by_hand(160, 1).startswith("2177 x 2177, 162 tiles")  # 153 of 160 are more than half


def test_explain_schedule_leaves_no_file_where_no_folder_is_given(capsys, monkeypatch, tmp_path):
    script = ROOT / "examples" / "explain_schedule.py"
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(script), run_name="__main__")
    assert "drawn: " in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_readme_python_runs(capsys, monkeypatch):
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT)
    for code in snippets:
        exec(compile(code, "README.md", "exec"), {})
    assert "applicable" in capsys.readouterr().out
    assert len(snippets) == 3


COMMANDS = re.findall(r"^    (loopir-(?:opt|triton) [^#\n]*)(.*)", README, re.MULTILINE)


@pytest.mark.parametrize(("command", "comment"), COMMANDS)
def test_readme_command_ends_as_it_says(command: str, comment: str, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    name, *arguments = shlex.split(command.replace("-o gemm.py", f"-o {tmp_path / 'gemm.py'}"))
    code = (opt.main if name == "loopir-opt" else tool.main)(arguments)
    refused = "refused" in comment
    assert code == (1 if refused else 0), capsys.readouterr().err
    if refused:
        assert "SK08" in capsys.readouterr().err


def test_readme_has_commands_of_both_tools_and_one_that_is_refused():
    assert {command.split()[0] for command, _ in COMMANDS} == {"loopir-opt", "loopir-triton"}
    assert len(COMMANDS) >= 5
    assert sum("refused" in comment for _, comment in COMMANDS) == 1
