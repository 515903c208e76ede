"""What stream-k makes with every merge, on a real GPU: the epilogue once a tile for 1 to 40
contributors, the same bits in every launch and for every order of the units, on two streams at
once, in a graph that is replayed."""

import itertools
from functools import cache
from typing import Any

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile
from loopir.build import Epilogue, gemm
from loopir.nodes import Program
from loopir.scope import constants
from passes.pipeline import parse_pipeline
from tests.support.merged_products import DETERMINISTIC, EXACT, MERGES, REAL, Run, Shape, product_of
from tests.support.numerics import check_product, guarded, normal
from tests.support.workspaces import check_dirty_graph_is_seen, guarded_workspace

pytestmark = pytest.mark.gpu

GPU = "cuda"
TILE = (128, 128, 64)
SHAPE = (1000, 1160, 4136)  # 80 tiles of 65 panels, with tails
UNITS = 132
OPEN = (None, None, None)
PICKED = "launch-constants=true"

each_merge = pytest.mark.parametrize("merge", MERGES)
each_deterministic = pytest.mark.parametrize("merge", DETERMINISTIC)


@cache
def jit(program: Program, **settings: Any) -> CompiledKernel:
    kernel = compile(program, "jit", **settings)
    assert isinstance(kernel, CompiledKernel)
    return kernel


def kernel_of(
    shape, options: str, epilogue: Epilogue = REAL, tile: Shape = TILE, **settings: Any
) -> CompiledKernel:
    return jit(product_of(shape, options, epilogue, tile), **settings)


def gpu_run(shape: Shape, seed: int, epilogue: Epilogue = REAL) -> Run:
    return Run(shape, seed, epilogue, GPU)


# --- right numbers

PANELS = 40
ONE_TILE = (120, 100, 64 * PANELS - 9)


@pytest.mark.parametrize("epilogue", [REAL, EXACT], ids=["real", "exact"])
@each_merge
def test_a_tile_has_one_to_forty_contributors(merge: str, epilogue: Epilogue):
    kernel = kernel_of(OPEN, f"merge={merge} {PICKED}", epilogue)
    for units in range(1, PANELS + 1):
        run = gpu_run(ONE_TILE, units, epilogue)
        run.launch(kernel, units=units)
        run.check()


@pytest.mark.parametrize("splits", [2, 7, 17, PANELS])
@each_merge
def test_slices_of_every_tile_are_merged(merge: str, splits: int):
    shape = (300, 260, ONE_TILE[2])
    kernel = kernel_of(shape, f"merge={merge} decomposition=split-k splits={splits}")
    for seed in range(3):
        run = gpu_run(shape, seed)
        run.launch(kernel)
        run.check()


@pytest.mark.parametrize(
    "options",
    [
        "units=132",
        "splits=5",
        "units=100 bounds=ceil direction=backward",
        "decomposition=hybrid units=64",
        "decomposition=hybrid units=64 tail=one-tile first=data-parallel bounds=big-units",
        "decomposition=split-k splits=6 slot-order=split-slowest",
        "decomposition=k-aligned units=64 cost=1",
        "decomposition=k-aligned units=132",
    ],
)
@each_merge
def test_every_schedule_is_right_to_the_bit_for_integers(merge: str, options: str):
    kernel = kernel_of(SHAPE, f"merge={merge} {options}", EXACT)
    for seed in range(3):
        run = gpu_run(SHAPE, 10 * seed, EXACT)
        run.launch(kernel)
        run.check()


@pytest.mark.parametrize("epilogue", [REAL, EXACT], ids=["real", "exact"])
@each_merge
def test_one_kernel_whose_units_the_launch_picks_serves_every_shape(merge: str, epilogue: Epilogue):
    kernel = kernel_of(OPEN, f"merge={merge} {PICKED}", epilogue)
    shapes = [(1, 100, 1000), (1000, 1, 1000), (130, 70, 1), (1, 1, 1), (33, 5, 0), (0, 5, 70)]
    for shape in (*shapes, SHAPE, (128, 512, 16384), (1536, 1536, 4096)):
        for blocks_per_sm in (1, 3):
            run = gpu_run(shape, 3, epilogue)
            run.launch(kernel, blocks_per_sm=blocks_per_sm)
            run.check()


@each_merge
@pytest.mark.parametrize("splits", [2, 16])
def test_thousands_of_tiny_tiles_are_merged(merge: str, splits: int):
    shape = (1600, 1600, 256)
    kernel = kernel_of(shape, f"merge={merge} splits={splits}", EXACT, (16, 16, 16))
    for seed in range(10):
        run = gpu_run(shape, seed, EXACT)
        run.launch(kernel, num_warps=1)
        run.check()


@each_merge
def test_what_a_workspace_held_is_not_read_and_nothing_around_it_written(merge: str):
    kernel = kernel_of(SHAPE, f"merge={merge} units={UNITS}", EXACT)
    memory = guarded_workspace(kernel, torch.cuda.current_device())
    for seed in range(3):
        run = gpu_run(SHAPE, seed, EXACT)
        run.launch(kernel, workspace=memory)
        run.check()
        memory.check()
        memory.poison()


