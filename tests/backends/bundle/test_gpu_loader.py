"""A bundle on a GPU, in a process that has torch and the bundle's own loader."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "loader_on_gpu.py"


@pytest.mark.gpu
def test_its_programs_are_right_on_any_sizes_streams_and_in_graphs(opened: Path):
    command = [sys.executable, "-I", str(SCRIPT), str(opened)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert done.stdout == "right, without this toolkit\n", done.stdout + done.stderr[-3000:]
