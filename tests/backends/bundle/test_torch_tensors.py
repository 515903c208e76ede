"""Launches on torch tensors: those of the host, which a torch that claims to have a GPU says are on
one."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backends.triton_codegen.bundle import Bundle
from backends.triton_codegen.bundle.loading import memory
from loopir.errors import LaunchError
from tests.support.fake_cuda import FakeCuda
from tests.support.interpreted_launches import interpreting_cuda


class FakeTorch:
    """The number of torch's current stream, and what its allocator was asked for on which."""

    stream = 0

    def __init__(self) -> None:
        self.allocated: list[tuple[int, int]] = []
        self.threads: list[bool] = []  # whether it was the main one

    def allocate(self, torch: Any, device: int, stream: int, size: int) -> torch.Tensor:
        self.allocated.append((stream, size))
        self.threads.append(threading.current_thread() is threading.main_thread())
        return torch.full((size + 256,), 0x5A, dtype=torch.uint8)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda t: t.device.type == "cpu"))
    monkeypatch.setattr(torch.Tensor, "get_device", lambda t: 0)
    current = lambda device=0: SimpleNamespace(cuda_stream=fake.stream)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "current_stream", current)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)
    monkeypatch.setattr(memory, "_torch_memory", fake.allocate)
    return fake


def tensors(m: int = 33, n: int = 40, k: int = 200) -> tuple[torch.Tensor, ...]:
    a, b = (torch.randint(-7, 8, (rows, k)).bfloat16() for rows in (m, n))
    return a, b.t(), torch.full((m, n), float("nan"))


def test_results_are_right(opened: Path, on_gpu: FakeTorch):
    torch.manual_seed(0)
    for name in ("workspace", "fixup", "atomic"):
        a, b, c = tensors()
        fake = interpreting_cuda(opened)
        Bundle.open(opened, fake).programs[name].launch(a, b, c)
        assert fake.errors == []
        assert torch.equal(c, a.float() @ b.float())


def test_a_launch_goes_to_the_current_stream_in_memory_of_torchs(opened: Path, on_gpu: FakeTorch):
    fake = FakeCuda(opened)
    program = Bundle.open(opened, fake).programs["workspace"]
    for on_gpu.stream in (3, 4, 3):
        program.launch(*tensors())
    program.launch(*tensors(), stream=SimpleNamespace(cuda_stream=4))
    size = program.workspace_bytes(M=33, N=40, K=200)
    assert [launch.stream for launch in fake.launches] == [3, 4, 3, 4]
    assert on_gpu.allocated == [(3, size), (4, size)]
    assert fake.memory == {}


def test_a_captured_launch_has_memory_of_its_own_that_the_graph_zeroes(
    opened: Path, on_gpu: FakeTorch
):
    fake = FakeCuda(opened, capturing={7})
    program = Bundle.open(opened, fake).programs["workspace"]
    for on_gpu.stream in (7, 7, 8, 8):
        program.launch(*tensors())
    assert [stream for stream, _ in on_gpu.allocated] == [7, 7, 8]
    assert [stream for *_, stream in fake.memsets] == [7, 7, 8]
    assert on_gpu.threads == [True, True, False]  # kept memory is in no pool of this thread


def test_a_workspace_of_the_callers_is_torchs_too(opened: Path, on_gpu: FakeTorch):
    fake = FakeCuda(opened)
    program = Bundle.open(opened, fake).programs["workspace"]
    mine = program.new_workspace(M=33, N=40, K=200)
    program.launch(*tensors(), workspace=mine)
    size = program.workspace_bytes(M=33, N=40, K=200)
    room = torch.zeros(size + 16, dtype=torch.uint8)
    program.launch(*tensors(), workspace=room[-room.data_ptr() % 16 :][:size])
    assert on_gpu.allocated == [(0, size)]
    assert len(fake.launches) == 2


REFUSED: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "dtype": ("A: expected dtype bf16, got f16", torch.Tensor.half),
    "another dtype": ("A: expected dtype bf16, got torch.complex64", torch.Tensor.cfloat),
    "sparse": ("A: expected a dense tensor, got torch.sparse_coo", torch.Tensor.to_sparse),
    "negated": ("A: expected a tensor of its own values", torch._neg_view),
    "meta": ("A: expected a tensor on a GPU, got one on meta", lambda a: a.to("meta")),
    "layout": ("A: expected stride 1 in dimension 1", lambda a: a.t().contiguous().t()),
}


@pytest.mark.parametrize("what", REFUSED)
def test_tensors_that_do_not_fit_are_refused(opened: Path, on_gpu: FakeTorch, what: str):
    message, change = REFUSED[what]
    fake = FakeCuda(opened)
    program = Bundle.open(opened, fake).programs["workspace"]
    a, b, c = tensors()
    for _ in range(2):  # the second is looked up, where the first left a plan
        with pytest.raises(LaunchError, match=message):
            program.launch(change(a), b, c)
        program.launch(a, b, c)
    assert len(fake.launches) == 2


def test_a_tensor_of_the_host_is_refused(opened: Path):
    program = Bundle.open(opened, FakeCuda(opened)).programs["workspace"]
    with pytest.raises(LaunchError, match="A: expected a tensor on a GPU, got one on cpu"):
        program.launch(*tensors())