@pytest.mark.parametrize("merge", ["workspace", "atomic-workspace"])
def test_control_counters_that_are_not_zero_are_seen(merge: str):
    kernel = kernel_of(SHAPE, f"merge={merge} units={UNITS}", EXACT)
    memory, run = guarded_workspace(kernel, torch.cuda.current_device()), gpu_run(SHAPE, 4, EXACT)
    run.launch(kernel, workspace=memory)
    memory.poison()
    memory.dirty()
    run.launch(kernel, workspace=memory)
    with pytest.raises(AssertionError, match="elements are wrong"):
        run.check()
    with pytest.raises(AssertionError, match="counters are not zero"):
        memory.check()


# --- the same bits


@pytest.mark.parametrize("pieces", [1, 2, 4, 8, 16, 128, None])
@pytest.mark.parametrize("schedule", ["units=132", "splits=5", "decomposition=hybrid units=64"])
@pytest.mark.parametrize("epilogue", [REAL, EXACT], ids=["real", "exact"])
def test_a_fold_in_pieces_has_the_bits_of_one_by_the_last_arriver(
    schedule: str, pieces: int | None, epilogue: Epilogue
):
    asked = "" if pieces is None else f"pieces={pieces}"
    run = gpu_run(SHAPE, 12, epilogue)
    whole = run.launch(kernel_of(SHAPE, f"merge=workspace {schedule}", epilogue)).clone()
    kernel = kernel_of(SHAPE, f"merge=fixup {schedule} {asked}", epilogue)
    for num_warps in (4, 8):
        assert run.launch(kernel, num_warps=num_warps).equal(whole)
    run.check()


@each_merge
@pytest.mark.parametrize("schedule", ["units=132", "splits=5", "decomposition=hybrid units=64"])
@pytest.mark.parametrize(("tile", "warps"), [(TILE, 4), (TILE, 8), ((128, 256, 64), 8)], ids=str)
def test_slots_in_fragment_order_hold_the_same_bits(
    schedule: str, merge: str, tile: Shape, warps: int
):
    """Of integers where atomics add them, in any order. Without fused multiply-adds, which the
    compiler may form in one epilogue and not in the other."""
    epilogue = EXACT if merge.startswith("atomic") else REAL
    run, options = gpu_run(SHAPE, 13, epilogue), f"merge={merge} {schedule}"
    settings = {"num_warps": warps, "fp_fusion": False}
    rows = run.launch(kernel_of(SHAPE, options, epilogue, tile, **settings)).clone()
    ordered = kernel_of(SHAPE, f"{options} slot-layout=fragments", epilogue, tile, **settings)
    memory = guarded_workspace(ordered, torch.cuda.current_device())
    for _ in range(3):
        assert run.launch(ordered, workspace=memory).equal(rows)
        memory.check()
        memory.poison()
    run.check()


@pytest.mark.parametrize("schedule", ["units=132", "splits=5", "decomposition=split-k splits=13"])
def test_kernels_that_overlap_give_the_same_bits_in_a_graph_too(schedule: str):
    """With other inputs in every launch, so that a slot of the one before would show."""
    program = product_of(SHAPE, f"merge=fixup {schedule}", EXACT, TILE)
    kernel = compile(program, "jit", launch_pdl=True)
    runs = [gpu_run(SHAPE, 10 * seed, EXACT) for seed in range(4)]
    wanted = [run.expected()[0].bfloat16() for run in runs]
    wrong = torch.zeros((), dtype=torch.int64, device=GPU)
    for turn in range(100):
        wrong += runs[turn % 4].launch(kernel).ne(wanted[turn % 4]).sum()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run in runs:
            kernel(*run.tensors)
    for _ in range(25):
        for run in runs:
            run.poison()
        graph.replay()
        wrong += sum(r.c.tensor.ne(w).sum() for r, w in zip(runs, wanted, strict=True))
    assert wrong.item() == 0


@pytest.mark.parametrize("layout", ["row", "fragments"])
@pytest.mark.parametrize("pieces", [None, 1, 4, 64])
def test_few_tiles_of_many_parts_are_folded_in_pieces(pieces: int | None, layout: str):
    asked = "" if pieces is None else f"pieces={pieces}"
    shape = (128, 500, 16384)
    kernel = kernel_of(shape, f"merge=fixup splits=32 slot-layout={layout} {asked}")
    for seed in range(3):
        run = gpu_run(shape, seed)
        run.launch(kernel)
        run.check()


@pytest.mark.parametrize("options", ["units=132", "units=131 bounds=ceil", "splits=5"])
@each_deterministic
def test_a_hundred_launches_give_the_same_bits(merge: str, options: str):
    kernel, run = kernel_of(SHAPE, f"merge={merge} {options}"), gpu_run(SHAPE, 5)
    first = run.launch(kernel).clone()
    for _ in range(100):
        assert run.launch(kernel).equal(first)
    run.check()


