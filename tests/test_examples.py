"""The examples and the README's code run, and print what they promise."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from backends.triton_codegen import tool
from passes import opt

ROOT = Path(__file__).parents[1]
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


def test_readme_python_runs(capsys, monkeypatch):
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(ROOT)
    for code in snippets:
        exec(compile(code, "README.md", "exec"), {})
    assert "applicable" in capsys.readouterr().out
    assert len(snippets) == 2


COMMANDS = re.findall(r"^    (loopir-(?:opt|triton) [^#\n]*)", README, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_command_ends_as_it_says(command: str, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    name, *arguments = shlex.split(command.replace("-o gemm.py", f"-o {tmp_path / 'gemm.py'}"))
    code = (opt.main if name == "loopir-opt" else tool.main)(arguments)
    refused = "gemm_bias" in command
    assert code == (1 if refused else 0), capsys.readouterr().err
    if refused:
        assert "SK08" in capsys.readouterr().err


def test_readme_has_commands_of_both_tools():
    assert {c.split()[0] for c in COMMANDS} == {"loopir-opt", "loopir-triton"}
    assert len(COMMANDS) >= 5
