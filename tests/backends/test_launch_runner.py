"""How a kept launch reaches the launcher in C: what it passes, and when Triton's own runner is
asked instead. The kernel and the driver are stand-ins: no GPU is needed."""

from types import SimpleNamespace

import pytest
import torch
import triton

from backends.triton_codegen import compile
from backends.triton_codegen.compile import CompiledKernel
from loopir.parser import parse
from tests.support.texts import GEMM


class Kernel:
    """What Triton compiles, as far as a launch sees it; `launches` is what C got, `slow` what
    Triton's own runner got."""

    def __init__(self, scratch: int = 0):
        self.launches: list[tuple] = []
        self.slow: list[tuple] = []
        self.function, self.packed_metadata = 1234, (4, 1, 0)
        self.run = SimpleNamespace(
            launch=lambda *args: self.launches.append(args),
            global_scratch_size=scratch,
            profile_scratch_size=0,
            launch_cooperative_grid=False,
            launch_pdl=True,
        )

    def __getitem__(self, grid):
        return lambda *args: self.slow.append(args)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """A call of 7 blocks with two scalars, as of a kernel on device 3 whose stream is 77."""
    kernel = compile(parse(GEMM), "interpret")
    assert isinstance(kernel, CompiledKernel)
    driver = SimpleNamespace(
        get_current_stream=lambda d: 70 + 7 * (d == 3), get_current_device=lambda: 3
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", driver, raising=False)
    monkeypatch.setattr(type(triton.runtime.driver), "active", driver, raising=False)
    return kernel.namespace._Call(None, 7, (11, 12), {})


A, B = torch.ones(4), torch.ones(8)


def launched(call, kernel: Kernel) -> Kernel:
    call.run = call._runner(kernel)
    call(A, B)
    return kernel


def test_addresses_and_scalars_go_to_c(call):
    (args,) = launched(call, Kernel()).launches
    assert args[:5] == (7, 1, 1, 77, 1234)
    assert args[5:9] == (False, True, None, None)
    assert args[9:13] == ((4, 1, 0), None, None, None)
    assert args[13:] == (A.data_ptr(), B.data_ptr(), 11, 12)


def test_a_kernel_that_wants_scratch_memory_goes_through_triton(call):
    kernel = launched(call, Kernel(scratch=128))
    assert kernel.launches == []
    assert kernel.slow == [(A, B, 11, 12)]


@pytest.mark.parametrize("hook", ["launch_enter_hook", "launch_exit_hook"])
def test_a_profiler_sees_launches(call, hook: str):
    kernel, chain = Kernel(), getattr(triton.knobs.runtime, hook)

    def watches(metadata):
        raise AssertionError("the stand-in does not call it")

    chain.add(watches)
    try:
        launched(call, kernel)
    finally:
        chain.remove(watches)
    assert (kernel.launches, kernel.slow) == ([], [(A, B, 11, 12)])
    call(A, B)
    assert len(kernel.launches) == 1


def test_a_hook_without_a_chain_counts_too(call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(triton.knobs.runtime, "launch_enter_hook", print)
    assert launched(call, Kernel()).launches == []
    monkeypatch.setattr(triton.knobs.runtime, "launch_enter_hook", None)
    assert len(launched(call, Kernel()).launches) == 1
