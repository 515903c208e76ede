"""Programs whose blocks meet in workspaces, on a real GPU: right and equal bits at real sizes, on
two streams at once, in a graph that is replayed, and where thousands of tiny tiles arrive."""

import time
from functools import cache

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile
from loopir.parser import parse
from loopir.scope import resized
from tests.support.numerics import Guarded, guarded, integers, normal
from tests.support.reference import outputs_of_both
from tests.support.workspace_texts import PERMUTED, PICKED, SIZES, SPLIT_K, STREAM_K, TEXTS
from tests.support.workspaces import check_dirty_graph_is_seen, guarded_workspace

pytestmark = pytest.mark.gpu

GPU = "cuda"
TILE = {"BM": 128, "BN": 128, "BK": 64, "BR": 32}
SHAPE = (1000, 1160, 4136)
UNITS = 132
REAL = [name for name in TEXTS if name != "last-arriver"]


@cache
def jit(text: str, shape: tuple[int, int, int] = SHAPE, **sizes: int) -> CompiledKernel:
    m, n, k = shape
    wanted = {"M": m, "N": n, "K": k, "UNITS": UNITS, **TILE, **sizes}
    kernel = compile(resized(parse(text), wanted), "jit")
    assert isinstance(kernel, CompiledKernel)
    return kernel


