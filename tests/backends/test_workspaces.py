"""Programs whose blocks meet in workspaces: the same bits as the reference interpreter, whatever
the memory held before and whoever owns it."""

import gc
import threading
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile, emit
from backends.triton_codegen.interpret import interpreting
from backends.triton_codegen.load import load
from loopir.errors import CodegenError, LoopIRError
from loopir.interp import random_inputs, run
from loopir.interp.arguments import parameters
from loopir.nodes import Program
from loopir.parser import parse
from loopir.scope import launch_symbols, resized
from loopir.types import Direction
from loopir.workspaces import ALIGNMENT
from tests.support.launches import Arrays, outputs
from tests.support.texts import edited
from tests.support.workspace_texts import (
    ATOMIC,
    FIXUP,
    IN_PLACE,
    PERMUTED,
    PICKED,
    SIZES,
    SPLIT_K,
    STREAM_K,
    TEXTS,
)
from tests.support.workspaces import guarded_workspace

GROWING = ({"M": 1, "N": 1, "K": 1}, {"M": 20, "N": 30, "K": 40}, {"M": 200, "N": 300, "K": 20})


@cache
def compiled(text: str) -> CompiledKernel:
    kernel = compile(parse(text), "interpret")
    assert isinstance(kernel, CompiledKernel)
    return kernel


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the memory of another."""
    compiled.cache_clear()
    load.cache_clear()


def open_sizes(program: Program, sizes: dict[str, int] = SIZES) -> dict[str, int]:
    return {n: v for n, v in sizes.items() if n in launch_symbols(program.kernels[0])}


def expected(program: Program, arrays: Arrays, sizes: dict[str, int]) -> Arrays:
    copies = {name: array.copy(order="K") for name, array in arrays.items()}
    run(program, copies, sizes)
    outs = [p for p in parameters(program).values() if p.direction is not Direction.IN]
    return {p.name: copies[p.name] for p in outs}


def check(
    kernel: CompiledKernel, seed: int, sizes: dict[str, int] | None = None, **options: object
) -> None:
    """AssertionError: a launch does not give the bits of the reference interpreter."""
    program = kernel.module.program
    sizes = open_sizes(program) if sizes is None else sizes
    arrays = random_inputs(program, seed, True, sizes)
    found = outputs(kernel, arrays, sizes, **options)
    units = {"UNITS": options["units"]} if "units" in options else {}
    for name, array in expected(program, arrays, {**sizes, **units}).items():
        np.testing.assert_array_equal(found[name], array, name)


# --- the same bits


@pytest.mark.sampled
@pytest.mark.parametrize("name", TEXTS)
def test_launches_one_after_the_other_give_the_bits_of_the_reference(name: str):
    for seed in range(3):
        check(compiled(TEXTS[name]), seed)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TEXTS)
def test_what_a_workspace_held_is_never_read_and_nothing_around_it_written(name: str):
    kernel = compiled(TEXTS[name])
    sizes = open_sizes(kernel.module.program)
    memory = guarded_workspace(kernel, **sizes)
    for seed in range(3):
        check(kernel, seed, workspace=memory)
        memory.check()
        memory.poison()


@pytest.mark.parametrize("name", ["stream-k", "split-k", "atomic", "i32"])
def test_control_counters_that_are_not_zero_are_seen(name: str):
    kernel = compiled(TEXTS[name])
    memory = guarded_workspace(kernel)
    check(kernel, 1, workspace=memory)
    memory.poison()
    memory.dirty()
    with pytest.raises(AssertionError):
        check(kernel, 2, workspace=memory)


def test_control_sums_that_are_not_zeroed_are_seen():
    kernel = compiled(
        ATOMIC.replace("    requires zeroed(sums) {", "    {").replace("TN\n    {", "TN {")
    )
    memory = guarded_workspace(kernel)
    arrays = random_inputs(kernel.module.program, 1)
    outputs(kernel, arrays, {}, workspace=memory)
    memory.poison()
    assert np.isnan(outputs(kernel, arrays, {}, workspace=memory)["C"]).any()


@pytest.mark.parametrize("units", [1, 2, 3, 7, 100])
def test_units_of_the_caller_give_the_same_bits(units: int):
    check(compiled(PICKED), units, units=units)


@pytest.mark.sampled
@pytest.mark.parametrize("units", range(1, 13))
def test_every_unit_count_of_an_unaligned_walk_gives_the_same_bits(units: int):
    check(compiled(STREAM_K.replace("UNITS = 5", f"UNITS = {units}")), units)


def test_sizes_that_grow_and_shrink_share_one_workspace():
    kernel = compiled(PICKED)
    held = []
    for seed, sizes in enumerate((*GROWING, *reversed(GROWING))):
        check(kernel, seed, sizes)
        (memory,) = kernel.namespace._workspaces.values()
        held.append((memory.counter_bytes, memory.tile_bytes))
        memory.memory[memory.counter_bytes :].fill_(0xFF)
        assert not memory.memory[: memory.counter_bytes].any()
    assert held == [(256, 4096), (256, 16384), *[(768, 16384)] * 4]


@pytest.mark.parametrize("shape", [{"M": 0, "N": 5, "K": 5}, {"M": 5, "N": 0, "K": 5}])
def test_nothing_to_do_needs_no_workspace(shape: dict[str, int]):
    check(compiled(PICKED), 1, shape)


def test_no_panel_still_runs_the_epilogue():
    check(compiled(PICKED), 1, {"M": 20, "N": 40, "K": 0})


def test_a_size_that_divides_by_the_units_is_not_computed_where_there_are_none():
    text = edited(
        PICKED,
        ("SLOTS = 2 * UNITS", "SHARE = ceildiv(TOTAL, UNITS), SLOTS = 2 * UNITS + SHARE // TOTAL"),
    )
    kernel = compiled(text)
    for m in (20, 0, 40):  # the reference has no such mercy
        a, b = torch.ones(m, 30, dtype=torch.bfloat16), torch.ones(30, 50, dtype=torch.bfloat16)
        c = torch.zeros(m, 50, dtype=torch.bfloat16)
        kernel(a, b, torch.ones(50), c)
        assert c.eq(31).all()


# --- the memory that the launcher keeps


def test_nothing_is_allocated_before_a_launch_and_one_stream_has_one_workspace():
    kernel = compiled(STREAM_K)
    assert kernel.namespace._workspaces == {}
    for seed in range(2):
        check(kernel, seed)
    assert list(kernel.namespace._workspaces) == [(-1, 0)]


def test_two_streams_have_two_workspaces(monkeypatch: pytest.MonkeyPatch):
    kernel = compiled(STREAM_K)
    for stream in (11, 22, 11):
        monkeypatch.setattr(kernel.namespace, "_stream", lambda device, s=stream: s)
        check(kernel, stream)
    first, second = kernel.namespace._workspaces.values()
    assert first.memory.data_ptr() != second.memory.data_ptr()


def test_a_launch_that_a_graph_captures_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch):
    kernel = compiled(STREAM_K)
    namespace, made = kernel.namespace, []
    plain = namespace._made
    monkeypatch.setattr(namespace, "_made", lambda *a: made.append(plain(*a)) or made[-1])
    monkeypatch.setattr(namespace, "_is_capturing", lambda device: True)
    for seed in range(2):
        check(kernel, seed)
    assert len(made) == 2
    assert namespace._workspaces == {}
    monkeypatch.setattr(namespace, "_is_capturing", lambda device: False)
    for seed in range(2):
        check(kernel, seed)
    assert len(made) == 3
    assert [*namespace._workspaces.values()] == made[2:]


@pytest.mark.parametrize("device", [-1, 0])
def test_capture_and_stream_are_asked_of_the_device(monkeypatch: pytest.MonkeyPatch, device: int):
    """What the launcher asks torch and Triton, where there is a GPU."""
    namespace, asked = compiled(STREAM_K).namespace, []

    class Driver:
        def get_current_stream(self, device: int) -> int:
            asked.append(device)
            return 77

    monkeypatch.setattr(namespace.torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(namespace.triton.runtime.driver, "_active", Driver())
    assert namespace._is_capturing(device) is (device >= 0)
    assert namespace._stream(device) == (77 if device >= 0 else 0)
    assert asked == ([device] if device >= 0 else [])


def test_after_a_launch_that_raised_the_workspace_is_another(monkeypatch: pytest.MonkeyPatch):
    kernel = compiled(STREAM_K)
    check(kernel, 1)
    (before,) = kernel.namespace._workspaces.values()
    before.memory.fill_(1)  # as a launch that was cut short may leave it

    def cut_short(self, *buffers: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernel.namespace._Call, "__call__", cut_short)
        with pytest.raises(KeyboardInterrupt):
            check(kernel, 1)
    assert kernel.namespace._workspaces == {}
    check(kernel, 2)


def test_an_argument_that_does_not_fit_drops_nothing():
    kernel = compiled(STREAM_K)
    check(kernel, 1)
    kept = dict(kernel.namespace._workspaces)
    with pytest.raises(ValueError, match="A: expected"):
        kernel(*[torch.ones(3)] * 4)
    assert kernel.namespace._workspaces == kept


def test_a_workspace_made_in_inference_mode_serves_outside_of_it():
    kernel = compiled(ATOMIC)
    with torch.inference_mode():
        check(kernel, 1)
    check(kernel, 2)


def test_views_are_made_once_a_layout():
    kernel = compiled(STREAM_K)
    check(kernel, 1)
    (memory,) = kernel.namespace._workspaces.values()
    views = dict(memory._views)
    check(kernel, 2)
    assert len(views) == 1
    assert all(memory._views[parts] is found for parts, found in views.items())


def test_a_workspace_that_grew_is_freed():
    kernel = compiled(PICKED)
    check(kernel, 1, GROWING[0])
    storages = [weak(m.memory) for m in kernel.namespace._workspaces.values()]
    check(kernel, 1, GROWING[1])
    gc.collect()
    assert [s() for s in storages] == [None]


def weak(tensor: torch.Tensor):
    import weakref

    return weakref.ref(tensor)


def test_release_lets_go_of_the_memory_and_a_later_launch_allocates_again():
    kernel, other = compiled(STREAM_K), compiled(ATOMIC)
    check(kernel, 1)
    check(other, 1)
    (kept,) = [weak(m.memory) for m in kernel.namespace._workspaces.values()]
    kernel.release_workspaces()
    gc.collect()
    assert kept() is None
    assert len(other.namespace._workspaces) == 1
    check(kernel, 2)
    assert len(kernel.namespace._workspaces) == 1


# --- host threads


class Steps:
    """What a file does to its workspace, by thread: each zeroing and each kernel. After the first
    step of the first thread another thread starts, and has a while to come in between."""

    def __init__(self, namespace: Any, second: threading.Thread):
        self.namespace, self.second, self.seen = namespace, second, []
        self.zero, self.call = namespace._zero, namespace._Call.__call__

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.namespace, "_zero", lambda tensor: self._step(self.zero, tensor))
        run = self.call
        patch.setattr(self.namespace._Call, "__call__", lambda c, *b: self._step(run, c, *b))

    def _step(self, function: Any, *args: Any) -> None:
        function(*args)
        self.seen.append(threading.current_thread() is self.second)
        if len(self.seen) == 1:
            self.second.start()
            self.second.join(0.2)


def interleaved(kernel: CompiledKernel, patch: pytest.MonkeyPatch, **options: Any) -> Steps:
    """Two threads launch; the second one starts within the launch of the first. AssertionError: an
    output is wrong."""
    ones = torch.ones(40, 96).half(), torch.ones(96, 50).half(), torch.zeros(50)
    twos = 2 * ones[0], *ones[1:]
    first, last = torch.zeros(40, 50).half(), torch.zeros(40, 50).half()
    launch = kernel.namespace.launch
    second = threading.Thread(target=lambda: launch(*twos, last, **options))
    steps = Steps(kernel.namespace, second)
    steps.install(patch)
    with interpreting(vars(kernel.namespace)):
        launch(*ones, first, **options)
        second.join(60)
    assert not second.is_alive()
    assert (first.unique().tolist(), last.unique().tolist()) == ([96], [192])
    return steps


TWO_STEPS = {"fixup": FIXUP, "atomic": ATOMIC}


@pytest.mark.parametrize("name", TWO_STEPS)
@pytest.mark.parametrize("is_given", [False, True])
def test_no_other_thread_comes_between_the_steps_of_a_launch(
    name: str, is_given: bool, monkeypatch: pytest.MonkeyPatch
):
    kernel = compiled(TWO_STEPS[name])
    options = {"workspace": kernel.new_workspace(-1)} if is_given else {}
    steps = interleaved(kernel, monkeypatch, **options)
    assert steps.seen == [False, False, True, True]


@pytest.mark.parametrize(("name", "wrong"), [("fixup", 192), ("atomic", 288)])
def test_control_without_the_lock_another_thread_comes_between(
    name: str, wrong: int, monkeypatch: pytest.MonkeyPatch
):
    module = emit(parse(TWO_STEPS[name]))
    source = edited(module.source, ("with memory.lock:", "if memory.lock:"))
    kernel = compile(replace(module, source=source), "interpret")
    patient = threading.Thread.join
    monkeypatch.setattr(threading.Thread, "join", lambda thread, _: patient(thread, 60))
    with pytest.raises(AssertionError, match=f"{wrong}"):
        interleaved(kernel, monkeypatch)


@pytest.mark.parametrize("is_given", [False, True])
def test_a_thread_that_waited_for_a_launch_that_raised_finds_zero_counters(
    is_given: bool, monkeypatch: pytest.MonkeyPatch
):
    kernel = compiled(SPLIT_K)
    options = {"workspace": kernel.new_workspace(-1)} if is_given else {}
    check(kernel, 1, **options)
    memory = options.get("workspace") or next(iter(kernel.namespace._workspaces.values()))
    ones = torch.ones(40, 96).half(), torch.ones(96, 50).half(), torch.zeros(50)
    found = torch.zeros(40, 50).half()
    second = threading.Thread(target=lambda: kernel.namespace.launch(*ones, found, **options))
    run = kernel.namespace._Call.__call__

    def cut_short(call: Any, *buffers: Any) -> None:
        if threading.current_thread() is second:
            return run(call, *buffers)
        memory.memory[: memory.counter_bytes] = 1
        second.start()
        second.join(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel.namespace._Call, "__call__", cut_short)
    with interpreting(vars(kernel.namespace)):
        with pytest.raises(KeyboardInterrupt):
            kernel.namespace.launch(*ones, torch.zeros(40, 50).half(), **options)
        second.join(60)
    assert found.unique().tolist() == [96]


# --- the caller's memory


@pytest.mark.parametrize("device", [-1, "cpu", torch.device("cpu")])
def test_a_device_is_a_number_a_torch_device_or_its_name(device: object):
    kernel = compiled(STREAM_K)
    check(kernel, 1, workspace=kernel.new_workspace(device))


def test_devices_of_a_gpu_have_its_number(monkeypatch: pytest.MonkeyPatch):
    namespace = compiled(STREAM_K).namespace
    assert namespace._device_index(None) == (0 if torch.cuda.is_available() else -1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    given = (None, "cuda", "cuda:1", torch.device("cuda", 2), 0, "cpu")
    assert [namespace._device_index(d) for d in given] == [3, 3, 1, 2, 0, -1]


@pytest.mark.parametrize("device", [True, -2, 0.0, "gpu", "meta", torch.device("meta"), [0]])
def test_what_is_no_device_is_refused(device: object):
    with pytest.raises(ValueError, match="device: expected a number from -1"):
        compiled(STREAM_K).new_workspace(device)


@pytest.mark.parametrize("name", ["stream-k", "fixup", "atomic", "two", "last-arriver"])
def test_a_tensor_of_the_bytes_that_are_asked_for_serves(name: str):
    kernel = compiled(TEXTS[name])
    memory = torch.zeros(kernel.workspace_bytes(), dtype=torch.uint8)
    for seed in range(2):
        check(kernel, seed, workspace=memory)
    assert kernel.namespace._workspaces == {}


def test_a_workspace_serves_launches_of_smaller_sizes_and_other_programs():
    kernel, other = compiled(PICKED), compiled(STREAM_K)
    memory = kernel.new_workspace(-1, **GROWING[2], blocks_per_sm=2)
    for seed, sizes in enumerate((*GROWING, *GROWING)):
        check(kernel, seed, sizes, workspace=memory)
        check(other, seed, workspace=memory)
    assert kernel.namespace._workspaces == other.namespace._workspaces == {}


def test_reset_makes_a_workspace_right_again():
    kernel = compiled(STREAM_K)
    memory = kernel.new_workspace(-1)
    memory.memory.fill_(1)
    memory.reset()
    check(kernel, 1, workspace=memory)


SMALL = (16, torch.uint8)
WRONG = {
    "not a tensor": (lambda n: [0] * n, "expected a Workspace or a torch.Tensor, got list"),
    "too small": (
        lambda n: torch.zeros(n - 256, dtype=torch.uint8),
        r"expected \d+ bytes, got \d+",
    ),
    "dtype": (lambda n: torch.zeros(n), "memory of dtype torch.uint8, got torch.float32"),
    "two dimensions": (lambda n: torch.zeros(2, n, dtype=torch.uint8), "one dense dimension"),
    "strides": (lambda n: torch.zeros(2 * n, dtype=torch.uint8)[::2], "one dense dimension"),
    "alignment": (lambda n: torch.zeros(n + 8, dtype=torch.uint8)[8:], "a multiple of 16"),
    "device": (
        lambda n: torch.zeros(n, dtype=torch.uint8, device="meta"),
        "expected device cpu, as A, got meta",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_workspace_that_does_not_fit_is_refused(case: str):
    make, text = WRONG[case]
    kernel = compiled(STREAM_K)
    with pytest.raises(ValueError, match=f"workspace: .*{text}"):
        check(kernel, 1, workspace=make(kernel.workspace_bytes()))


def test_a_workspace_for_smaller_sizes_is_refused_with_the_bytes():
    kernel = compiled(PICKED)
    memory = kernel.new_workspace(-1, **GROWING[0])
    text = "workspace: expected 256 bytes of counters and 16384 of tiles, got 256 and 4096"
    check(kernel, 1, GROWING[0], workspace=memory)
    with pytest.raises(ValueError, match=text):
        check(kernel, 1, GROWING[1], workspace=memory)


def test_a_workspace_in_the_memory_of_a_tensor_is_refused():
    kernel = compiled(STREAM_K)
    memory = torch.zeros(kernel.workspace_bytes() + 4 * 40 * 90, dtype=torch.uint8)
    a = memory[-2 * 40 * 90 :].view(torch.bfloat16).view(40, 90)
    b, bias = torch.zeros(90, 50, dtype=torch.bfloat16), torch.zeros(50)
    c = torch.zeros(40, 50, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="workspace: expected memory of its own, got bytes shared"):
        kernel(a, b, bias, c, workspace=memory)
    kernel(a, b, bias, c, workspace=memory[: kernel.workspace_bytes()])


@pytest.mark.parametrize("counter_bytes", [-256, 100, 1.0, 768])
def test_counters_have_whole_parts(counter_bytes: object):
    with pytest.raises(ValueError, match="counter_bytes: expected"):
        compiled(STREAM_K).namespace.Workspace(torch.zeros(512, dtype=torch.uint8), counter_bytes)


# --- its size


@pytest.mark.sampled
@pytest.mark.parametrize("sizes", GROWING)
@pytest.mark.parametrize("units", [None, 3, 1000])
def test_bytes_are_known_before_a_launch_and_are_what_it_keeps(sizes, units: int | None):
    kernel = compiled(PICKED)
    options = {} if units is None else {"units": units}
    asked = kernel.workspace_bytes(**sizes, **options)
    check(kernel, 1, sizes, **options)
    (memory,) = kernel.namespace._workspaces.values()
    assert memory.memory.numel() == asked
    picked = min(units or 4, 4)  # the interpreter counts as four multiprocessors
    assert kernel.module.workspace_bytes({**sizes, "UNITS": picked}) == asked
    assert kernel.module.workspace_bytes({**sizes, "UNITS": 10**6}) >= asked


def test_bytes_follow_from_the_multiprocessors_without_a_device():
    kernel = compiled(PICKED)
    sizes = {"M": 1000, "N": 1000, "K": 1000}
    small, large = (kernel.workspace_bytes(**sizes, sms=n) for n in (10, 132))
    assert large - small == 122 * 2 * 16 * 32 * 4
    assert kernel.workspace_bytes(**sizes, sms=132, units=10) == small
    assert kernel.workspace_bytes(**sizes, sms=5, blocks_per_sm=2) == small
    with pytest.raises(ValueError, match="M: expected an int of at least 0"):
        kernel.workspace_bytes(M=-1, N=1, K=1)


@pytest.mark.parametrize("name", TEXTS)
def test_module_and_file_agree_on_the_bytes(name: str):
    kernel = compiled(TEXTS[name])
    sizes = open_sizes(kernel.module.program)
    units = {"UNITS": 4} if name == "picked" else {}
    found = kernel.workspace_bytes(**sizes)
    assert found == kernel.module.workspace_bytes({**sizes, **units}) > 0
    assert name == "picked" or kernel.module.workspace_text == f"{found:,} bytes"


@pytest.mark.parametrize("name", TEXTS)
def test_alignment_of_the_file_is_that_of_the_sizes(name: str):
    assert compiled(TEXTS[name]).namespace._ALIGNMENT == ALIGNMENT


GIVEN = {"M": 40, "N": 50, "K": 90, "UNITS": 4}
NO_SIZES = {
    "no launch symbol": ({**GIVEN, "BM": 16}, r"BM: expected a launch symbol \(K, M, N, UNITS\)"),
    "unknown": ({**GIVEN, "units": 3}, "units: expected a launch symbol"),
    "negative": ({**GIVEN, "M": -1}, "M: expected an int of at least 0, got -1"),
    "bool": ({**GIVEN, "M": True}, "M: expected an int of at least 0, got True"),
    "no unit": ({**GIVEN, "UNITS": 0}, "UNITS: expected an int of at least 1, got 0"),
}


@pytest.mark.parametrize("case", NO_SIZES)
def test_module_refuses_what_are_no_sizes(case: str):
    sizes, text = NO_SIZES[case]
    with pytest.raises(ValueError, match=text):
        compiled(PICKED).module.workspace_bytes(sizes)


def test_module_refuses_a_size_of_a_program_that_leaves_none_open():
    with pytest.raises(ValueError, match=r"M: expected a launch symbol \(no name at all\)"):
        compiled(STREAM_K).module.workspace_bytes({"M": 40})


def test_module_names_a_size_that_lacks():
    text = "K, UNITS: no value is given; expected all of K, M, N, UNITS"
    with pytest.raises(ValueError, match=text):
        compiled(PICKED).module.workspace_bytes({"M": 40, "N": 50})


DIVIDES = {
    "nothing": ("SLOTS = 2 * UNITS", "SLOTS"),
    "a name": ("SHARE = ceildiv(TOTAL, UNITS), SLOTS = 2 * UNITS + SHARE", "SLOTS"),
    "another name": ("SLOTS = 2 * UNITS, SHARE = ceildiv(TOTAL, UNITS)", "SLOTS + SHARE"),
    "the shape alone": ("SLOTS = 2 * UNITS", "SLOTS + ceildiv(TOTAL, UNITS)"),
    "not by zero": ("SLOTS = 8 + TOTAL // (UNITS + 1)", "SLOTS"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", DIVIDES)
@pytest.mark.parametrize("m", [0, 1, 40])
def test_module_and_file_agree_where_sizes_divide_by_a_pick(case: str, m: int):
    where, shape = DIVIDES[case]
    text = edited(PICKED, ("SLOTS = 2 * UNITS", where), ("f32[SLOTS, ", f"f32[{shape}, "))
    kernel = compiled(text)
    sizes = {"M": m, "N": 50, "K": 90}
    found = kernel.workspace_bytes(**sizes)
    assert found == kernel.module.workspace_bytes({**sizes, "UNITS": 4})
    assert (found == 0) is (m == 0)
    c = torch.zeros(m, 50).bfloat16()
    kernel(torch.ones(m, 90).bfloat16(), torch.ones(90, 50).bfloat16(), torch.zeros(50), c)
    assert c.eq(90).all()
    kept = [w.memory.numel() for w in kernel.namespace._workspaces.values()]
    assert kept == [found]


def test_module_and_file_refuse_a_negative_size():
    kernel = compiled(PICKED.replace("f32[SLOTS, BM, BN]", "f32[SLOTS - 1000, BM, BN]"))
    sizes = {"M": 40, "N": 50, "K": 90}
    for ask in (
        lambda: kernel.workspace_bytes(**sizes),
        lambda: kernel.module.workspace_bytes({**sizes, "UNITS": 4}),
    ):
        with pytest.raises(ValueError, match=r"partials: expected .*at least 0"):
            ask()


def test_a_program_without_workspaces_needs_no_bytes_and_has_none_to_give():
    text = edited(FIXUP, ("workspace partials: f32[TILES * S, BM, BN]\n\n", ""))
    text = text[: text.index("kernel @gemm_fixup")]
    text = edited(text, ("    store partials[tile * S + s, 0 +: BM, 0 +: BN], acc\n", ""))
    kernel = compiled(text)
    assert kernel.workspace_bytes() == kernel.module.workspace_bytes() == 0
    assert "Workspace" not in kernel.source
    assert "threading" not in kernel.source
    kernel.release_workspaces()
    with pytest.raises(CodegenError, match="@gemm: no workspace is needed"):
        kernel.new_workspace(-1)
    a, b = torch.ones(40, 96).half(), torch.ones(96, 50).half()
    kernel(a, b, workspace=None)
    text = "workspace: expected None, since @gemm needs none, got Tensor"
    with pytest.raises(ValueError, match=text):
        kernel(a, b, workspace=torch.zeros(256, dtype=torch.uint8))


def test_a_size_that_is_negative_is_named():
    text = PICKED.replace("f32[SLOTS, BM, BN]", "f32[SLOTS - 1000, BM, BN]")
    with pytest.raises(ValueError, match="partials: expected an int of at least 0"):
        check(compiled(text), 1)


# --- several kernels


def test_kernels_run_in_order_and_share_parameters_by_name():
    kernel = compiled(FIXUP)
    assert [info.symbol for info in kernel.module.kernels] == ["gemm", "gemm_fixup"]
    assert "def launch(A, B, bias, C, *," in kernel.source
    assert "Run @gemm, then @gemm_fixup on the current" in kernel.source


TWICE = """\
workspace sums: f32[16]

