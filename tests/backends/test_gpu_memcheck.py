"""compute-sanitizer's memcheck finds nothing in launches of every merge, and finds a seeded
fault."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = "compute-sanitizer"
UNABLE = ("Device not supported", "Unable to initialize", "not supported on this device")
FOUND = 9

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def places() -> Iterator[Path]:
    """Where the tool may be: the PATH, CUDA's folders, wheels."""
    on_path = shutil.which(TOOL)
    if on_path:
        yield Path(on_path)
    yield from sorted(Path("/usr/local").glob(f"cuda*/bin/{TOOL}"))
    for folder in map(Path, sys.path):
        yield from sorted((folder / "nvidia").glob(f"**/{TOOL}"))


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`tests.support.checked_launches` under the tool; skips where that cannot run."""
    tool = next(places(), None)
    if tool is None:
        pytest.skip(f"{TOOL} is not on this machine")
    options = f"--tool memcheck --target-processes application-only --error-exitcode {FOUND}"
    launches = [sys.executable, "-m", "tests.support.checked_launches", *arguments]
    # torch's cache of blocks would hide an access behind the end of one
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    command = [str(tool), *options.split(), *launches]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    said = f"{done.stdout}\n{done.stderr}"
    unable = [line for line in said.splitlines() if any(text in line for text in UNABLE)]
    if unable:
        pytest.skip(f"{TOOL}: {unable[0]}")
    return done


def test_no_access_of_any_merge_is_out_of_bounds():
    done = checked()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout


def test_control_a_store_behind_the_workspace_is_found():
    done = checked("fault")
    assert done.returncode == FOUND, done.stdout[-4000:] + done.stderr[-2000:]
    assert "Invalid __global__ write" in done.stdout
