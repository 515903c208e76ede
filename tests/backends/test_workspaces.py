"""Programs whose blocks meet in workspaces: the same bits as the reference interpreter, whatever
the memory held before and whoever owns it."""

import gc
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile, emit
from backends.triton_codegen.load import load
from loopir.errors import CodegenError, LoopIRError
from loopir.interp import random_inputs, run
from loopir.interp.arguments import parameters
from loopir.nodes import Program
from loopir.parser import parse
from loopir.scope import launch_symbols, resized
from loopir.types import Direction
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


@pytest.mark.parametrize("name", TEXTS)
def test_launches_one_after_the_other_give_the_bits_of_the_reference(name: str):
    for seed in range(3):
        check(compiled(TEXTS[name]), seed)


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


# --- the caller's memory


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
    "too small": (lambda n: torch.zeros(n - 256, dtype=torch.uint8), "bytes of counters and"),
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


def test_a_program_without_workspaces_needs_no_bytes_and_has_none_to_give():
    text = edited(FIXUP, ("workspace partials: f32[TILES * S, BM, BN]\n\n", ""))
    text = text[: text.index("kernel @gemm_fixup")]
    text = edited(text, ("    store partials[tile * S + s, 0 +: BM, 0 +: BN], acc\n", ""))
    kernel = compiled(text)
    assert kernel.workspace_bytes() == kernel.module.workspace_bytes() == 0
    assert "Workspace" not in kernel.source
    with pytest.raises(CodegenError, match="@gemm: no workspace is needed"):
        kernel.new_workspace(-1)


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
    "a slot left out": (STREAM_K, "range(0, parts)", "range(1, parts)"),
    "a slot too many": (STREAM_K, "range(0, parts)", "range(0, parts + 1)"),
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
