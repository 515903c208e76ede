"""Packages of AOTInductor: they call the operators by name, and hold none of our kernels."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from backends.torch_ops import replace
from tests.support.numerics import normal

pytestmark = [
    pytest.mark.long,  # compiles C++
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # torch's, of itself
    pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning"),
]
ROOT = Path(__file__).parents[3]
LOADING = "import sys, torch; torch._inductor.aoti_load_package(sys.argv[1])"


def test_a_package_runs_where_the_operators_are_and_is_refused_elsewhere(tmp_path: Path):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    x = normal((5, 8), torch.float32, 1)
    module, report = replace(model, (x,))
    assert len(report.taken) == 2
    program = torch.export.export(module, (x,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "mlp.pt2"))
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x), model(x))
    assert loaded(f"import backends.torch_ops; {LOADING}", path).returncode == 0
    bare = loaded(LOADING, path)
    assert bare.returncode == 1
    assert "Could not find schema for loopir::linear" in bare.stderr


def loaded(code: str, path: str) -> subprocess.CompletedProcess[str]:
    """By a process of its own."""
    command = [sys.executable, "-c", code, path]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