class Run:
    """One set of arguments of a text of TEXTS, and what its outputs must be."""

    def __init__(self, name: str, seed: int, shape=SHAPE, make=integers, units: int = UNITS):
        self.name, (m, n, k) = name, shape
        kind = torch.int8 if name == "i32" else torch.bfloat16 if name in _BF16 else torch.float16
        out = torch.int32 if name == "i32" else torch.float32 if name == "two" else kind
        acc = torch.int32 if name == "i32" else torch.float32
        self.a = make((m, k), kind, seed, device=GPU)
        self.b = make((k, n), kind, seed + 1, device=GPU)
        self.bias = integers((n,), acc, seed + 2, device=GPU)
        self.old = integers((m, n), out, seed + 3, device=GPU)
        self.out = guarded((m, n), out, device=GPU)
        self.tops = guarded((m, -(-n // TILE["BN"])), device=GPU)
        rng = torch.Generator().manual_seed(seed)
        self.order = torch.randperm(units, generator=rng).to(torch.int32).to(GPU)

    @property
    def tensors(self) -> list[torch.Tensor]:
        more = {"two": [], "in-place": []}.get(self.name, [self.bias])
        more = [*more, *([self.order] if self.name == "permuted" else []), self.out.tensor]
        return [self.a, self.b, *more, *([self.tops.tensor] if self.name == "two" else [])]

    @property
    def outputs(self) -> list[Guarded]:
        return [self.out, self.tops] if self.name == "two" else [self.out]

    def poison(self) -> None:
        for out in self.outputs:
            out.tensor.fill_(torch.nan if out.tensor.is_floating_point() else 7)
        if self.name == "in-place":
            self.out.tensor.copy_(self.old)

    def expected(self) -> list[torch.Tensor]:
        """Of integers; sums of their products are exact in f32."""
        sums = self.a.double() @ self.b.double()
        if self.name == "two":
            tops = self.a.float().amax(1).clamp(min=0)  # masked elements of the last panel are 0
            return [sums.float(), tops[:, None].expand_as(self.tops.tensor)]
        if self.name == "in-place":
            return [(2 * sums + 3 * self.old.double()).to(self.out.tensor.dtype)]
        sums = sums + self.bias.double()
        sums = sums if self.name in ("split-k", "fixup", "atomic") else sums.clamp(min=0)
        return [sums.to(self.out.tensor.dtype)]

    def check(self) -> None:
        for out, wanted in zip(self.outputs, self.expected(), strict=True):
            bad = out.tensor.ne(wanted).sum().item()
            assert bad == 0, f"{bad} of {wanted.numel()} elements are wrong"
            out.check_guards()


_BF16 = ("stream-k", "picked", "permuted", "in-place")


@pytest.mark.parametrize("name", REAL)
def test_products_of_integers_are_exact(name: str):
    for seed in range(3):
        run = Run(name, 10 * seed)
        run.poison()
        jit(TEXTS[name])(*run.tensors)
        run.check()


@pytest.mark.parametrize("name", TEXTS)
def test_small_programs_agree_with_the_reference(name: str):
    program = parse(TEXTS[name])
    for found, wanted in outputs_of_both(program, "jit", sizes=SIZES, integer_valued=True):
        assert found.equal(wanted)


@pytest.mark.parametrize("name", REAL)
def test_what_a_workspace_held_is_never_read_and_nothing_around_it_written(name: str):
    kernel, run = jit(TEXTS[name]), Run(name, 5)
    sizes = dict(zip("MNK", SHAPE, strict=True)) if name == "picked" else {}
    memory = guarded_workspace(kernel, torch.cuda.current_device(), **sizes)
    for _ in range(3):
        run.poison()
        kernel(*run.tensors, workspace=memory)
        run.check()
        memory.check()
        memory.poison()


def test_control_counters_that_are_not_zero_are_seen():
    """The contributors of a tile of an unaligned walk arrive at different times: the early one is
    taken for the last, and folds what the late one has not stored."""
    kernel, run = jit(STREAM_K), Run("stream-k", 6)
    memory = guarded_workspace(kernel, torch.cuda.current_device())
    kernel(*run.tensors, workspace=memory)
    memory.poison()
    memory.dirty()
    run.poison()
    kernel(*run.tensors, workspace=memory)
    with pytest.raises(AssertionError, match="elements are wrong"):
        run.check()
    with pytest.raises(AssertionError, match="counters are not zero"):
        memory.check()


@pytest.mark.parametrize("name", [n for n in REAL if n not in ("atomic", "permuted")])
def test_a_hundred_launches_give_the_same_bits(name: str):
    kernel, run = jit(TEXTS[name]), Run(name, 7, make=integers if name == "i32" else normal)
    first: list[torch.Tensor] = []
    for _ in range(100):
        run.poison()
        kernel(*run.tensors)
        first = first or [out.tensor.clone() for out in run.outputs]
        for out, wanted in zip(run.outputs, first, strict=True):
            assert out.tensor.equal(wanted)


def test_every_order_of_the_units_gives_the_same_bits():
    kernel, run = jit(PERMUTED), Run("permuted", 8, make=normal)
    first = None
    for seed in range(50):
        rng = torch.Generator().manual_seed(seed)
        run.order.copy_(torch.randperm(UNITS, generator=rng))
        run.poison()
        kernel(*run.tensors)
        first = run.out.tensor.clone() if first is None else first
        assert run.out.tensor.equal(first)


@pytest.mark.parametrize("name", ["picked", "split-k", "fixup", "atomic"])
def test_two_streams_at_once_have_workspaces_of_their_own(name: str):
    kernel = jit(TEXTS[name], (640, 640, 4096))
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    runs = [[Run(name, 100 * s + 10 * i, (640, 640, 4096)) for i in range(4)] for s in range(2)]
    wanted = [[run.expected()[0] for run in some] for some in runs]
    wrong = [torch.zeros((), dtype=torch.int64, device=GPU) for _ in streams]
    kernel.namespace._workspaces.clear()
    torch.cuda.synchronize()
    for turn in range(200):
        for stream, some, results, count in zip(streams, runs, wanted, wrong, strict=True):
            with torch.cuda.stream(stream):
                run = some[turn % 4]
                run.poison()
                kernel(*run.tensors)
                count += run.out.tensor.ne(results[turn % 4]).sum()
    torch.cuda.synchronize()
    assert [count.item() for count in wrong] == [0, 0]
    assert len(kernel.namespace._workspaces) == 2


@pytest.mark.parametrize("name", ["picked", "fixup", "atomic"])
def test_a_graph_is_replayed_with_new_inputs_and_other_launches_in_between(name: str):
    kernel, run = jit(TEXTS[name]), Run(name, 9)
    run.poison()
    kernel(*run.tensors)
    kept = dict(kernel.namespace._workspaces)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*run.tensors)
    assert kernel.namespace._workspaces == kept
    others = [Run("picked", 50 + i, shape) for i, shape in enumerate(_OTHER_SHAPES)]
    wrong = torch.zeros((), dtype=torch.int64, device=GPU)
    fresh = [Run(name, 1000 + 10 * i) for i in range(5)]
    for turn in range(100):
        run.a.copy_(fresh[turn % 5].a)
        run.b.copy_(fresh[turn // 5 % 5].b)
        run.poison()
        graph.replay()
        wrong += run.out.tensor.ne(run.expected()[0]).sum()
        other = others[turn % len(others)]
        other.poison()
        jit(PICKED)(*other.tensors)
        wrong += other.out.tensor.ne(other.expected()[0]).sum()
    assert wrong.item() == 0


_OTHER_SHAPES = ((100, 3000, 700), (2000, 2100, 300), (1, 1, 1), (128, 512, 8192))


def test_control_a_graph_whose_counters_are_dirty_is_seen():
    check_dirty_graph_is_seen(jit(STREAM_K), Run("stream-k", 11))


def test_sizes_that_grow_and_shrink_share_one_workspace():
    kernel = jit(PICKED)
    kernel.namespace._workspaces.clear()
    for turn in range(3):
        for i, shape in enumerate((*_OTHER_SHAPES, *reversed(_OTHER_SHAPES))):
            run = Run("picked", 100 * turn + 10 * i, shape)
            run.poison()
            kernel(*run.tensors)
            run.check()
    assert len(kernel.namespace._workspaces) == 1
    sizes = dict(zip("MNK", _OTHER_SHAPES[1], strict=True))
    (memory,) = kernel.namespace._workspaces.values()
    assert memory.memory.numel() == kernel.workspace_bytes(**sizes)


@pytest.mark.parametrize("units", [1, 7, 131, 132, 1000])
@pytest.mark.parametrize("shape", [(128, 128, 4096), (128, 512, 16384), (1536, 1536, 4096)])
def test_few_tiles_have_many_contributors(shape: tuple[int, int, int], units: int):
    run, kernel = Run("picked", units, shape), jit(PICKED)
    run.poison()
    kernel(*run.tensors, units=units, blocks_per_sm=8)
    run.check()


TINY = {"BM": 16, "BN": 16, "BK": 16}


@pytest.mark.parametrize("splits", [2, 3, 8, 16])
def test_thousands_of_tiny_tiles_arrive(splits: int):
    shape = (1600, 1600, 256)
    kernel = jit(SPLIT_K, shape, **TINY, S=splits)
    memory = guarded_workspace(kernel, torch.cuda.current_device())
    for seed in range(20):
        run = Run("split-k", 10 * seed, shape)
        memory.poison()
        run.poison()
        kernel(*run.tensors, workspace=memory, num_warps=1)
        run.check()
        memory.check()


@pytest.mark.parametrize("units", [1000, 9999, 40_000])
def test_thousands_of_units_share_tiny_tiles(units: int):
    shape = (800, 800, 256)
    kernel = jit(STREAM_K, shape, **TINY, UNITS=units)
    memory = guarded_workspace(kernel, torch.cuda.current_device())
    for seed in range(20):
        run = Run("stream-k", 10 * seed, shape)
        memory.poison()
        run.poison()
        kernel(*run.tensors, workspace=memory, num_warps=4)
        run.check()
        memory.check()


def test_after_a_launch_that_raised_the_next_is_right():
    kernel, run = jit(STREAM_K), Run("stream-k", 12)
    kernel(*run.tensors)
    (memory,) = (w for p, w in kernel.namespace._workspaces.items() if p[1] == current_stream())
    memory.memory.fill_(1)

    def cut_short(self, *buffers: object) -> None:
        raise KeyboardInterrupt

    call = kernel.namespace._Call
    plain = call.__call__
    call.__call__ = cut_short
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(*run.tensors)
    finally:
        call.__call__ = plain
    run.poison()
    kernel(*run.tensors)
    run.check()


def current_stream() -> int:
    return torch.cuda.current_stream().cuda_stream


def test_a_workspace_on_the_cpu_is_refused():
    kernel, run = jit(STREAM_K), Run("stream-k", 13)
    memory = torch.zeros(kernel.workspace_bytes(), dtype=torch.uint8)
    with pytest.raises(ValueError, match="workspace: expected device cuda:0, as A, got cpu"):
        kernel(*run.tensors, workspace=memory)
    kernel(*run.tensors, workspace=memory.to(GPU))
    run.check()


def test_a_kept_plan_checks_the_storage_of_other_tensors():
    kernel, run = jit(STREAM_K), Run("stream-k", 14)
    for _ in range(2):
        kernel(*run.tensors)
    m, n, k = SHAPE
    room = torch.zeros(m * k + m * n, dtype=torch.bfloat16, device=GPU)
    a, apart = room[: m * k].view(m, k), room[m * k :].view(m, n)
    kernel(a, run.b, run.bias, apart)
    overlapping = room[m * k - 8 : m * k - 8 + m * n].view(m, n)
    with pytest.raises(ValueError, match="C: expected memory of its own, got bytes shared with A"):
        kernel(a, run.b, run.bias, overlapping)


def test_other_strides_and_addresses_have_plans_of_their_own():
    kernel = jit(PICKED)
    for seed, (pad, offset) in enumerate(((0, 0), (8, 16), (3, 5), (0, 0), (3, 5))):
        run = Run("picked", seed, (200, 210, 500))
        wide = torch.full((200 * (500 + pad) + offset,), torch.nan, device=GPU).to(torch.bfloat16)
        a = wide.as_strided((200, 500), (500 + pad, 1), offset).copy_(run.a)
        run.poison()
        kernel(a, *run.tensors[1:])
        run.check()


@pytest.mark.parametrize("name", ["stream-k", "fixup", "picked"])
def test_python_of_a_launch_is_short(name: str, record_property):
    text = TEXTS[name]
    kernel, run = jit(text, (256, 256, 1024)), Run(name, 15, (256, 256, 1024))
    samples = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(50):
            kernel(*run.tensors)
        samples.append((time.perf_counter() - start) / 50 * 1e6)
    launch_us = sorted(samples)[len(samples) // 2]
    record_property("launch_us", launch_us)
    print(f"{name}: {launch_us:.1f} us of Python a launch (least {min(samples):.1f})")
    assert launch_us < 60