kernel @first(A: f32[N], out C: f32[N])
    where N = 32
    requires zeroed(sums) {
  grid (g) in [2] {
    alloc a: register f32[16]
    load a, A[g * 16 +: 16]
    atomic add sums[0 +: 16], a
    store C[g * 16 +: 16], a
  }
}

kernel @second(A: f32[N], out D: f32[N], inout C: f32[N])
    where N = 32
    requires zeroed(D) {
  grid (g) in [2] {
    alloc a: register f32[16]
    alloc c: register f32[16]
    load a, sums[0 +: 16]
    load c, C[g * 16 +: 16]
    ewise c = c + a
    store C[g * 16 +: 16], c
    atomic add D[g * 16 +: 16], a
  }
}
"""


def test_each_kernel_has_its_zeros_before_it():
    for seed in range(2):
        check(compiled(TWICE), seed)


LAST = "inout C: f32[N])\n    where N = 32"
OTHERWISE = {
    "size": ((LAST, LAST.replace("= 32", "= 64")), "N has another meaning"),
    "open": ((LAST, "inout C: f32[N])\n   "), "N is open in this kernel"),
    "dtype": (("@second(A: f32[N]", "@second(A: f16[N]"), "A is declared otherwise"),
    "workspace": (("sums: f32[16]", "sums: f32[Q]"), "Q is no name of the first kernel's header"),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_a_name_with_two_meanings_is_refused(case: str):
    edit, text = OTHERWISE[case]
    with pytest.raises(CodegenError, match=text):
        emit(parse(edited(TWICE, edit)))


def test_two_bounds_of_one_pick_are_refused_and_one_of_both_is_taken():
    text = edited(
        TWICE,
        ("requires zeroed(sums)", "requires zeroed(sums), at_most(U, 2)"),
        ("requires zeroed(D)", "requires zeroed(D), at_most(U, 2)"),
    ).replace("in [2]", "in [U]")
    check(compiled(text), 1, {})
    with pytest.raises(CodegenError, match="another kernel bounds U otherwise"):
        emit(parse(text.replace("zeroed(D), at_most(U, 2)", "zeroed(D), at_most(U, 3)")))


LOCAL = edited(
    FIXUP,
    ("f32[TILES * S, BM, BN]", "f32[SLOTS, BM, BN]"),
    ("TILES = ceildiv(M, BM) * TN {", "TILES = ceildiv(M, BM) * TN, SLOTS = TILES * S {"),
    ("    alloc row: register f32[BN]", "    let TILES = 5\n    alloc row: register f32[BN]"),
    ("(ti * TN + tj) * S + q, piece", "(ti * TN + tj) * S + q + TILES - 5, piece"),
)


def test_a_later_kernel_may_use_a_name_of_the_first_for_something_else():
    check(compiled(LOCAL), 1)


# --- emitted text


def test_partial_tiles_are_read_past_the_cache_of_one_multiprocessor():
    source = emit(parse(STREAM_K)).source
    loads = [part.split("\n        if")[0] for part in source.split("tl.load(")[1:]]
    through = [".cg" in load.split(")\n")[0] for load in loads]
    assert through.count(True) == 1
    assert "partials" in loads[through.index(True)]


def test_strides_of_a_workspace_are_constants():
    (info,) = emit(parse(STREAM_K)).kernels
    assert [a.symbol for a in info.args if a.name.endswith("stride0")] == ["A", "B", "C"]


def test_a_counter_beyond_its_workspace_is_not_touched():
    text = edited(STREAM_K, ("arrivals[tile], parts", "arrivals[tile + 100], parts"))
    kernel = compiled(text)
    memory = guarded_workspace(kernel)
    arrays = random_inputs(kernel.module.program, 1)
    outputs(kernel, arrays, {}, workspace=memory)
    memory.check()


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_a_counter_that_triton_cannot_count_in_is_refused(dtype: str):
    text = STREAM_K.replace("arrivals: i32", f"arrivals: {dtype}")
    with pytest.raises(CodegenError, match=f"Triton has an atomic add of .*, not of {dtype}"):
        emit(parse(text))


def test_sizes_of_a_permuted_schedule_may_change_with_the_blocks():
    text = PERMUTED.replace("UNITS = 5", "UNITS = 9")
    for seed in range(4):
        check(compiled(text), seed)


def test_text_is_the_same_whenever_it_is_emitted():
    program = parse(SPLIT_K)
    assert emit(program).source == emit(resized(program, {})).source


@pytest.mark.parametrize(("splits", "is_assumed"), [(1, True), (3, True), (6, True), (7, False)])
def test_a_slice_of_the_panels_is_assumed_to_run_where_there_are_as_many_as_slices(
    splits: int, is_assumed: bool
):
    """Without it ptxas serialises the tensor cores; of a slice that may be empty it is wrong."""
    text = SPLIT_K.replace("S = 3", f"S = {splits}")
    assert ("tl.assume(" in emit(parse(text)).source) is is_assumed
    check(compiled(text), 1)


def test_a_program_without_kernels_is_refused():
    with pytest.raises(LoopIRError):
        emit(Program(()))


# --- controls: each of these kernels is wrong, and the checks above must say so

SLOT = "(first + unit + 1) * (BM * BN)"
FIRST = "plan.calls[0](A, B, partials)"
MUTANTS = {
    "no reset": (STREAM_K, "tl.store(arrivals + tile, 0)", "pass"),
    "another slot": (STREAM_K, SLOT, "(first + unit + 2) * (BM * BN)"),
    "one slot for all": (STREAM_K, SLOT, "(2 * first + 1) * (BM * BN)"),
    "a slot left out": (STREAM_K, "range(0, parts", "range(1, parts"),
    "a slot too many": (STREAM_K, "range(0, parts", "range(0, parts + 1"),
    "last too early": (IN_PLACE, "== parts - 1", "== parts - 2"),
    "last too late": (STREAM_K, "== parts - 1", "== parts"),
    "every block is last": (IN_PLACE, "== parts - 1", ">= 0"),
    "bias twice": (STREAM_K, "acc_1 + tl.expand_dims(row", "acc_1 + 2 * tl.expand_dims(row"),
    "sums not zeroed": (ATOMIC, "_zero(sums)", "pass"),
    "no second kernel": (FIXUP, "plan.calls[1](", "(lambda *buffers: None)("),
    "second kernel first": (FIXUP, FIRST, "plan.calls[1](bias, C, partials)"),
    "counters under tiles": (SPLIT_K, "_cut(tiles, self.counter_bytes)", "_cut(tiles, 0)"),
}


@pytest.mark.parametrize("case", MUTANTS)
def test_control_a_mutated_kernel_fails_the_checks(case: str):
    text, old, new = MUTANTS[case]
    module = emit(parse(text))
    assert old in module.source
    mutant = replace(module, source=module.source.replace(old, new))
    kernel = compile(mutant, "interpret")
    memory = None if "counters" in case else guarded_workspace(kernel)
    with pytest.raises(AssertionError):
        check_twice(kernel, memory)


def check_twice(kernel: CompiledKernel, memory: Any) -> None:
    for seed in range(2):
        check(kernel, seed, workspace=memory)
        if memory is not None:
            memory.check()
            memory.poison()
