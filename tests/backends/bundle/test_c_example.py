"""examples/deploy: its commands make a program, which launches and sees a wrong result."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.c_launcher import mock_driver, needs_gcc
from tests.support.documents import fenced

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "examples" / "deploy"
pytestmark = [
    needs_gcc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, with what the README's first commands make."""
    place = tmp_path_factory.mktemp("deploy") / "copy"
    shutil.copytree(DEPLOY, place, ignore=shutil.ignore_patterns("bundle", "example"))
    mock_driver(place / "driver")
    commands = first_commands()
    assert [c.split() for c in commands] == [["make", "bundle"], ["make", "example"]]
    for command in commands:
        words = [*command.split(), f"ROOT={ROOT}", f"PYTHON={sys.executable}"]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return place


def first_commands() -> list[str]:
    block = fenced((DEPLOY / "README.md").read_text(), "sh")[0]
    return [line.split("#")[0].strip() for line in block.splitlines()]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = {"LD_LIBRARY_PATH": str(folder / "driver"), "MOCK_LOG": str(folder / "calls")}
    return subprocess.run(
        ["./example", *words],
        cwd=folder,
        env={**os.environ, **places, "MOCK_SMS": "5"},
        capture_output=True,
        text=True,
    )


def test_it_launches_on_a_workspace_whose_counters_are_zeroed_once(folder: Path):
    (folder / "calls").unlink(missing_ok=True)
    done = run(folder, "bundle", "200", "136", "64")
    assert "200 x 136 x 64, workspace of" in done.stdout
    calls = [json.loads(line) for line in (folder / "calls").read_text().splitlines()]
    launches = [c for c in calls if c["call"] == "launch"]
    assert {(c["symbol"], c["grid"][0]) for c in launches} == {("gemm_descriptors", 4)}
    assert len(launches) == 201
    assert not any(c["call"] == "memset" for c in calls)


def test_control_a_device_that_computes_nothing_is_noticed(folder: Path):
    done = run(folder, "bundle", "20", "30", "40")
    assert (done.returncode, done.stdout.splitlines()[-1].split(":")[0]) == (1, "wrong")
    empty = run(folder, "bundle", "0", "30", "40")
    assert (empty.returncode, empty.stdout.splitlines()[-1]) == (0, "all 0 elements are right")


def test_what_is_wrong_is_said(folder: Path):
    done = run(folder, "nowhere", "20", "30", "40")
    assert done.returncode == 1
    assert done.stderr.startswith("open: a file of the bundle cannot be read: programs/gemm/")
    assert run(folder).returncode == 2


def test_the_readme_names_files_and_functions_that_are(folder: Path):
    text = (DEPLOY / "README.md").read_text()
    header = (folder / "bundle" / "loopir_launch.h").read_text()
    for line in fenced(text, "c")[0].splitlines():
        if line.startswith("loopir_"):
            assert f"{line.split('(')[0]}(" in header
    for name in ("gemm.lir", "example.c", "device.h"):
        assert f"`{name}`" in text
        assert (DEPLOY / name).exists()
