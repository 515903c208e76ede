"""What docs/deployment.md says of bundles and of Python is so: it runs, its tables are full."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.bundle.loading.programs import LaunchableProgram
from tests.support.documents import fenced, page
from tests.support.fake_cuda import FakeCuda

PAGE = page("deployment.md").split("\n## From C\n")[0]
MAKE, OPEN, LAUNCH = fenced(PAGE, "python")


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Names of the page's Python, in a folder of its own; `loader` is imported anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "loader", raising=False)
    yield {}
    sys.modules.pop("loader", None)


def test_the_python_runs(
    scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    exec(MAKE, scope)
    assert capsys.readouterr().out.startswith("['linear', 'gemv'] ")
    exec(OPEN, scope)
    assert capsys.readouterr().out.splitlines() == [
        "('A', 'B', 'C') ('units', 'blocks_per_sm')",
        f"{scope['linear'].workspace_bytes(M=64, N=4096, K=4096, sms=132)} bytes",
    ]
    launched(scope, monkeypatch)


def launched(scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block, with tensors that torch takes for those of a GPU, and a driver that notes."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda t: True))
    monkeypatch.setattr(torch.Tensor, "get_device", lambda t: 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda d: SimpleNamespace(cuda_stream=3))
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)
    made = lambda *given: torch.empty(2**24, dtype=torch.uint8)  # noqa: E731
    monkeypatch.setattr(sys.modules["loader"], "_torch_memory", made)
    scope["linear"]._binaries._library = fake = FakeCuda(Path("products").resolve(), sms=132)
    x, weight = torch.empty(64, 512).bfloat16(), torch.empty(256, 512).bfloat16()
    scope |= {"x": x, "weight": weight, "y": torch.empty(64, 256)}
    exec(LAUNCH, scope | {"side": SimpleNamespace(cuda_stream=9)})
    assert [(launch.stream, launch.blocks) for launch in fake.launches] == [(3, 32), (9, 32)]


def test_every_kind_of_file_and_variant_is_in_the_tables(three: Path):
    manifest = Folder(three).manifest
    for file in manifest.files:
        name = file.path.rpartition("/")[2]
        assert name in PAGE or f".{name.rpartition('.')[2]}`" in PAGE or name.endswith(".py")
    for name in ("descriptors", "aligned", "plain"):
        assert f"| `{name}` |" in PAGE


def test_every_call_is_in_the_table():
    calls = [n for n in vars(LaunchableProgram) if not n.startswith("_") and n != "memory"]
    assert {f"| `program.{name}(" in PAGE for name in calls} == {True}
    assert len(calls) == 4