@pytest.mark.parametrize("schedule", ["units=132", "splits=5"])
@each_deterministic
def test_every_order_of_the_units_gives_the_same_bits(merge: str, schedule: str):
    options, run = f"merge={merge} {schedule}", gpu_run(SHAPE, 6)
    plain = run.launch(kernel_of(SHAPE, options)).clone()
    run.check()
    kernel = kernel_of(SHAPE, f"{options} permuted=true")
    for order in orders(constants(kernel.module.program.kernels[0])["UNITS"]):
        assert result(run, kernel, order).equal(plain)


def orders(units: int) -> list[torch.Tensor]:
    """Block to unit: as they are, reversed, and shuffled."""
    rng = torch.Generator().manual_seed(units)
    plain = torch.arange(units, dtype=torch.int32, device=GPU)
    shuffled = (torch.randperm(units, generator=rng).to(torch.int32).to(GPU) for _ in range(48))
    return [plain, plain.flip(0).contiguous(), *shuffled]


def result(run: Run, kernel: CompiledKernel, order: torch.Tensor) -> torch.Tensor:
    run.order = order
    return run.launch(kernel).clone()


@each_deterministic
def test_all_orders_of_six_units_give_the_same_bits(merge: str):
    shape = (128, 128, 6 * 64)
    kernel, run = kernel_of(shape, f"merge={merge} splits=6 permuted=true"), gpu_run(shape, 7)
    every = torch.tensor(list(itertools.permutations(range(6))), dtype=torch.int32, device=GPU)
    first = result(run, kernel, every[0])
    run.check()
    wrong = torch.zeros((), dtype=torch.int64, device=GPU)
    for order in every:
        run.order = order
        wrong += run.launch(kernel).ne(first).sum()
    assert wrong.item() == 0


@pytest.mark.parametrize("merge", [*MERGES, "atomic"])
def test_only_atomic_merges_depend_on_the_order_of_arrival(merge: str):
    """An f32 output of real values, about six contributors a tile."""
    shape = (640, 640, 4096)
    options = f"stream-k{{merge={merge} units={UNITS} permuted=true}}"
    kernel = jit(parse_pipeline(options).run(gemm(*shape, "bf16", tile=TILE)))
    m, n, k = shape
    a = normal((m, k), torch.bfloat16, 8, device=GPU)
    b = normal((k, n), torch.bfloat16, 9, device=GPU)
    found = []
    for order in orders(UNITS):
        c = guarded((m, n), device=GPU)
        kernel(a, b, c.tensor, order)
        check_product(c, a, b)
        found.append(c.tensor)
    differs = any(not each.equal(found[0]) for each in found)
    assert differs is merge.startswith("atomic")


# --- streams and graphs

_MIDDLE = (640, 640, 4096)


@each_merge
def test_two_streams_at_once_do_not_meet(merge: str):
    kernel = kernel_of(OPEN, f"merge={merge} {PICKED}", EXACT)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    runs = [[gpu_run(_MIDDLE, 100 * s + 10 * i, EXACT) for i in range(4)] for s in range(2)]
    wanted = [[run.expected()[0].bfloat16() for run in some] for some in runs]
    wrong = [torch.zeros((), dtype=torch.int64, device=GPU) for _ in streams]
    torch.cuda.synchronize()
    for turn in range(200):
        for stream, some, results, count in zip(streams, runs, wanted, wrong, strict=True):
            with torch.cuda.stream(stream):
                found = some[turn % 4].launch(kernel)
                count += found.ne(results[turn % 4]).sum()
    torch.cuda.synchronize()
    assert [count.item() for count in wrong] == [0, 0]


_OTHER_SHAPES = ((100, 3000, 700), (2000, 2100, 300), (1, 1, 1), (128, 512, 8192))


@each_merge
def test_a_graph_is_replayed_with_new_inputs_and_other_launches_in_between(merge: str):
    kernel = kernel_of(OPEN, f"merge={merge} {PICKED}", EXACT)
    run = gpu_run(_MIDDLE, 10, EXACT)
    run.launch(kernel)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*run.tensors)
    fresh = [gpu_run(_MIDDLE, 1000 + 10 * i, EXACT) for i in range(5)]
    others = [gpu_run(shape, 50 + i, EXACT) for i, shape in enumerate(_OTHER_SHAPES)]
    wanted = [other.expected()[0].bfloat16() for other in others]
    wrong = torch.zeros((), dtype=torch.int64, device=GPU)
    for turn in range(100):
        run.a.copy_(fresh[turn % 5].a)
        run.b.copy_(fresh[turn // 5 % 5].b)
        run.poison()
        graph.replay()
        wrong += run.c.tensor.ne(run.expected()[0].bfloat16()).sum()
        at = turn % len(others)
        wrong += others[at].launch(kernel).ne(wanted[at]).sum()
    assert wrong.item() == 0


def test_control_a_graph_whose_counters_are_dirty_is_seen():
    check_dirty_graph_is_seen(kernel_of(SHAPE, f"units={UNITS}", EXACT), gpu_run(SHAPE, 11, EXACT))
