"""The cache policy in the copies of descriptors whose tensors are read once."""

import re
import threading
from functools import cache

import pytest
import torch
from triton import knobs

from backends.triton_codegen import AotKernel, Module, compile, emit
from loopir.parser import parse
from loopir.printer import to_text
from passes.pipeline import parse_pipeline
from tests.support.numerics import integers
from tests.support.texts import GEMM, edited

FEW_ROWS = edited(GEMM, ("M = 96, N = 80, K = 100", "M = 32, N = 96, K = 128"))
PIPELINES = [
    "evict-first,descriptors",
    "evict-first,stream-k{units=3 merge=workspace},descriptors",
    "evict-first,stream-k{splits=2 merge=fixup decomposition=split-k},descriptors",
    "evict-first,stream-k{units=2 decomposition=data-parallel},flatten,descriptors",
]
COPY = "cp.async.bulk.tensor.2d.shared::cluster"
LINE = (
    '  call void asm sideeffect "@$0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::'
    'complete_tx::bytes [$1], [$2, {$3, $4}], [$5];", "b,r,l,r,r,r"(i1 %42, ptr addrspace(3) '
    "getelementptr (i8, ptr addrspace(3) @global_smem, i32 8), ptr nonnull %X, i32 %46, i32 %19, "
    "ptr addrspace(3) %50) #6, !dbg !20"
)
HEAD = (
    "define ptx_kernel void @gemm(ptr addrspace(1) %0, ptr byval([128 x i8]) align 64 "
    '"nvvm.grid_constant" %3, i32 %4, ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %8) {'
)


def module(pipeline: str) -> Module:
    return emit(parse_pipeline(pipeline).run(parse(FEW_ROWS)))


def ahead(pipeline: str) -> AotKernel:
    return compile(module(pipeline), "cuda:90", num_stages=3)


def copies(kernel: AotKernel) -> tuple[int, int]:
    """Copies into shared memory in the PTX, and those of them that have a policy."""
    lines = [line for line in kernel.assembly.splitlines() if COPY in line]
    return len(lines), sum(".L2::cache_hint" in line for line in lines)


@cache
def functions():
    """What an emitted file defines."""
    return compile(module(PIPELINES[0]), "interpret").namespace


# --- the instructions


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_copies_of_what_is_read_once_have_a_policy(pipeline: str):
    """Of A and B each panel is one copy, so half of them are B's."""
    kernel = ahead(pipeline)
    all_of_them, with_policy = copies(kernel)
    assert 0 < all_of_them == 2 * with_policy
    descriptors = [arg.symbol for arg in kernel.info.args if arg.kind.value == "descriptor"]
    assert [descriptors[i] for i in kernel.info.once] == ["B"]
    assert kernel.fallback is not None
    assert copies(kernel.fallback) == (0, 0)


def test_the_machine_code_has_it():
    found = re.findall(r"UTMALDG\.2D \[\w+\], \[\w+\](, desc\[\w+\])?", ahead(PIPELINES[0]).sass)
    assert found
    assert 2 * sum(map(bool, found)) == len(found)


def test_control_without_the_word_there_is_none():
    """Compiled beside the others: a compiler's cache must not take one for the other."""
    assert copies(ahead(PIPELINES[0]))[1] > 0
    all_of_them, with_policy = copies(ahead("descriptors"))
    assert all_of_them > with_policy == 0
    assert "_reading_once" not in module("descriptors").source


def test_loads_by_one_descriptor_must_all_say_so():
    text = to_text(parse_pipeline(PIPELINES[0]).run(parse(FEW_ROWS)))
    load = next(line for line in text.splitlines() if line.endswith("evict_first"))
    assert emit(parse(text)).kernels[0].described.once == (1,)
    twice = text.replace(load, f"{load}\n{load}")
    assert emit(parse(twice)).kernels[0].described.once == (1,)
    for again in (f"{load.removesuffix(' evict_first')}\n{load}", f"{load}\n{load[:-12]}"):
        assert emit(parse(text.replace(load, again))).kernels[0].described.once == ()


def test_the_interpreter_has_no_copies_and_the_same_numbers():
    a, b = integers((32, 128), torch.float16, 1), integers((128, 96), torch.float16, 2)
    found = [torch.full((32, 96), torch.nan) for _ in range(2)]
    for pipeline, c in zip((PIPELINES[0], "descriptors"), found, strict=True):
        compile(module(pipeline), "interpret")(a, b, c)
    assert torch.equal(*found)
    assert torch.equal(found[0], a.float() @ b.float())


# --- the text


def test_a_copy_of_a_descriptor_that_is_named():
    changed = functions()._with_policies(f"{HEAD}\n{LINE.replace('%X', '%8')}\n}}", (1,))
    asm, constraints = re.findall(r'"([^"]*)"', changed.splitlines()[1])
    assert asm == (
        "{ .reg .b64 once; createpolicy.fractional.L2::evict_first.b64 once, 1.0; "
        "@$0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [$1], [$2, {$3, $4}], [$5], once; }"
    )
    assert constraints == "b,r,l,r,r,r"
    assert changed.replace(asm, LINE.split('"')[1]) == f"{HEAD}\n{LINE.replace('%X', '%8')}\n}}"


@pytest.mark.parametrize(
    ("head", "line", "places"),
    [
        (HEAD, LINE.replace("%X", "%3"), (1,)),
        (HEAD, LINE.replace("%X", "%8"), (0,)),
        (HEAD, LINE.replace("%X", "%88"), (0, 1)),
        (HEAD, LINE.replace("%X", "%8"), (2,)),
        (HEAD, LINE.replace("%X", "%8"), ()),
        ("", LINE.replace("%X", "%8"), (0, 1)),
        (HEAD, LINE.replace("%X", "%8").replace("shared::cluster.global", "global.shared"), (0, 1)),
        (HEAD, "  %5 = load i32, ptr %8", (0, 1)),
    ],
)
def test_any_other_line_stays_as_it_is(head: str, line: str, places: tuple[int, ...]):
    assert functions()._with_policies(f"{head}\n{line}", places) == f"{head}\n{line}"


# --- the hook


class Backend:
    """The part of Triton's that asks the hook for changes of its stages."""

    @staticmethod
    def lowered() -> str:
        stages = {"llir": lambda source: f"{HEAD}\n{LINE.replace('%X', '%8')}"}
        if knobs.runtime.add_stages_inspection_hook is not None:
            knobs.runtime.add_stages_inspection_hook(Backend(), stages, None, None, 90)
        return stages["llir"]("source")


def test_the_hook_is_there_while_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    with functions()._reading_once((1,)):
        assert "cache_hint" in Backend.lowered()
    assert knobs.runtime.add_stages_inspection_hook is None
    assert "cache_hint" not in Backend.lowered()
    with pytest.raises(ZeroDivisionError), functions()._reading_once((1,)):
        raise ZeroDivisionError
    assert knobs.runtime.add_stages_inspection_hook is None


def test_a_hook_of_the_users_is_called_and_stays(monkeypatch):
    seen = []

    def hook(backend, stages, *about):
        seen.append(tuple(stages))

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    with functions()._reading_once((1,)):
        assert "cache_hint" in Backend.lowered()
    assert seen == [("llir",)]
    assert knobs.runtime.add_stages_inspection_hook is hook


def test_what_another_thread_compiles_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)
    found = []
    with functions()._reading_once((1,)):
        other = threading.Thread(target=lambda: found.append(Backend.lowered()))
        other.start()
        other.join()
    assert len(found) == 1
    assert "cache_hint" not in found[0]
